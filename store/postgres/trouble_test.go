package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// unavailable checks that every writing operation returns that nothing was changed.
func unavailable(t *testing.T, s driver.Store, held driver.ID, code string) {
	t.Helper()
	check := func(verb string, err error) {
		t.Helper()
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: error %v, want ErrUnavailable with %s", verb, err, code)
		}
	}
	_, err := s.Acquire(t.Context(), exclusive("free"))
	check("Acquire", err)
	_, err = s.Renew(t.Context(), driver.Renewal{ID: held, TTL: time.Minute})
	check("Renew", err)
	check("Release", s.Release(t.Context(), held))
	_, err = driver.Break(t.Context(), s, held.Key, 0, "test")
	check("Break", err)
}

// A standby grants no claims and reports why. After its promotion it does.
func TestStore_standby(t *testing.T) {
	t.Parallel()
	primary := testenv.Postgres(t)
	a := exclusive("held")
	fence := grant(t, made(t, primary.URL, nil), a).Fence
	standby := testenv.Postgres(t, testenv.StandbyOf(primary))
	s := made(t, standby.URL, nil)
	eventually(t, "the claim arrives", func() error {
		cs, err := s.Show(t.Context(), "held")
		if err == nil && len(cs) == 0 {
			err = errors.New("it is not there yet")
		}
		return err
	})
	unavailable(t, s, a.ID, "25006")
	info, err := s.Inspect(t.Context())
	if err != nil || !found(info, driver.LevelDanger, "standby") {
		t.Errorf("Inspect of a standby: %+v, %v", info, err)
	}
	primary.Kill()
	standby.Promote()
	renew(t, s, a)
	refuse(t, s, exclusive("held"))
	release(t, s, a)
	if next := grant(t, s, exclusive("held")).Fence; next < fence+driver.Span {
		t.Errorf("fence %d after %d on the new primary", next, fence)
	}
}

func found(info driver.Info, level driver.Level, text string) bool {
	for _, f := range info.Findings {
		if f.Level == level && strings.Contains(f.What, text) &&
			(f.Means == "") == (level == driver.LevelOK) && (f.Cure == "") == (f.Means == "") {
			return true
		}
	}
	return false
}

// Without a free connection, and without a server, nothing is changed. Claims survive both.
func TestStore_down(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Config("max_connections = 5",
		"superuser_reserved_connections = 0", "max_wal_senders = 0"))
	// One connection runs all queries of the test: each further one would use a slot until its
	// process has ended.
	c, err := pgx.Connect(t.Context(), srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	all := []*pgx.Conn{c}
	count := func(which string) (n int) {
		t.Helper()
		if err := c.QueryRow(t.Context(), "select count(*) from pg_stat_activity where backend_type = 'client backend' and "+which).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	eventually(t, "nobody else is there", func() error {
		if n := count("true"); n != 1 {
			return fmt.Errorf("%d connections", n)
		}
		return nil
	})
	s := made(t, srv.URL, nil)
	a := exclusive("held")
	fence := grant(t, s, a).Fence
	eventually(t, "the connection for renewals is there before the first of them", func() error {
		// Its statements identify it: a sweep has a connection too.
		if n := count("query like 'select answer, %renew%'"); n != 1 {
			return fmt.Errorf("%d connections", n)
		}
		return nil
	})
	late := made(t, srv.URL, nil)
	eventually(t, "no connection is left", func() error {
		for {
			c, err := pgx.Connect(t.Context(), srv.URL)
			if err != nil {
				break
			}
			all = append(all, c)
		}
		if n := count("true"); n != 5 {
			return fmt.Errorf("%d of 5 are there", n)
		}
		return nil
	})
	_, err = late.Acquire(t.Context(), exclusive("free"))
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "53300") {
		t.Errorf("with no connection left: %v, want ErrUnavailable with 53300", err)
	}
	renew(t, s, a)
	for _, c := range all {
		c.Close(t.Context())
	}
	works(t, late)

	srv.Kill()
	eventually(t, "the connections are gone", func() error {
		if _, err := s.Acquire(t.Context(), exclusive("free")); !errors.Is(err, driver.ErrUnavailable) {
			return fmt.Errorf("Acquire without a server: %w", err)
		}
		return nil
	})
	srv.Restart()
	works(t, s)
	if again := grant(t, s, a); again.Fence != fence {
		t.Errorf("after a crash of the server the fence is %d, want %d", again.Fence, fence)
	}
}

