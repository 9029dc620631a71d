package pgadvisory_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/pgadvisory"
)

var roles = testenv.Roles{"holder": holder}

// holder holds a key until its input ends, and then reports whether its lease is lost.
func holder(args []string) int {
	ctx := context.Background()
	s, err := pgadvisory.Open(ctx, args[0])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.Close()
	ttl, err := time.ParseDuration(args[2])
	if err != nil {
		return 1
	}
	l, err := distlock.New(s, distlock.TTL(ttl))
	if err != nil {
		return 1
	}
	// The TTL bounds a call, and a busy machine may take longer to open the first connection.
	lease, err := l.Lock(ctx, "warm", distlock.TTL(time.Minute))
	if err == nil {
		err = lease.Unlock(ctx)
	}
	if err == nil {
		lease, err = l.Lock(ctx, args[1])
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("held", lease.Fence())
	var line string
	fmt.Fscanln(os.Stdin, &line)
	fmt.Println(errors.Is(lease.Err(), distlock.ErrLost)) // the first guarded action
	return 0
}

// through returns a URL that leads through a proxy.
func through(p *testenv.ProxyServer, addr, url string) string {
	return strings.Replace(url, addr, p.Addr, 1)
}

// lostSoon checks that the loss of a claim is reported without a renewal.
func lostSoon(t *testing.T, s *pgadvisory.Store, id driver.ID, lost <-chan []driver.ID) {
	t.Helper()
	select {
	case ids := <-lost:
		if !slices.Contains(ids, id) {
			t.Fatal("other claims were reported:", ids)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the loss was not reported")
	}
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: id, TTL: time.Minute}); !errors.Is(err, driver.ErrNotHeld) {
		t.Fatal("Renew:", err)
	}
}

// TestStore_backend_ended shows that a holder whose connection the server ends is notified at once,
// and that nothing is acquired again automatically.
func TestStore_backend_ended(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	a, b := opened(t, url), opened(t, url)
	r := exclusive("key", time.Minute)
	was := take(t, a, r)
	lost, wake := a.Losses(t.Context()), driver.Watch(t.Context(), a, driver.ID{Key: "key"})
	for _, pid := range a.PIDs() {
		if _, err := pg.Query(t.Context(), fmt.Sprintf("select pg_terminate_backend(%d)", pid)); err != nil {
			t.Fatal(err)
		}
	}
	lostSoon(t, a, r.ID, lost)
	select {
	case <-wake:
	case <-time.After(5 * time.Second):
		t.Error("the watcher of the key was not woken")
	}
	next := exclusive("key", time.Minute)
	soon(t, 5*time.Second, func() error { return got(t, b, next) })
	if res := take(t, b, next); res.Fence < was.Fence+driver.Span {
		t.Error("the fence went from", was.Fence, "to", res.Fence)
	}
	if err := a.Release(t.Context(), r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Error("Release:", err)
	}
	refused(t, a, r)
}

