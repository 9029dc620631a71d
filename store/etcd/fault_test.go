package etcd_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/etcd"
)

// A cluster that is out of space grants nothing and says so; it renews and releases.
func TestStore_full(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t)
	c := connect(t, e.Endpoints()...)
	s := store(t, c, "p")
	held, released := whole("held"), whole("released")
	for _, r := range []driver.Request{held, released} {
		if res, err := s.Acquire(t.Context(), r); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
	}
	contended, waits := whole("contended"), whole("contended")
	waits.QueueTTL = time.Minute
	for i, r := range []driver.Request{contended, waits} {
		if res, err := s.Acquire(t.Context(), r); err != nil || res.Granted != (i == 0) {
			t.Fatal(res, err)
		}
	}
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	if _, err := pb.NewMaintenanceClient(c.ActiveConnection()).Alarm(t.Context(), alarm); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), whole("free")); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("an acquire: %v, want ErrUnavailable", err)
	}
	if res, err := s.Acquire(t.Context(), whole("held")); err == nil && res.Granted {
		t.Error("a held key was granted")
	}
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: held.ID, TTL: held.TTL}); err != nil {
		t.Error(err)
	}
	time.Sleep(etcd.LongHold)
	for _, r := range []driver.Request{released, contended} {
		if err := s.Release(t.Context(), r.ID); err != nil {
			t.Error(err)
		}
	}
	info, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found := finding(info, "NOSPACE"); found.Level != driver.LevelDanger {
		t.Errorf("%+v", info.Findings)
	}
}

// finding returns the finding that mentions a word.
func finding(info driver.Info, word string) driver.Finding {
	for _, f := range info.Findings {
		if strings.Contains(f.What, word) {
			return f
		}
	}
	return driver.Finding{}
}

func TestStore_inspect(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t, testenv.Config("--election-timeout=2000"))
	c := connect(t, e.Endpoints()...)
	a, b, other := store(t, c, "p"), store(t, c, "p"), store(t, c, "q")
	ids := map[string]int{}
	for _, s := range []*etcd.Store{a, b, other} {
		info, err := s.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids[info.Identity]++
		if finding(info, "one voting member").Level != driver.LevelWarning || finding(info, "the version is 3.").Level != driver.LevelOK ||
			finding(info, "least TTL of the server is 3 s").Level != driver.LevelWarning {
			t.Errorf("%+v", info.Findings)
		}
	}
	if len(ids) != 2 || ids[""] > 0 {
		t.Errorf("identities %v, want one for each prefix", ids)
	}
}

// A server whose least TTL is above the TTL of a claim ends the claim late, and its renewals keep
// it on its lease.
func TestStore_longer_least_TTL(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t, testenv.Config("--election-timeout=2000"))
	c := connect(t, e.Endpoints()...)
	inTime(t, func(prefix string) (slow string) { return keepsItsLease(t, c, prefix) })
}

func keepsItsLease(t *testing.T, c *clientv3.Client, prefix string) (slow string) {
	s := store(t, c, prefix)
	r := whole("key")
	r.TTL = 2 * time.Second
	last := time.Now()
	if res, err := s.Acquire(t.Context(), r); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	var revision int64
	for range 2 {
		sent := time.Now()
		_, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: r.TTL})
		if took := time.Since(last); took > r.TTL {
			return fmt.Sprintf("two renewals are %v apart, with a TTL of %v", took, r.TTL)
		}
		last = sent
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Get(t.Context(), prefix+"/k/key/c/", clientv3.WithPrefix())
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatal(resp, err)
		}
		if revision != 0 && revision != resp.Kvs[0].ModRevision {
			t.Error("a renewal with the same TTL has moved the claim")
		}
		revision = resp.Kvs[0].ModRevision
	}
	return ""
}

