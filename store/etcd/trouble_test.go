package etcd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/etcd"
)

// A holder that is cut off learns that its lock is lost before another process gets it.
func TestStore_cut_off(t *testing.T) {
	t.Parallel()
	const ttl = 3 * life // the answer to an attempt that took 5 s, its limit, is trusted
	e := testenv.Etcd(t)
	near, err := distlock.New(store(t, connect(t, e.Endpoints()...), "p"), distlock.TTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	for name, cut := range map[string]testenv.Direction{
		"both": testenv.Both, "replies": testenv.ToClient, "requests": testenv.ToServer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := testenv.Proxy(t, strings.TrimPrefix(e.Endpoints()[0], "http://"))
			far, err := distlock.New(store(t, connect(t, proxy.Addr), "p"), distlock.TTL(ttl))
			if err != nil {
				t.Fatal(err)
			}
			lease, err := far.Lock(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			proxy.Cut(cut)
			next, err := near.Lock(t.Context(), name, distlock.MaxWait(4*ttl))
			if err != nil {
				t.Fatal(err)
			}
			if lease.Err() == nil || lease.Valid(0) {
				t.Error("another process has the lock, and the holder trusts its lease")
			}
			if next.Fence() <= lease.Fence() {
				t.Errorf("the fence %d after %d", next.Fence(), lease.Fence())
			}
			if err := next.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			proxy.Heal()
		})
	}
}

// A claim outlives a crash of the server, and fences grow.
func TestStore_restart(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t)
	s := store(t, connect(t, e.Endpoints()...), "p")
	held := whole("key")
	first, err := s.Acquire(t.Context(), held)
	if err != nil || !first.Granted {
		t.Fatal(first, err)
	}
	e.Members[0].Kill()
	if _, err := s.Acquire(t.Context(), whole("other")); err == nil {
		t.Error("granted by a server that is down")
	}
	e.Members[0].Restart()
	soon(t, func() error {
		res, err := s.Acquire(t.Context(), whole("key"))
		if res.Granted {
			t.Fatal("a claim was forgotten")
		}
		return err
	})
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: held.ID, TTL: time.Minute}); err != nil {
		t.Error(err)
	}
	if err := s.Release(t.Context(), held.ID); err != nil {
		t.Error(err)
	}
	if next, err := s.Acquire(t.Context(), whole("key")); err != nil || next.Fence < first.Fence+driver.Span {
		t.Error(next, first, err)
	}
}

// soon repeats a call until it succeeds.
func soon(t *testing.T, call func() error) {
	t.Helper()
	for by := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := call()
		if err == nil {
			return
		}
		if time.Now().After(by) {
			t.Fatal(err)
		}
	}
}

// inTime runs a scenario, each time with another prefix, until the machine kept up with it. The
// scenario returns what was too slow for a verdict, or "". A violation fails the test at once.
func inTime(t *testing.T, scenario func(prefix string) (slow string)) {
	t.Helper()
	const most = 10
	for i := range most {
		slow := scenario(fmt.Sprintf("p%d", i))
		if slow == "" || t.Failed() {
			return
		}
		t.Logf("run %d has no verdict: %s", i+1, slow)
	}
	t.Fatalf("the machine was too slow in %d runs", most)
}

// A cluster that is replaced by an empty one forgets claims, and its fences begin again. The
// identity is another.
func TestStore_replaced(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t)
	s := store(t, connect(t, e.Endpoints()...), "p")
	was, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r := whole("warm")
		if _, err := s.Acquire(t.Context(), r); err != nil || s.Release(t.Context(), r.ID) != nil {
			t.Fatal(err)
		}
	}
	first, err := s.Acquire(t.Context(), whole("key"))
	if err != nil || !first.Granted {
		t.Fatal(first, err)
	}
	e.Members[0].RestartEmpty()
	s = store(t, connect(t, e.Endpoints()...), "p")
	var next driver.Result
	soon(t, func() error { next, err = s.Acquire(t.Context(), whole("key")); return err })
	if !next.Granted || next.Fence >= first.Fence {
		t.Errorf("granted %v, fence %d after %d", next.Granted, next.Fence, first.Fence)
	}
	if is, err := s.Inspect(t.Context()); err != nil || is.Identity == was.Identity {
		t.Error(is.Identity, err)
	}
}

// Keys that another program deletes or writes below the prefix: the holder of a deleted claim
// learns it at its next renewal, and keys that are no claims count for nothing.
func TestStore_foreign_keys(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.Etcd(t).Endpoints()...)
	s := store(t, c, "p")
	for _, key := range []string{"p/k/key/c/x", "p/k/key/q/y", "p/k/key/z", "p/k/%zz/c/x", "p/x"} {
		if _, err := c.Put(t.Context(), key, "not JSON"); err != nil {
			t.Fatal(err)
		}
	}
	r := whole("key")
	first, err := s.Acquire(t.Context(), r)
	if err != nil || !first.Granted {
		t.Fatal(first, err)
	}
	n := 0
	for _, err := range s.List(t.Context(), "") {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d claims are listed", n)
	}
	if _, err := c.Delete(t.Context(), "p/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: life}); !errors.Is(err, driver.ErrNotHeld) {
		t.Error(err)
	}
	if next, err := s.Acquire(t.Context(), whole("key")); err != nil || next.Fence < first.Fence+driver.Span {
		t.Error(next, err)
	}
}

// cheapPasswords makes the check of a password cheap. Open waits for it for 5 s at most, and with
// the default cost it can take longer on a busy machine.
var cheapPasswords = testenv.Config("--bcrypt-cost=4")

// When the password of the user is replaced, calls say that they changed nothing, until the store
// is opened with the new one.
func TestStore_password(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t, cheapPasswords)
	c, ctx := connect(t, e.Endpoints()...), t.Context()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(c.UserAdd(ctx, "root", "first"))
	do(c.UserGrantRole(ctx, "root", "root"))
	do(c.AuthEnable(ctx))
	open := func(password string) *etcd.Store {
		s, err := etcd.Open(ctx, "etcd://root:"+password+"@"+strings.TrimPrefix(e.Endpoints()[0], "http://")+"/p")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open("first")
	r := whole("key")
	if res, err := s.Acquire(ctx, r); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	admin, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), Username: "root", Password: "first"})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	do(admin.UserChangePassword(ctx, "root", "second"))
	if _, err := s.Acquire(ctx, whole("other")); err == nil || !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("with the old password: %v, want ErrUnavailable", err)
	}
	if _, err := open("second").Renew(ctx, driver.Renewal{ID: r.ID, TTL: time.Minute}); err != nil {
		t.Error(err)
	}
}

// A renewal that comes after its claim became a record does not prolong the record.
func TestStore_late_renewal(t *testing.T) {
	t.Parallel()
	s, ctx := store(t, connect(t, testenv.Etcd(t).Endpoints()...), "p"), t.Context()
	const kept = 2 * life
	r := whole("key")
	r.TTL = kept
	if res, err := s.Acquire(ctx, r); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	if _, err := s.Renew(ctx, driver.Renewal{ID: r.ID, TTL: kept, Keep: true}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(kept / 3)
	if _, err := s.Renew(ctx, driver.Renewal{ID: r.ID, TTL: kept}); err != nil && !errors.Is(err, driver.ErrNotHeld) { // after a stall
		t.Fatal(err)
	}
	cs, err := s.Show(ctx, "key")
	if err != nil || len(cs) > 1 {
		t.Fatal(cs, err)
	}
	for _, c := range cs {
		if c.Left > kept-time.Second {
			t.Errorf("the record lives for %v after %v of %v", c.Left, kept/3, kept)
		}
	}
}