// A statement is never sent twice for one call. The caller gets an unknown outcome and calls again.
func TestStore_lostReply(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	proxy := testenv.Proxy(t, srv.Addr)
	s := made(t, on(t, srv.URL, proxy.Addr, ""), opt)
	works(t, s)
	renew(t, s, func() driver.Request { r := exclusive("warm"); grant(t, s, r); return r }())
	unknown := func(verb string, err error) {
		t.Helper()
		if err == nil || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrNotHeld) ||
			errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s whose answer was lost: %v, want an error that leaves the outcome open", verb, err)
		}
	}
	a := exclusive("key")
	proxy.EatReply([]byte(a.Owner))
	_, err := s.Acquire(t.Context(), a)
	unknown("Acquire", err)
	var fence uint64
	eventually(t, "the claim shows", func() error {
		cs, err := s.Show(t.Context(), "key")
		if err != nil || len(cs) != 1 {
			return fmt.Errorf("%d claims, %w", len(cs), err)
		}
		fence = cs[0].Fence
		return nil
	})
	if again := grant(t, s, a); again.Fence != fence {
		t.Errorf("second call: fence %d, want %d", again.Fence, fence)
	}
	proxy.EatReply([]byte(a.Owner))
	_, err = s.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: time.Minute})
	unknown("Renew", err)
	proxy.EatReply([]byte(a.Owner))
	unknown("Release", s.Release(t.Context(), a.ID))
	eventually(t, "the key is free", func() error {
		if err := s.Release(t.Context(), a.ID); !errors.Is(err, driver.ErrNotHeld) {
			return fmt.Errorf("the claim is there, or not known: %w", err)
		}
		return nil
	})
	grant(t, s, exclusive("key"))
}

// A call ends with its ctx even if no answer arrives, and after a partition the store works again.
func TestStore_partition(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	proxy := testenv.Proxy(t, srv.Addr)
	s, rival := made(t, on(t, srv.URL, proxy.Addr, ""), opt), made(t, srv.URL, opt)
	a := exclusive("key")
	a.TTL = 4 * time.Second
	grant(t, s, a)
	renew(t, s, a)
	proxy.Cut(testenv.Both)
	for _, verb := range []func(ctx context.Context) error{
		func(ctx context.Context) error {
			_, err := s.Renew(ctx, driver.Renewal{ID: a.ID, TTL: time.Minute})
			return err
		},
		func(ctx context.Context) error { _, err := s.Acquire(ctx, exclusive("other")); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		watch := testenv.NewStopwatch(t)
		err := verb(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("behind a cut: %v, want that the outcome is not known", err)
		}
		if took := watch.Elapsed(); took > time.Second {
			t.Errorf("a call took %v after its ctx had ended", took)
		}
	}
	b := exclusive("key")
	eventually(t, "the rival is granted", func() error {
		res, err := rival.Acquire(t.Context(), b)
		if err == nil && !res.Granted {
			err = errors.New("refused")
		}
		return err
	})
	proxy.Heal()
	works(t, s)
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: time.Minute}); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew after the partition: %v, want ErrNotHeld", err)
	}
	renew(t, rival, b)
}

