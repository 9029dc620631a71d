package drivertest

import (
	"time"

	"github.com/distlock/distlock/driver"
)

// watch watches for id until the rule ends.
func (p *probe) watch(id driver.ID) <-chan driver.Wake {
	ch := driver.Watch(p.t.Context(), p.store, id)
	if ch == nil {
		p.wrong("Watch(%s): nil, want a channel", driver.Tag(id.Owner))
	}
	return ch
}

// settle drains the channels after a pause: a watch may be ready for no reason.
func (p *probe) settle(chans ...<-chan driver.Wake) {
	p.pause()
	for _, ch := range chans {
		select {
		case <-ch:
		default:
		}
	}
}

// woken fails unless the channel is ready soon, and returns the message.
func (p *probe) woken(ch <-chan driver.Wake, who string) driver.Wake {
	select {
	case wake, open := <-ch:
		if !open {
			p.wrong("the watch of %s was closed, want it left open", who)
		}
		return wake
	case <-time.After(5 * p.patience): // a correct store is ready earlier
		p.fail("%s was not woken", who)
	}
	return driver.Wake{}
}

// asleep fails if the channel is ready.
func (p *probe) asleep(ch <-chan driver.Wake, who string) {
	p.pause()
	select {
	case <-ch:
		p.fail("%s was woken, want it left asleep", who)
	default:
	}
}