// TestStore_lease_ended shows that a lease is lost with its connection, and not at its next
// renewal.
func TestStore_lease_ended(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	s := opened(t, url)
	l, err := distlock.New(s, distlock.TTL(time.Hour)) // a renewal every 20 minutes
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.WithoutCancel(t.Context()))
	lease, err := l.Lock(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range s.PIDs() {
		if _, err := pg.Query(t.Context(), fmt.Sprintf("select pg_terminate_backend(%d)", pid)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-lease.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the loss was not reported")
	}
	if err := lease.Err(); !errors.Is(err, distlock.ErrLost) {
		t.Error(err)
	}
}

// TestStore_holder_killed shows that a dead process frees its locks at once.
func TestStore_holder_killed(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	h := testenv.Helper(t, "holder", url, "key", "1h")
	if line := h.Line(); !strings.HasPrefix(line, "held") {
		t.Fatal(line)
	}
	s := opened(t, url)
	refused(t, s, exclusive("key", time.Minute))
	h.Kill()
	soon(t, 5*time.Second, func() error { return got(t, s, exclusive("key", time.Minute)) })
}

// TestStore_holder_stopped shows that the server ends the claims of a stopped process, not before
// their TTL, and that the process notices when it runs again.
func TestStore_holder_stopped(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	const ttl = 3 * time.Second
	h := testenv.Helper(t, "holder", url, "key", ttl.String())
	var fence uint64
	if _, err := fmt.Sscanf(h.Line(), "held %d", &fence); err != nil {
		t.Fatal(err)
	}
	s := opened(t, url)
	refused(t, s, exclusive("key", time.Minute))
	h.Pause()
	began := time.Now()
	renewed := began.Add(-idle(t, pg, url))
	r := exclusive("key", time.Minute)
	soon(t, ttl+5*time.Second, func() error { return got(t, s, r) })
	if d := time.Since(renewed); d < ttl {
		t.Error("the claim of a process that was stopped ended", d, "after it was renewed")
	}
	if next := take(t, s, r).Fence; next < fence+driver.Span {
		t.Error("the fence went from", fence, "to", next)
	}
	h.Resume()
	h.Say("go")
	if line := h.Line(); line != "true" {
		t.Error("the holder still trusts its lease:", line)
	}
}

// TestStore_cut_off shows that a rival is granted only after the trust of a holder whose network
// drops everything.
func TestStore_cut_off(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	p := testenv.Proxy(t, pg.Addr)
	a, b := opened(t, through(p, pg.Addr, url)), opened(t, url)
	free(t, a, take1(t, a, "warm")) // the TTL bounds a call, and the first one opens a connection
	const ttl = 2 * time.Second
	l, err := distlock.New(a, distlock.TTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.Background())
	lease, err := l.Lock(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	p.Cut(testenv.Both)
	last := make(chan time.Time)
	go func() {
		var trusted time.Time // at this time or later
		for now := time.Now(); lease.Err() == nil; now = time.Now() {
			trusted = now
			time.Sleep(time.Millisecond)
		}
		last <- trusted
	}()
	r := exclusive("key", time.Minute)
	soon(t, ttl+5*time.Second, func() error { return got(t, b, r) })
	granted := time.Now()
	if end := <-last; end.After(granted) {
		t.Errorf("the holder trusted its lease %v longer than the server held the lock", end.Sub(granted))
	}
	p.Heal()
	soon(t, 15*time.Second, func() error { return got(t, a, exclusive("other", time.Minute)) })
}

// TestStore_lost_reply cuts the connection during the reply to a grant: the outcome is unknown, and
// another attempt repairs it.
func TestStore_lost_reply(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	p := testenv.Proxy(t, pg.Addr)
	s, rival := opened(t, through(p, pg.Addr, url)), opened(t, url)
	for i := range 20 {
		key := fmt.Sprint("key", i)
		free(t, s, take1(t, s, "warm"))
		cut := p.CutAfter(i * 3) // of the 60 bytes of an answer
		r := exclusive(key, time.Minute)
		res, err := s.Acquire(t.Context(), r)
		<-cut
		if err == nil && !res.Granted {
			t.Fatal("refused on a free key")
		}
		soon(t, 5*time.Second, func() error { return got(t, s, r) })
		refused(t, rival, exclusive(key, time.Minute))
		free(t, s, r.ID)
		free(t, rival, take1(t, rival, key))
	}
}

// take1 acquires a key exclusively.
func take1(t testing.TB, s driver.Store, key string) driver.ID {
	t.Helper()
	r := exclusive(key, time.Minute)
	soon(t, 5*time.Second, func() error { return got(t, s, r) })
	return r.ID
}

// TestStore_restart shows that a restart of the server frees everything and is reported, that
// fences rise, and that no client needs a restart.
func TestStore_restart(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t)
	s := opened(t, pg.URL)
	var last uint64
	for range 3 {
		r := exclusive("key", time.Hour)
		soon(t, 20*time.Second, func() error { return got(t, s, r) })
		res := take(t, s, r)
		if res.Fence < last+driver.Span {
			t.Fatalf("the fence went from %d to %d", last, res.Fence)
		}
		last = res.Fence
		lost := s.Losses(t.Context())
		pg.Kill()
		lostSoon(t, s, r.ID, lost)
		if _, err := s.Acquire(t.Context(), r); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatal("Acquire without a server:", err)
		}
		pg.Restart()
	}
}

// TestStore_failover shows that a new primary has no locks, that the holder is notified, and that
// the store finds the new primary. Here the standby had all fences; a standby that is behind would
// not.
func TestStore_failover(t *testing.T) {
	t.Parallel()
	primary := testenv.Postgres(t)
	standby := testenv.Postgres(t, testenv.StandbyOf(primary))
	url := strings.Replace(primary.URL, primary.Addr, standby.Addr+","+primary.Addr, 1)
	s := opened(t, url)
	r := exclusive("key", time.Hour)
	was := take(t, s, r)
	lost := s.Losses(t.Context())
	at, err := primary.Query(t.Context(), "select pg_current_wal_lsn()")
	if err != nil {
		t.Fatal(err)
	}
	soon(t, 10*time.Second, func() error {
		rows, err := standby.Query(t.Context(), "select pg_last_wal_replay_lsn() >= '"+at[0][0]+"'")
		if err == nil && rows[0][0] != "t" {
			err = errors.New("the standby is behind")
		}
		return err
	})
	primary.Kill()
	lostSoon(t, s, r.ID, lost)
	standby.Promote()
	next := exclusive("key", time.Hour)
	soon(t, 10*time.Second, func() error { return got(t, s, next) })
	if res := take(t, s, next); res.Fence < was.Fence+driver.Span {
		t.Errorf("the fence went from %d to %d", was.Fence, res.Fence)
	}
}

