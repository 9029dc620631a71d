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

// An attempt far from the head of the queue renews the entry, and changes nothing else: as one near
// the head does, which has another path in the script.
func TestStore_virtual_farAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many, life, pause = 40, 5 * time.Second, 3 * time.Second
		s := virtual().Open(t).(capped)
		a := exclusive("key")
		a.TTL = 8 * time.Minute
		first := grant(t, s, a)
		waiters := make([]driver.Request, many)
		begun := time.Now()
		attempt := func(at int) {
			t.Helper()
			res := refuse(t, s, waiters[at])
			if res.Ahead != at || res.Behind != many-1-at || res.Used != driver.Whole || at > 16 && res.Retry > 0 ||
				res.Blocker.Owner != driver.Tag(a.Owner) || res.Blocker.Fence != first.Fence || res.Blocker.Held != time.Since(begun) {
				t.Errorf("the attempt of waiter %d: %+v", at, res)
			}
		}
		for i := range waiters {
			waiters[i] = exclusive("key")
			waiters[i].QueueTTL, waiters[i].Holder = life, "holder"
			refuse(t, s, waiters[i])
		}
		for range 3 {
			time.Sleep(pause)
			for at := range waiters {
				attempt(at)
			}
			cs, err := driver.Show(t.Context(), s, "key")
			if err != nil || len(cs) != many+1 {
				t.Fatalf("%d claims and entries, %v; want %d", len(cs), err, many+1)
			}
			for at, c := range cs[1:] {
				if !c.Waiting || c.Owner != driver.Tag(waiters[at].Owner) || c.Left != life || c.Held != time.Since(begun) || c.Holder != "holder" {
					t.Errorf("the entry of waiter %d: %+v", at, c)
				}
			}
		}
		for _, key := range []string{"{lock:key}:m", "{lock:key}:c", "{lock:key}:z"} {
			if left := s.server.TTL(key); left < 599*time.Second {
				t.Errorf("%s lives for %v, want about ten minutes from the last attempt", key, left)
			}
		}
		if err := s.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		if res := grant(t, s, waiters[0]); res.Fresh || res.Behind != many-1 {
			t.Errorf("the head of the queue after the release: %+v", res)
		}
		time.Sleep(life) // nobody attempts: all entries end
		res := refuse(t, s, waiters[many-1])
		if res.Ahead != 0 {
			t.Errorf("%d ahead, want none: their entries have ended", res.Ahead)
		}
	})
}
