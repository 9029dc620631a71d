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

// A Store is the link of one process to a store in memory. [New] makes one. Pass it to
// distlock.New.
//
// There are two sorts of commands. The commands that break something ([Store.Cut], [Store.Freeze],
// [Store.Delay], [Store.Down], [Store.LoseRequests], [Store.LoseReplies], [Store.Unavailable]) are
// for this link alone: other links to the same store still work. The commands about names
// ([Store.Hold], [Store.Steal], [Store.Expire], [Store.Holders], [Store.Waiting]) are for the store
// that all links share. They take effect at once, also on a broken link. All commands may be called
// at any time.
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
// t must be the t of the bubble. In an Example t may be nil: the caller then closes the [Store],
// and a command that makes no sense panics instead of failing the test.
func New(t testing.TB) *Store {
	if t == nil {
		t = noTest{}
	}
	return newLink(t, newBase())
}

// Link returns another link to the same store, for the Locker of another process. It is closed like
// the first one.
func (s *Store) Link() *Store { return newLink(s.t, s.base) }

func newLink(t testing.TB, b *base) *Store {
	s := &Store{t: t, base: b, link: chaos.New(b, nil), calls: map[Verb]int{}}
	t.Cleanup(s.Close)
	return s
}

// Close ends the calls and watches that are under way on this link, and drops requests and replies
// that are still on their way. Other links stay as they are. Close may be called twice.
func (s *Store) Close() { s.link.Close() }

// noTest replaces the test in an Example. Only these methods of a test are called.
type noTest struct{ testing.TB }

func (noTest) Helper()                           {}
func (noTest) Cleanup(func())                    {}
func (noTest) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Features declares every feature.
func (s *Store) Features() driver.Features { return s.link.Features() }

// Acquire is a call to the store, as are the methods below.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	s.apply(ctx, Acquire, chaos.Acquire)
	return s.link.Acquire(ctx, r)
}

// Renew implements [driver.Store].
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	s.apply(ctx, Renew, chaos.Renew)
	return s.link.Renew(ctx, r)
}

// RenewAll implements [driver.AllRenewer]. It is one call.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	s.apply(ctx, Renew, chaos.RenewAll)
	return s.link.RenewAll(ctx, rs)
}

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	s.apply(ctx, Release, chaos.Release)
	return s.link.Release(ctx, id)
}

// Watch implements [driver.Watcher]. It cannot be lost or delayed, but on a link that is cut off or
// frozen no wake-up arrives.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	return s.link.Watch(ctx, id)
}

// Show implements [driver.Shower].
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	s.apply(ctx, Show, chaos.Show)
	return s.link.Show(ctx, key)
}

// List implements [driver.Lister]. It is one call.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		s.apply(ctx, List, chaos.List)
		s.link.List(ctx, prefix)(yield)
	}
}

// Break implements [driver.Breaker].
func (s *Store) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	s.apply(ctx, Break, chaos.Break)
	return s.link.Break(ctx, key, upTo, reason)
}

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	s.apply(ctx, Inspect, chaos.Inspect)
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
