package chaos

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// Options configure the faults that a link produces by itself, and report them.
type Options struct {
	Name string // the client of the link: for Fault.Client and the plan's draws
	Plan Plan

	// Timeout is how long a caller that is cut off waits for its error. 0 means until its ctx ends,
	// the link heals or the Store is closed.
	Timeout time.Duration

	// Observe is called for each fault. The fault of a call is reported when the call returns. A
	// late delivery and a drawn freeze are reported when they begin, with the time at which they
	// will end. A command is reported when it ends. Many goroutines call Observe. It must not call
	// the Store.
	Observe func(Fault)
}

// A Store is one client's link to a store. Create one with [New], and Close it.
type Store struct {
	inner driver.Store
	opts  Options
	born  time.Time

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	late   sync.WaitGroup // deliveries and watches in progress

	mu     sync.Mutex
	closed bool
	calls  map[Verb]uint64   // the number of calls
	next   map[Verb][]Action // commanded, for the next calls
	until  time.Time         // a drawn freeze lasts until then
	frozen *spell            // a commanded freeze; nil: none
	cut    *spell            // a commanded cut; nil: none
	dirs   Direction         // of the cut
}

// A spell is a commanded state of a link.
type spell struct {
	from  time.Time
	ended chan struct{}
}

// New returns a link to inner. With nil options it only forwards calls, until a command changes
// that. It panics if the chances of the plan are invalid.
func New(inner driver.Store, o *Options) *Store {
	if o == nil {
		o = &Options{}
	}
	o.Plan.check()
	s := &Store{inner: inner, opts: *o, born: time.Now(), calls: map[Verb]uint64{}, next: map[Verb][]Action{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close drops requests that are still on their way, ends calls and watches in progress, and waits
// for the goroutines of this Store. It does not close the store behind the link.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel() // before Thaw, which would let calls continue
	s.Thaw()
	s.Heal()
	s.late.Wait()
}

// Features are those of the store behind the link.
func (s *Store) Features() driver.Features { return s.inner.Features() }

// Acquire forwards the call.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	return call(ctx, s, Acquire, r.Key, func(ctx context.Context) (driver.Result, error) {
		return s.inner.Acquire(ctx, r)
	})
}

// Renew forwards the call.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	return call(ctx, s, Renew, r.Key, func(ctx context.Context) (int, error) {
		return s.inner.Renew(ctx, r)
	})
}

// Release forwards the call.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	_, err := call(ctx, s, Release, id.Key, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.inner.Release(ctx, id)
	})
	return err
}

// RenewAll forwards the call. It is one round trip: all of its renewals share one fate.
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

// Show forwards the call.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	return call(ctx, s, Show, key, func(ctx context.Context) ([]driver.Claim, error) {
		return driver.Show(ctx, s.inner, key)
	})
}

// List forwards the call. It is one round trip: the whole list arrives, or none of it.
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

// Break forwards the call.
func (s *Store) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	return call(ctx, s, Break, key, func(ctx context.Context) ([]driver.Claim, error) {
		return driver.Break(ctx, s.inner, key, upTo, reason)
	})
}

// Inspect forwards the call.
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