// TestStore_late_grant delays the answer about a grant in the server's queue for longer than
// anybody may trust it. The attempt that takes it then has it for a whole TTL.
func TestStore_late_grant(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	p := testenv.Proxy(t, pg.Addr)
	a, b := opened(t, through(p, pg.Addr, url)), opened(t, url)
	held := exclusive("key", time.Minute)
	take(t, b, held)
	const ttl = 1500 * time.Millisecond
	w := exclusive("key", ttl)
	wake := driver.Watch(t.Context(), a, w.ID)
	refused(t, a, w)
	soon(t, 5*time.Second, func() error {
		if n := locks(t, pg, url); n != 2 {
			return fmt.Errorf("%d locks, want one held and one waited for", n)
		}
		return nil
	})
	p.Hold(testenv.ToClient)
	free(t, b, held.ID)
	time.Sleep(2500 * time.Millisecond) // the server has granted it by now, and counts
	p.Heal()
	<-wake
	called := time.Now()
	take(t, a, w)
	soon(t, 10*time.Second, func() error { return got(t, b, exclusive("key", time.Minute)) })
	if d := time.Since(called); d < ttl {
		t.Errorf("the claim ended after %v, before its TTL", d)
	}
}

// TestStore_no_connections_left shows that locks stay held when the server accepts no more
// connections, that existing connections continue, and that a store without one returns
// unavailable.
func TestStore_no_connections_left(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t, testenv.Config("max_connections = 12", "max_wal_senders = 0"))
	s, late := opened(t, pg.URL), opened(t, pg.URL)
	r := exclusive("key", time.Minute)
	take(t, s, r)
	var all []*pgx.Conn
	defer func() {
		for _, c := range all {
			c.Close(context.Background())
		}
	}()
	// Closed connections use their slots until the server's processes have ended.
	soon(t, 20*time.Second, func() error {
		for {
			c, err := pgx.Connect(t.Context(), pg.URL)
			if err != nil {
				break
			}
			all = append(all, c)
		}
		if n := len(all) + s.Links(); n != 12 {
			return fmt.Errorf("%d of 12 connections are taken for good", n)
		}
		return nil
	})
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: time.Minute}); err != nil {
		t.Error("Renew:", err)
	}
	take(t, s, exclusive("other", time.Hour)) // another connection would fit its TTL better
	free(t, s, r.ID)
	if _, err := late.Acquire(t.Context(), exclusive("key", time.Minute)); !errors.Is(err, driver.ErrUnavailable) {
		t.Error("Acquire:", err)
	}
	for _, c := range all {
		c.Close(t.Context())
	}
	soon(t, 10*time.Second, func() error { return got(t, late, exclusive("key", time.Minute)) })
}

// TestStore_statement_cancelled cancels the waits in the server's queue: the waiters are woken and
// can wait again, no lock is left behind, and held locks stay held.
func TestStore_statement_cancelled(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	a, b := opened(t, url), opened(t, url)
	held := exclusive("key", time.Minute)
	take(t, a, held)
	w := exclusive("key", time.Minute)
	wake := driver.Watch(t.Context(), b, w.ID)
	for range 3 {
		refused(t, b, w)
		soon(t, 5*time.Second, func() error {
			rows, err := pg.Query(t.Context(),
				"select pg_cancel_backend(pid) from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = '"+database(url)+"')")
			if err == nil && len(rows) != 1 {
				err = fmt.Errorf("%d wait", len(rows))
			}
			return err
		})
		select {
		case <-wake:
		case <-time.After(5 * time.Second):
			t.Fatal("the waiter was not woken")
		}
	}
	if _, err := a.Renew(t.Context(), driver.Renewal{ID: held.ID, TTL: time.Minute}); err != nil {
		t.Error("what was held is lost:", err)
	}
	refused(t, b, w)
	free(t, a, held.ID)
	<-wake
	take(t, b, w)
	if n := locks(t, pg, url); n != 1 {
		t.Errorf("%d locks are held, want 1", n)
	}
}

// locks counts the advisory locks in a database.
func locks(t testing.TB, pg *testenv.PostgresServer, url string) int {
	t.Helper()
	rows, err := pg.Query(context.Background(),
		"select count(*) from pg_locks l join pg_database d on d.oid = l.database where locktype = 'advisory' and datname = '"+database(url)+"'")
	if err != nil {
		t.Fatal(err)
	}
	var n int
	fmt.Sscan(rows[0][0], &n)
	return n
}

// idle returns how long the server has not heard from the holder of a lock in a database.
func idle(t testing.TB, pg *testenv.PostgresServer, url string) time.Duration {
	t.Helper()
	rows, err := pg.Query(t.Context(),
		"select extract(epoch from clock_timestamp() - state_change) from pg_locks join pg_stat_activity using (pid) where locktype = 'advisory' and granted and datname = '"+database(url)+"'")
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	d, err := time.ParseDuration(rows[0][0] + "s")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// database returns the name in a URL.
func database(url string) string {
	name, _, _ := strings.Cut(url[strings.LastIndex(url, "/")+1:], "?")
	return name
}