// A role on one prefix is enough for every call, and for no other prefix. A wrong password is an
// error without the password in it.
func TestStore_role(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t, cheapPasswords)
	c, ctx := connect(t, e.Endpoints()...), t.Context()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(c.UserAdd(ctx, "root", "root-password"))
	do(c.UserGrantRole(ctx, "root", "root"))
	do(c.RoleAdd(ctx, "locks"))
	do(c.RoleGrantPermission(ctx, "locks", "app/", clientv3.GetPrefixRangeEnd("app/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	do(c.UserAdd(ctx, "app", testenv.Canary))
	do(c.UserGrantRole(ctx, "app", "locks"))
	do(c.AuthEnable(ctx))
	addr := strings.TrimPrefix(e.Endpoints()[0], "http://")
	open := func(user, prefix string) (*etcd.Store, error) {
		s, err := etcd.Open(ctx, "etcd://"+user+"@"+addr+"/"+prefix)
		if err == nil {
			t.Cleanup(func() { s.Close() })
		}
		return s, err
	}
	s, err := open("app:"+testenv.Canary, "app")
	if err != nil {
		t.Fatal(err)
	}
	everything(t, s)
	s, err = open("app:"+testenv.Canary, "others")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(ctx, whole("key")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "permission") {
		t.Error("below another prefix:", err)
	}
	if _, err := open("app:not-"+testenv.Canary, "app"); err == nil || len(testenv.Leaks(err.Error(), testenv.Canary)) > 0 {
		t.Error("with a wrong password:", err)
	}
}

// everything makes every call.
func everything(t *testing.T, s *etcd.Store) {
	t.Helper()
	ctx := t.Context()
	a, b := whole("jobs"), whole("jobs")
	b.QueueTTL = time.Minute
	wake := s.Watch(ctx, b.ID)
	if res, err := s.Acquire(ctx, a); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	if res, err := s.Acquire(ctx, b); err != nil || res.Granted || res.Retry == 0 {
		t.Fatal(res, err)
	}
	if _, err := s.Renew(ctx, driver.Renewal{ID: a.ID, TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if cs, err := s.Show(ctx, "jobs"); err != nil || len(cs) != 2 {
		t.Fatal(cs, err)
	}
	if cs, err := s.Break(ctx, "jobs", 0, "test"); err != nil || len(cs) != 1 {
		t.Fatal(cs, err)
	}
	select {
	case <-wake:
	case <-time.After(10 * time.Second):
		t.Fatal("the waiter was not woken")
	}
	if res, err := s.Acquire(ctx, b); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	if err := s.Release(ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Inspect(ctx); err != nil {
		t.Fatal(err)
	}
}

// A cluster that requires client certificates accepts ours, and no client without one.
func TestStore_certificates(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t, testenv.TLS())
	url := "etcds://" + strings.TrimPrefix(e.Endpoints()[0], "https://") + "/app?tls_ca=" + e.Certs.CA
	s, err := etcd.Open(t.Context(), url+"&tls_cert="+e.Certs.Cert+"&tls_key="+e.Certs.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	everything(t, s)
	bare, err := etcd.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	if _, err := bare.Acquire(t.Context(), whole("key")); err == nil {
		t.Error("a client without a certificate was granted a claim")
	}
}

// A lease that was kept alive within the last second is used without another keep-alive, an older
// one with it: the claim lives for its whole TTL.
func TestStore_used_lease_slack(t *testing.T) {
	t.Parallel()
	s := store(t, connect(t, testenv.Etcd(t).Endpoints()...), "p")
	for _, idle := range []time.Duration{0, 500 * time.Millisecond, 2500 * time.Millisecond} {
		time.Sleep(idle)
		r, began := whole("key"), time.Now()
		r.TTL = 15 * time.Second
		if res, err := s.Acquire(t.Context(), r); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
		claims, err := s.Show(t.Context(), "key")
		if err != nil || len(claims) != 1 {
			t.Fatal(claims, err)
		}
		const grain = time.Second // the server reports whole seconds
		if left, least := claims[0].Left, r.TTL-time.Since(began)-grain; left < least {
			t.Errorf("after a pause of %v: the claim has %v left, want at least %v", idle, left, least)
		}
		if err := s.Release(t.Context(), r.ID); err != nil && time.Since(began) < r.TTL {
			t.Fatal(err)
		}
	}
}

// A claim on a lease that an earlier claim had lives for its whole TTL.
func TestStore_used_lease(t *testing.T) {
	t.Parallel()
	s := store(t, connect(t, testenv.Etcd(t).Endpoints()...), "p")
	ctx := t.Context()
	for range 3 { // all leases of the store were used before
		first := brief("first")
		if res, err := s.Acquire(ctx, first); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
		if err := s.Release(ctx, first.ID); err != nil && !errors.Is(err, driver.ErrNotHeld) { // after a stall
			t.Fatal(err)
		}
	}
	time.Sleep(life * 2 / 5)
	r, began := brief("key"), time.Now()
	if res, err := s.Acquire(ctx, r); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	for {
		res, err := s.Acquire(ctx, whole("key"))
		if time.Since(began) >= life {
			break
		}
		if err != nil || res.Granted {
			t.Fatal("granted to another owner after", time.Since(began), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// An owner's claim that was granted after Break had read the key is not ended by it.
func TestStore_break_of_an_owner(t *testing.T) {
	t.Parallel()
	s := store(t, connect(t, testenv.Etcd(t).Endpoints()...), "p")
	ctx := t.Context()
	r := whole("key")
	old, err := s.Acquire(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	var next driver.Result
	s.Between(func() { // the same owner, which callers avoid: its key is the same
		if err := s.Release(ctx, r.ID); err != nil {
			t.Error(err)
		}
		if next, err = s.Acquire(ctx, r); err != nil || next.Fence <= old.Fence {
			t.Error(next, err)
		}
	})
	cs, err := s.Break(ctx, "key", old.Fence, "test")
	if err != nil || len(cs) != 0 {
		t.Error(cs, err)
	}
	if _, err := s.Renew(ctx, driver.Renewal{ID: r.ID, TTL: r.TTL}); err != nil {
		t.Error(err)
	}
}

// Callers that have read the same state of a key, with capacity, are not all granted it.
func TestStore_same_state(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.Etcd(t).Endpoints()...)
	s := store(t, c, "p")
	// A key that is no claim: no caller finds the name unused, so all read the state first.
	if _, err := c.Put(t.Context(), "p/k/key/other", ""); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		var granted atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				r := whole("key")
				if res, err := s.Acquire(t.Context(), r); err != nil {
					t.Error(err)
				} else if res.Granted {
					granted.Add(1)
				}
			})
		}
		wg.Wait()
		if n := granted.Load(); n != 1 {
			t.Fatalf("%d of 8 callers were granted the key", n)
		}
		if cs, err := s.Break(t.Context(), "key", 0, "next round"); err != nil || len(cs) != 1 {
			t.Fatal(cs, err)
		}
	}
}

// Calls that are granted parts of one key at the same time overtake each other a few times, and not
// until they give up.
func TestStore_overtaken(t *testing.T) {
	t.Parallel()
	const n, workers = 128, 32
	m := &meter{}
	s := store(t, m.connect(t, testenv.Etcd(t).Endpoints()...), "p")
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range n / workers {
				r := whole("key")
				r.Weight, r.Limit = 1, n
				if res, err := s.Acquire(t.Context(), r); err != nil || !res.Granted {
					t.Error(res, err)
					return
				}
			}
		})
	}
	wg.Wait()
	// A grant needs a lease, an attempt on a free name, one that is overtaken, and one with the old
	// state after the gate. Then one call at a time is overtaken, by each of the others once.
	calls := m.calls.Load()
	t.Logf("%d calls for %d grants", calls, n)
	if calls > 7*n {
		t.Errorf("%d calls for %d grants", calls, n)
	}
}

// A waiter that withdraws while another process releases the key is not granted it.
func TestStore_withdrawn(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.Etcd(t).Endpoints()...)
	s, other, ctx := store(t, c, "p"), store(t, c, "p"), t.Context()
	held, waits := whole("key"), whole("key")
	waits.QueueTTL = time.Minute
	if res, err := s.Acquire(ctx, held); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	if res, err := other.Acquire(ctx, waits); err != nil || res.Granted {
		t.Fatal(res, err)
	}
	time.Sleep(etcd.LongHold)
	s.Between(func() {
		if err := other.Release(ctx, waits.ID); err != nil {
			t.Error(err)
		}
	})
	if err := s.Release(ctx, held.ID); err != nil {
		t.Fatal(err)
	}
	if cs, err := s.Show(ctx, "key"); err != nil || len(cs) != 0 {
		t.Error(cs, err)
	}
}

// A release grants the head of the queue its claim, which lives no longer than the entry.
func TestStore_pushed(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.Etcd(t).Endpoints()...)
	inTime(t, func(prefix string) (slow string) { return pushes(t, c, prefix) })
}

