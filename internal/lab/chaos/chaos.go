package chaos

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// Options say how a link misbehaves by itself, and who is told.
type Options struct {
	Name string // whose link it is: for Fault.Client and the plan's draws
	Plan Plan

	// Timeout is how long a caller that is cut off waits for its error. 0 means until its
	// ctx ends, the link heals or the Store is closed.
	Timeout time.Duration

	// Observe is told of each fault: of a call when the call returns, of a late
	// delivery and a drawn freeze when they begin, with the time at which they will be over, and
	// of a command when it is taken back. It is called by many goroutines, and must not
	// call the Store.
	Observe func(Fault)
}

// A Store is one client's link to a store. Make one with New, and Close it.
type Store struct {
	inner driver.Store
	opts  Options
	born  time.Time

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	late   sync.WaitGroup // deliveries and watches under way

	mu     sync.Mutex
	closed bool
	calls  map[Verb]uint64   // how many there were
	next   map[Verb][]Action // commanded, for the next ones
	until  time.Time         // a drawn freeze lasts until then
	frozen *spell            // a commanded freeze; nil: none
	cut    *spell            // a commanded cut; nil: none
	dirs   Direction         // of the cut
}

// A spell is a commanded state of a link.
type spell struct {
	from time.Time
	over chan struct{}
}

// New returns a link to inner. With nil options it does nothing but pass calls on, until
// it is commanded otherwise. It panics if the chances of the plan are not chances.
func New(inner driver.Store, o *Options) *Store {
	if o == nil {
		o = &Options{}
	}
	o.Plan.check()
	s := &Store{inner: inner, opts: *o, born: time.Now(), calls: map[Verb]uint64{}, next: map[Verb][]Action{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close drops what is still on its way, ends calls and watches that are under way, and
// waits for those that nobody else waits for. It does not close the store behind it.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel() // before the thaw, which would let calls go on
	s.Thaw()
	s.Heal()
	s.late.Wait()
}

// Features are those of the store behind the link.
func (s *Store) Features() driver.Features { return s.inner.Features() }

// Acquire passes the call on.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	return call(ctx, s, Acquire, r.Key, func(ctx context.Context) (driver.Result, error) {
		return s.inner.Acquire(ctx, r)
	})
}

// Renew passes the call on.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	return call(ctx, s, Renew, r.Key, func(ctx context.Context) (int, error) {
		return s.inner.Renew(ctx, r)
	})
}

// Release passes the call on.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	_, err := call(ctx, s, Release, id.Key, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.inner.Release(ctx, id)
	})
	return err
}

// RenewAll passes the call on. It is one trip: all of its renewals share one fate.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	var key string
	if len(rs) > 0 {
		key = rs[0].Key
	}
	out, err := call(ctx, s, RenewAll, key, func(ctx context.Context) ([]driver.Renewed, error) {
		return driver.RenewAll(ctx, s.inner, rs), nil
	})
	if err != nil {
		out = make([]driver.Renewed, len(rs))
		for i := range out {
			out[i].Err = err
		}
	}
	return out
}

// Show passes the call on.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	return call(ctx, s, Show, key, func(ctx context.Context) ([]driver.Claim, error) {
		return driver.Show(ctx, s.inner, key)
	})
}

// List passes the call on. It is one trip: the whole list comes, or none of it.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		claims, err := call(ctx, s, List, prefix, func(ctx context.Context) (out []driver.Claim, err error) {
			for c, err := range driver.List(ctx, s.inner, prefix) {
				if err != nil {
					return out, err
				}
				out = append(out, c)
			}
			return out, nil
		})
		for _, c := range claims {
			if !yield(c, nil) {
				return
			}
		}
		if err != nil {
			yield(driver.Claim{}, err)
		}
	}
}

// Break passes the call on.
func (s *Store) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	return call(ctx, s, Break, key, func(ctx context.Context) ([]driver.Claim, error) {
		return driver.Break(ctx, s.inner, key, upTo, reason)
	})
}

// Inspect passes the call on.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	return call(ctx, s, Inspect, "", func(ctx context.Context) (driver.Info, error) {
		return driver.Inspect(ctx, s.inner)
	})
}

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
