package distlock

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
)

// A Leader is who leads, as far as the store knows. The zero Leader is nobody.
type Leader struct {
	Term   uint64 // 0: nobody leads
	Holder string
	Value  []byte        // what it published last
	Held   time.Duration // for how long it has led
	Line   int           // how many candidates wait
}

// Leader returns who leads. It may have changed by the time it is read.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	claims, err := e.l.show(ctx, kindLead, e.name)
	var out Leader
	for _, c := range claims {
		if c.Waiting {
			out.Line++
		} else {
			out.Term, out.Holder, out.Value, out.Held = c.Fence, c.Holder, c.Value, c.Held
		}
	}
	return out, err
}

// Observe yields who leads, and again whenever that or its value changes; nobody is the zero Leader. It looks when the store tells
// that a term ended, and otherwise as often as Backoff permits: once a second by default. What
// changed and changed back between two looks is not seen.
//
// An error says that the store does not answer. It is yielded once, and the looking goes on. Observe ends with ctx, or
// after an error that will not pass.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		r, err := e.request(ctx)
		if err != nil {
			yield(Leader{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var wake <-chan driver.Wake
		var last *Leader // what was yielded; nil: an error, or nothing yet
		failing := false
		for n := 1; ; n++ {
			if wake == nil {
				wake = driver.Watch(ctx, e.l.store, driver.ID{Key: r.Key}) // before the look, so that nothing falls in between
			}
			now, err := e.Leader(ctx)
			news := last == nil || last.Term != now.Term || !bytes.Equal(last.Value, now.Value)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !failing && !yield(Leader{}, err) || !errors.Is(err, ErrUnavailable) {
					return
				}
				failing, last = true, nil
			case news:
				if !yield(now, nil) {
					return
				}
				n, failing, last = 1, false, &now
			}
			pause := backoff.Jitter(r.opt.most)
			if err == nil && now.Term == 0 {
				pause = backoff.Pause(n, r.opt.first, r.opt.most) // somebody is about to be elected
			}
			select {
			case <-ctx.Done():
				return
			case <-wake:
				n = 0
			case <-time.After(pause):
			}
		}
	}
}
