package drivertest

import (
	"time"

	"github.com/distlock/distlock/driver"
)

// watch watches for id until the law ends.
func (p *probe) watch(id driver.ID) <-chan driver.Wake {
	ch := driver.Watch(p.t.Context(), p.store, id)
	if ch == nil {
		p.wrong("Watch(%s): nil, want a channel", driver.Tag(id.Owner))
	}
	return ch
}

// settle lets news arrive and forgets it: a watch may be ready for no reason.
func (p *probe) settle(chans ...<-chan driver.Wake) {
	p.pause()
	for _, ch := range chans {
		select {
		case <-ch:
		default:
		}
	}
}

// woken wants the channel to be ready soon, and returns what it tells.
func (p *probe) woken(ch <-chan driver.Wake, who string) driver.Wake {
	select {
	case told, open := <-ch:
		if !open {
			p.wrong("the watch of %s was closed, want it left open", who)
		}
		return told
	case <-time.After(5 * p.patience): // waiting costs nothing where the store is well
		p.fail("%s was not woken", who)
	}
	return driver.Wake{}
}

// asleep wants the channel not to be ready.
func (p *probe) asleep(ch <-chan driver.Wake, who string) {
	p.pause()
	select {
	case <-ch:
		p.fail("%s was woken, want it left asleep", who)
	default:
	}
}
