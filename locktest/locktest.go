package locktest

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
)

// A Store is one process's link to a store in memory. Make one with New, and give it to
// distlock.New.
//
// There are two sorts of commands. Those that break something (Cut, Freeze, Delay, Down, LoseRequests,
// LoseReplies, Unavailable) are for this link alone: other links to the same store go on. Those
// about names (Hold, Steal, Expire, Holders, Waiting) are for the store that all links share; they are
// obeyed at once, on a broken link too. All may be given at any time.
type Store struct {
	t    testing.TB
	base *base
	link *chaos.Store

	mu    sync.Mutex
	calls map[Verb]int
	todo  []order // for the next calls
	down  bool
	delay time.Duration
}

// New returns a link to an empty store, and closes it at the end of t. In a testing/synctest bubble
// t must be the bubble's. In an Example, which has none, t may be nil: then the caller closes
// the Store, and a command that makes no sense panics instead of failing the test.
func New(t testing.TB) *Store {
	if t == nil {
		t = noTest{}
	}
	return newLink(t, newBase())
}

// Link returns another link to the same store, for another Locker: another process. It is closed as
// the first one is.
func (s *Store) Link() *Store { return newLink(s.t, s.base) }

func newLink(t testing.TB, b *base) *Store {
	s := &Store{t: t, base: b, link: chaos.New(b, nil), calls: map[Verb]int{}}
	t.Cleanup(s.Close)
	return s
}

// Close ends the calls and watches that are under way on this link, and drops what is still on its
// way. Other links stay as they are. It may be called twice.
func (s *Store) Close() { s.link.Close() }

// noTest stands for the test where there is none. No more than these methods of a test are called.
type noTest struct{ testing.TB }

func (noTest) Helper()                           {}
func (noTest) Cleanup(func())                    {}
func (noTest) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Features declares everything.
func (s *Store) Features() driver.Features { return s.link.Features() }

// Acquire is a call to the store, as are the methods below.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	s.meet(ctx, Acquire, chaos.Acquire)
	return s.link.Acquire(ctx, r)
}

// Renew implements driver.Store.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	s.meet(ctx, Renew, chaos.Renew)
	return s.link.Renew(ctx, r)
}

// RenewAll implements driver.AllRenewer. It is one call.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	s.meet(ctx, Renew, chaos.RenewAll)
	return s.link.RenewAll(ctx, rs)
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	s.meet(ctx, Release, chaos.Release)
	return s.link.Release(ctx, id)
}

// Watch implements driver.Watcher. It is no call that could be lost or delayed, but on a link that is
// cut off or frozen no wake-up comes.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	return s.link.Watch(ctx, id)
}

// Show implements driver.Shower.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	s.meet(ctx, Show, chaos.Show)
	return s.link.Show(ctx, key)
}

// List implements driver.Lister. It is one call.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		s.meet(ctx, List, chaos.List)
		s.link.List(ctx, prefix)(yield)
	}
}

// Break implements driver.Breaker.
func (s *Store) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	s.meet(ctx, Break, chaos.Break)
	return s.link.Break(ctx, key, upTo, reason)
}

// Inspect implements driver.Inspector.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	s.meet(ctx, Inspect, chaos.Inspect)
	return s.link.Inspect(ctx)
}

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