func pushes(t *testing.T, c *clientv3.Client, prefix string) (slow string) {
	s, other, ctx := store(t, c, prefix), store(t, c, prefix), t.Context()
	held, waits := whole("key"), whole("key")
	waits.QueueTTL = life
	if res, err := s.Acquire(ctx, held); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	wake := other.Watch(ctx, waits.ID)
	<-wake
	began := time.Now()
	if res, err := other.Acquire(ctx, waits); err != nil || res.Granted {
		t.Fatal(res, err)
	}
	time.Sleep(life / 6)
	if err := s.Release(ctx, held.ID); err != nil {
		t.Fatal(err)
	}
	w := <-wake
	for !w.Granted && time.Since(began) < life { // the watch has begun again
		select {
		case w = <-wake:
		case <-time.After(life):
		}
	}
	if took := time.Since(began); took > life/2 {
		return fmt.Sprintf("the grant came after %v, the entry lives for %v", took, life)
	}
	if cs, err := s.Show(ctx, "key"); err != nil || len(cs) != 1 || cs[0].Waiting || !w.Granted || cs[0].Fence != w.Fence {
		t.Fatal(w, cs, err)
	}
	soon(t, func() error { // much sooner than the TTL of the request, a minute
		if res, err := s.Acquire(ctx, whole("key")); err != nil || !res.Granted {
			return fmt.Errorf("%+v %w", res, err)
		}
		return nil
	})
	if lived := time.Since(began); lived < life {
		t.Errorf("the claim lived for %v, its entry had a TTL of %v", lived, life)
	}
	return ""
}

