package redis_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
)

// The value of a name is exactly the owner, so that other programs can compare it, unless a release
// has more to do than to delete the name. The value of another program stays as it is.
func TestStore_virtual_value(t *testing.T) {
	t.Parallel()
	const busy = "distlock:busy:"
	for name, join := range map[string]func(t *testing.T, s capped, r driver.Request) (leave func() error){
		"an exclusive waiter": func(t *testing.T, s capped, r driver.Request) func() error {
			w := exclusive(r.Key)
			w.QueueTTL = time.Minute
			refuse(t, s, w)
			return func() error { return s.Release(t.Context(), w.ID) }
		},
		"a shared waiter": func(t *testing.T, s capped, r driver.Request) func() error {
			w := shared(r.Key)
			w.QueueTTL = time.Minute
			refuse(t, s, w)
			return func() error { return s.Release(t.Context(), w.ID) }
		},
		"a long TTL": func(t *testing.T, s capped, r driver.Request) func() error {
			renew := func(ttl time.Duration) error {
				_, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: ttl})
				return err
			}
			if err := renew(time.Hour); err != nil {
				t.Fatal(err)
			}
			return func() error { return renew(r.TTL) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := virtual().Open(t).(capped)
				value := func(want string) {
					t.Helper()
					if got, err := s.server.Get("lock:key"); err != nil || got != want {
						t.Errorf("the value is %q, %v; want %q", got, err, want)
					}
				}
				a := exclusive("key")
				grant(t, s, a)
				value(a.Owner)
				left := s.server.TTL("lock:key")
				leave := join(t, s, a)
				value(busy + a.Owner)
				if now := s.server.TTL("lock:key"); now < left {
					t.Errorf("the claim lives for %v, and for %v when somebody joined", left, now)
				}
				if err := leave(); err != nil {
					t.Fatal(err)
				}
				value(a.Owner)
				if err := s.Release(t.Context(), a.ID); err != nil {
					t.Fatal(err)
				}
				if name == "a long TTL" {
					return
				}
				if err := s.server.Set("lock:key", "another"); err != nil {
					t.Fatal(err)
				}
				join(t, s, a)
				value("another")
			})
		})
	}
}

// A name that has expired belongs to the head of its queue. A newcomer leaves it free, and changes
// nothing.
func TestStore_virtual_expiredHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := virtual().Open(t).(capped)
		a, w := exclusive("key"), exclusive("key")
		a.TTL, w.QueueTTL = time.Second, time.Minute
		first := grant(t, s, a)
		refuse(t, s, w)
		time.Sleep(a.TTL)
		refuse(t, s, exclusive("key"))
		if s.server.Exists("lock:key") {
			t.Error("the newcomer left its owner behind")
		}
		if next := grant(t, s, w); next.Fence < first.Fence+driver.Span {
			t.Errorf("fence %d, and then %d", first.Fence, next.Fence)
		}
	})
}
