package distlock

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
	"github.com/distlock/distlock/internal/names"
)

// A Leader is the leader of an election, as the store knows it. The zero Leader says that nobody
// leads.
type Leader struct {
	Term    uint64 // 0: nobody leads
	Holder  string
	Value   []byte        // the value that it published last
	Held    time.Duration // for how long it has led
	Waiters int           // how many candidates wait
}

// Leader returns the leader under a name. It may have changed by the time it is read.
func (e *Election) Leader(ctx context.Context, name string) (Leader, error) {
	claims, err := e.l.show(ctx, names.Election, name)
	var out Leader
	for _, c := range claims {
		if c.Waiting {
			out.Waiters++
		} else {
			out.Term, out.Holder, out.Value, out.Held = c.Fence, c.Holder, c.Value, c.Held
		}
	}
	return out, err
}

// Observe yields the leader under a name, and again whenever the leader or its value changes; the zero Leader if
// nobody leads. It reads the store when the store notifies it that a term ended, and otherwise
// after the pauses of [Backoff]: once a second by default. It does not see what changed and changed
// back between two reads.
//
// An error says that the store does not answer. It is yielded once, and Observe continues. Observe
// ends with ctx, or after an error that is permanent.
func (e *Election) Observe(ctx context.Context, name string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		r, err := e.request(ctx, name, nil)
		if err != nil {
			yield(Leader{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var wake <-chan driver.Wake
		var last *Leader // the last one that was yielded; nil: an error, or nothing yet
		failing := false
		for n := 1; ; n++ {
			if wake == nil {
				wake = driver.Watch(ctx, e.l.store, driver.ID{Key: r.Key}) // before the read, so that nothing falls in between
			}
			now, err := e.Leader(ctx, name)
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
				pause = backoff.Pause(n, r.opt.first, r.opt.most) // an election is under way
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