// Claims and queue entries with long values are read, listed and renewed, though one answer has
// more than the 4 MiB that gRPC accepts by default.
func TestStore_long_answers(t *testing.T) {
	t.Parallel()
	s := store(t, connect(t, testenv.Etcd(t).Endpoints()...), "p")
	value := bytes.Repeat([]byte("v"), driver.MaxValue)
	var rs []driver.Renewal
	for i := range 50 {
		for _, r := range []driver.Request{whole(fmt.Sprint("k", i)), whole("k0")} {
			r.Value, r.TTL, r.QueueTTL = value, time.Hour, time.Hour // the calls take long on a busy machine
			r.Meta = map[string]string{"bytes": strings.Repeat("\xff", driver.MaxMeta-8)}
			res, err := s.Acquire(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if res.Granted {
				rs = append(rs, driver.Renewal{ID: r.ID, TTL: r.TTL})
			}
		}
	}
	for i, r := range s.RenewAll(t.Context(), rs) {
		if r.Err != nil {
			t.Fatalf("renewal %d: %v", i, r.Err)
		}
	}
	n := 0
	for _, err := range s.List(t.Context(), "") {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 100 {
		t.Errorf("List shows %d claims and entries, want 100", n)
	}
}

// Leases that wait for their next claim and have ended in the meantime cost one transaction in all,
// not one each.
func TestStore_ended_leases(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.Etcd(t).Endpoints()...)
	s := store(t, c, "p")
	var all []driver.Request
	for i := range 60 {
		all = append(all, whole(fmt.Sprint("k", i)))
		if res, err := s.Acquire(t.Context(), all[i]); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
	}
	for _, r := range all {
		if err := s.Release(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	leases, err := c.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases.Leases {
		if _, err := c.Revoke(t.Context(), l.ID); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			t.Fatal(err)
		}
	}
	if res, err := s.Acquire(t.Context(), whole("free")); err != nil || !res.Granted {
		t.Errorf("a free name after all idle leases have ended: %+v, %v; want it granted", res, err)
	}
}

// Break ends a claim also if another one on the key ends, and a new one is granted, at every
// moment.
func TestStore_Break_of_a_busy_key(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.Etcd(t).Endpoints()...)
	s, other := store(t, c, "p"), store(t, c, "p")
	one := func() driver.Request {
		r := whole("permits")
		r.Weight, r.Limit = 1, 10
		return r
	}
	acquire := func() driver.Request {
		r := one()
		if res, err := other.Acquire(t.Context(), r); err != nil || !res.Granted {
			t.Error(res, err)
		}
		return r
	}
	stuck, short := acquire(), acquire()
	var busy func()
	busy = func() {
		if err := other.Release(t.Context(), short.ID); err != nil {
			t.Error(err)
		}
		short = acquire()
		s.Between(busy)
	}
	s.Between(busy)
	broken, err := s.Break(t.Context(), "permits", 0, "test")
	if err != nil || len(broken) != 1 || broken[0].Owner != driver.Tag(stuck.Owner) {
		t.Errorf("Break ended %v, %v; want the claim that stays", broken, err)
	}
}

// A process that releases a lock with a long TTL, and then ends, leaves no lease.
func TestStore_Close_leaves_no_long_lease(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.Etcd(t).Endpoints()...)
	for range 5 {
		s, err := etcd.New(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := whole("key")
		r.TTL = time.Hour
		if res, err := s.Acquire(t.Context(), r); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
		if err := s.Release(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	left, err := c.Leases(t.Context())
	if err != nil || len(left.Leases) != 0 {
		t.Errorf("%d leases are left, %v", len(left.Leases), err)
	}
}