// Whatever crashes on the server, one process holds the lock, fences rise, and no client needs a
// restart.
func TestStore_restartUnderLoad(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	a, b := made(t, srv.URL, nil), made(t, srv.URL, nil)
	works(t, a)
	var mu sync.Mutex
	var until time.Time // of the last granted claim
	var last uint64
	var grants, failures atomic.Int32
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 6 {
		s := []driver.Store{a, b}[i%2]
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r := exclusive("key")
				r.TTL = 3 * time.Second
				began := time.Now()
				res, err := s.Acquire(t.Context(), r)
				if err != nil {
					failures.Add(1)
					time.Sleep(10 * time.Millisecond)
				}
				if err == nil && res.Granted {
					grants.Add(1)
					mu.Lock()
					if res.Fence < last+driver.Span {
						t.Errorf("fence %d after %d", res.Fence, last)
					}
					if time.Now().Before(until) {
						t.Error("granted while another holds")
					}
					last, until = res.Fence, began.Add(r.TTL)
					mu.Unlock()
					time.Sleep(time.Millisecond)
					mu.Lock()
					until = time.Time{}
					mu.Unlock()
				}
				for err != nil || res.Granted { // release a claim that may exist
					if err = s.Release(t.Context(), r.ID); err == nil || errors.Is(err, driver.ErrNotHeld) {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	for _, blow := range []func(){
		func() {
			query(t, srv, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'")
		},
		srv.Restart,
		func() { srv.Kill(); srv.Restart() },
		func() { killBackend(t, srv) },
	} {
		n := grants.Load()
		eventually(t, "grants go on", func() error {
			if grants.Load() < n+5 {
				return errors.New("too few")
			}
			return nil
		})
		blow()
	}
	n := grants.Load()
	eventually(t, "grants go on at the end", func() error {
		if grants.Load() < n+5 {
			return errors.New("too few")
		}
		return nil
	})
	close(stop)
	wg.Wait()
	if failures.Load() == 0 {
		t.Error("no call failed: nothing was broken")
	}
	t.Logf("%d grants, %d failed calls", grants.Load(), failures.Load())
}

// A statement that the server cancels has changed nothing.
func TestStore_cancelled(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL+"&application_name=cancelled-"+opt.Schema[6:], opt)
	a := exclusive("key")
	grant(t, s, a)
	c, eval := plainSQL(t, srv.URL, opt)
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := eval("select answer = '+' from Schema.renew('key', $1, '1 min')", a.Owner); err != nil || !ok {
		t.Fatal(ok, err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
				query(t, srv, "select pg_cancel_backend(pid) from pg_stat_activity where state = 'active' and wait_event_type = 'Lock' and application_name = 'cancelled-"+opt.Schema[6:]+"'")
			}
		}
	})
	err = s.Release(t.Context(), a.ID) // it waits for the other transaction
	close(done)
	wg.Wait()
	if !errors.Is(err, driver.ErrUnavailable) ||
		!strings.Contains(err.Error(), "57014") && !strings.Contains(err.Error(), "55P03") {
		t.Errorf("Release that was cancelled: %v, want ErrUnavailable with 57014", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	renew(t, s, a)
	release(t, s, a)
}

// With all connections of the pool in use, claims are granted, renewed and released.
func TestStore_poolExhausted(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	conf, err := pgxpool.ParseConfig(srv.URL + "&pool_max_conns=2")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := newStore(t, pool, fresh(t))
	a := exclusive("key")
	grant(t, s, a)
	for range 2 {
		c, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.Renew(ctx, driver.Renewal{ID: a.ID, TTL: time.Minute}); err != nil {
		t.Errorf("Renew: %v", err)
	}
	if got := s.RenewAll(ctx, []driver.Renewal{{ID: a.ID, TTL: time.Minute}}); got[0].Err != nil {
		t.Errorf("RenewAll: %v", got[0].Err)
	}
	b := exclusive("other")
	grant(t, s, b)
	release(t, s, b)
	if _, err := s.Show(t.Context(), "key"); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Show with no connection: %v, want ErrUnavailable", err)
	}
}

// After a reconnect all watches are woken, because notifications may have been lost. New
// notifications arrive again.
func TestStore_watchReconnects(t *testing.T) {
	t.Parallel()
	for name, brief := range map[string]bool{"listener": false, "brief": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watchReconnects(t, brief)
		})
	}
}

func watchReconnects(t *testing.T, brief bool) {
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	proxy := testenv.Proxy(t, srv.Addr)
	s, direct := made(t, on(t, srv.URL, proxy.Addr, ""), opt), made(t, srv.URL, opt)
	if brief {
		s.Brief()
	}
	a, w := exclusive("key"), queueing(exclusive("key"))
	grant(t, direct, a)
	wake := s.Watch(t.Context(), w.ID)
	refuse(t, s, w)
	time.Sleep(50 * time.Millisecond)
	drain(wake)
	proxy.Reset()
	woken(t, wake, "after a reconnect")
	time.Sleep(50 * time.Millisecond)
	drain(wake)
	release(t, direct, a)
	woken(t, wake, "by a release")
	eventually(t, "the head is granted", func() error {
		res, err := s.Acquire(t.Context(), w)
		if err == nil && !res.Granted {
			err = errors.New("refused")
		}
		return err
	})
}

// A wrong password is an error, and no error shows a password.
func TestStore_noPassword(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Password("right-pw"))
	bad := strings.Replace(srv.URL, "right-pw", "wrong-pw", 1)
	s := made(t, bad, nil)
	_, err := s.Acquire(t.Context(), exclusive("key"))
	var pg *pgconn.PgError
	if !errors.Is(err, driver.ErrUnavailable) || !errors.As(err, &pg) || pg.Code != "28P01" ||
		strings.Contains(err.Error(), "wrong-pw") {
		t.Errorf("with a wrong password: %v, want ErrUnavailable with 28P01 and no password", err)
	}
	works(t, made(t, srv.URL, nil))
}

// A transaction that stays open keeps vacuum from removing dead rows, and each hold takes longer.
func TestStore_Inspect_oldSnapshot(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	clock := testenv.NewClock(t, srv.Server)
	s := made(t, srv.URL, nil)
	works(t, s)
	look := func(level driver.Level, text string) {
		t.Helper()
		if info, err := s.Inspect(t.Context()); err != nil || !found(info, level, text) {
			t.Errorf("want %v with %q: %+v, %v", level, text, info.Findings, err)
		}
	}
	c, eval := plainSQL(t, srv.URL+"&application_name=report", &postgres.Options{Schema: "distlock"})
	if _, err := c.Exec(t.Context(), "begin isolation level repeatable read"); err != nil {
		t.Fatal(err)
	}
	if _, err := eval("select count(*) > 0 from Schema.meta"); err != nil {
		t.Fatal(err)
	}
	look(driver.LevelOK, "no snapshot is older than a minute")
	clock.Set(5 * time.Minute)
	look(driver.LevelWarning, "a snapshot has been open for 5m")
	look(driver.LevelWarning, fmt.Sprintf("s (process %d, report, idle in transaction)", c.PgConn().PID()))
	query(t, srv, "create role app login")
	query(t, srv, "grant usage on schema distlock to app")
	query(t, srv, "grant select, insert, update, delete on all tables in schema distlock to app")
	app := strings.Replace(srv.URL, "//postgres", "//app", 1)
	if info, err := made(t, app, nil).Inspect(t.Context()); err != nil ||
		!found(info, driver.LevelUnknown, "sessions could not be seen") {
		t.Errorf("as a role that may not look: %+v, %v", info.Findings, err)
	}
	if _, err := c.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	look(driver.LevelOK, "no snapshot is older than a minute")
}
