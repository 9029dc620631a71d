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

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// A lock that an SQL client holds is refused to stores, and the other way round.
func TestSQL_excludes(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	works(t, s)
	_, eval := plainSQL(t, srv.URL, opt)
	want := func(wanted bool, sql string, args ...any) {
		t.Helper()
		if got, err := eval(sql, args...); err != nil || got != wanted {
			t.Errorf("%s %q: %v, %v; want %v", sql, args, got, err, wanted)
		}
	}
	const acquire, give = "select Schema.acquire_lock($1, $2, 60, '{\"n\": 1}')",
		"select Schema.release_lock($1, $2)"
	// A tilde at the start of a user's name is doubled, as in the library. A name that looks like
	// an escape is escaped.
	for name, key := range map[string]string{"job": "job", "~job": "~~job", `\x61`: `\x61`, "jöb ' \"": "jöb ' \""} {
		want(true, acquire, name, "psql")
		res := refuse(t, s, exclusive(key))
		if b := res.Blocker; b.Holder != "psql" || b.Meta["n"] != "1" || b.Fence == 0 || b.Key != key {
			t.Errorf("the blocker of %q is %+v", name, b)
		}
		want(true, acquire, name, "psql") // extends
		want(false, acquire, name, "other")
		want(false, give, name, "other")
		w := queueing(exclusive(key))
		wake := s.Watch(t.Context(), w.ID)
		refuse(t, s, w)
		drain(wake)
		want(true, give, name, "psql")
		woken(t, wake, "by a release in SQL")
		want(false, acquire, name, "psql") // there is a queue
		grant(t, s, w)
		want(false, acquire, name, "psql")
		want(false, give, name, "psql")
		release(t, s, w)
		want(true, acquire, name, "psql")
	}
}

// The default TTL in SQL is 30 s, as everywhere else.
func TestSQL_defaultTTL(t *testing.T) {
	t.Parallel()
	srv, opt := testenv.Postgres(t, testenv.Shared()), fresh(t)
	s := made(t, srv.URL, opt)
	works(t, s)
	_, eval := plainSQL(t, srv.URL, opt)
	for _, sql := range []string{"select Schema.acquire_lock('a', 'h')", "select Schema.acquire_lock('b', 'h', metadata => '{\"n\": 1}')"} {
		if ok, err := eval(sql); err != nil || !ok {
			t.Errorf("%s: %v, %v", sql, ok, err)
		}
	}
	for _, key := range []string{"a", "b"} {
		if b := refuse(t, s, exclusive(key)).Blocker; b.Held+b.Left != 30*time.Second {
			t.Errorf("%s is held for %v, with %v left", key, b.Held, b.Left)
		}
	}
}

// However many attempts run in Go and in SQL, only one holds the lock.
func TestSQL_race(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	a, b := made(t, srv.URL, opt), made(t, srv.URL, opt)
	works(t, a)
	var inside, grants atomic.Int32
	hold := func() {
		if inside.Add(1) != 1 {
			t.Error("two hold the lock")
		}
		grants.Add(1)
		time.Sleep(time.Millisecond)
		inside.Add(-1)
	}
	var wg sync.WaitGroup
	for i := range 3 {
		_, eval := plainSQL(t, srv.URL, opt)
		holder := fmt.Sprint("sql", i)
		wg.Go(func() {
			for range 40 {
				ok, err := eval("select Schema.acquire_lock('race', $1, 60)", holder)
				if err != nil && !lockTimedOut(err) {
					t.Error(err)
				}
				if !ok {
					time.Sleep(time.Millisecond)
					continue
				}
				hold()
				for ok = false; !ok; {
					if ok, err = eval("select Schema.release_lock('race', $1)", holder); err == nil && !ok ||
						err != nil && !lockTimedOut(err) {
						t.Error("release_lock:", ok, err)
						return
					}
				}
			}
		})
	}
	for i := range 6 {
		s := []driver.Store{a, b}[i%2]
		wg.Go(func() {
			for range 40 {
				r := exclusive("race")
				res, err := s.Acquire(t.Context(), r)
				if err != nil && !errors.Is(err, driver.ErrUnavailable) {
					t.Error(err)
				}
				if !res.Granted {
					time.Sleep(time.Millisecond)
					continue
				}
				hold()
				if err := releaseEventually(t.Context(), s, r); err != nil {
					t.Error("Release:", err)
				}
			}
		})
	}
	wg.Wait()
	if grants.Load() < 10 {
		t.Errorf("%d grants: no contention", grants.Load())
	}
}

// lockTimedOut reports whether nothing was changed because another transaction had the key for too
// long: on a busy machine its statement may stall.
func lockTimedOut(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}

func TestSQL_views(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	a, w := exclusive("a\x00b"), queueing(exclusive("a\x00b"))
	a.Holder, a.Task, a.Meta = "host/1", "task", map[string]string{"k": "v"}
	w.Holder = "host/2"
	fence := grant(t, s, a).Fence
	refuse(t, s, w)
	rows := query(t, srv, strings.ReplaceAll(`select name, holder, fence, owner, task, metadata->>'k', waiting, acquired_at <= clock_timestamp(),
		expires_at - acquired_at = '1 min' from Schema.locks`, "Schema", quoted(opt)))
	want := []string{"a\\000b", "host/1", fmt.Sprint(fence), driver.Tag(a.Owner),
		"task", "v", "1", "t", "t"}
	if len(rows) != 1 || fmt.Sprint(rows[0]) != fmt.Sprint(want) {
		t.Errorf("locks: %q, want %q", rows, want)
	}
	rows = query(t, srv, "select position, holder, owner from "+quoted(opt)+".waiters")
	if want := []string{"1", "host/2", driver.Tag(w.Owner)}; len(rows) != 1 ||
		fmt.Sprint(rows[0]) != fmt.Sprint(want) {
		t.Errorf("waiters: %q, want %q", rows, want)
	}
}

// The views find a lock by its name and by its key.
func TestSQL_viewsByName(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	works(t, s)
	_, eval := plainSQL(t, srv.URL, opt)
	for name, key := range map[string]string{"plain": "plain", "~tilde": "~~tilde", "~~two": "~~~two", "~sem/a": "~~sem/a", `\x61`: `\x5c783631`, `~\x61`: `~~\x61`} {
		if ok, err := eval("select Schema.acquire_lock($1, 'h', 60)", name); err != nil || !ok {
			t.Fatal(name, ok, err)
		}
		if ok, err := eval("select answer = '-' from Schema.acquire($1, 'o', '1 min', queue_ttl => '1 min')", key); err != nil || !ok {
			t.Fatal(key, ok, err)
		}
		for _, view := range []string{"locks", "waiters"} {
			if ok, err := eval("select count(*) = 1 and min(key) = $2 from Schema."+view+" where name = $1", name, key); err != nil || !ok {
				t.Errorf("%s: the lock %q is not found by its name: %v", view, name, err)
			}
		}
	}
	grant(t, s, exclusive("~sem/b")) // a key of another kind
	if ok, err := eval("select count(*) = 1 from Schema.locks where name = '~sem/b' and key = '~sem/b'"); err != nil || !ok {
		t.Error("the semaphore is not shown by its key:", err)
	}
}

// In a transaction that began long ago, leases follow the clock and not the start of the
// transaction: a new lease starts now, and an expired one has ended.
func TestSQL_oldTransaction(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	short := exclusive("short")
	short.TTL = 1500 * time.Millisecond
	works(t, s)
	c, eval := plainSQL(t, srv.URL, opt)
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := eval("select true"); err != nil { // sets the time of the transaction
		t.Fatal(err)
	}
	grant(t, s, short)
	time.Sleep(2 * time.Second)
	began := time.Now()
	if ok, err := eval("select Schema.acquire_lock('short', 'old', 30)"); err != nil || !ok {
		t.Errorf("a key whose claim ended since the transaction began: %v, %v; want it granted", ok, err)
	}
	if ok, err := eval("select Schema.acquire_lock('new', 'old', 30)"); err != nil || !ok {
		t.Errorf("a free key: %v, %v", ok, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	refuse(t, s, exclusive("new"))
	left := refuse(t, s, exclusive("short")).Retry
	if total := left + time.Since(began); left > 30*time.Second || total < 30*time.Second {
		t.Errorf("the lease of the old transaction has %v left, want 30 s from the call", left)
	}
}

// Transactions that see the past are refused.
func TestSQL_isolation(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	works(t, s)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		c, eval := plainSQL(t, srv.URL, opt)
		tx, err := c.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		if err != nil {
			t.Fatal(err)
		}
		var pg *pgconn.PgError
		if _, err := eval("select Schema.acquire_lock('key', 'h', 60)"); !errors.As(err, &pg) ||
			pg.Code != "25000" || !strings.Contains(pg.Hint, "READ COMMITTED") {
			t.Errorf("%s: %v, want 25000 with a hint", level, err)
		}
		tx.Rollback(t.Context())
	}
	url := srv.URL + "&default_transaction_isolation=serializable"
	_, err := made(t, url, opt).Acquire(t.Context(), exclusive("key"))
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "READ COMMITTED") {
		t.Errorf("a store whose transactions are serializable: %v, want ErrUnavailable that names the cure", err)
	}
}

// A client that is idle in its transaction after it acquired a lock affects no other hold, neither
// on other keys nor on a shared one. Attempts on its key are refused, even before the commit.
func TestSQL_idle(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	other, slot := exclusive("other"), shared("slots")
	slot.Limit = 2
	grant(t, s, other)
	grant(t, s, slot)
	c, eval := plainSQL(t, srv.URL, opt)
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if ok, err := eval("select Schema.acquire_lock('mine', 'idle', 60)"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if ok, err := eval("select answer = '+' from Schema.acquire('slots', 'idle', '1 min', 1, 2)"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	watch := testenv.NewStopwatch(t)
	renew(t, s, other)
	renew(t, s, slot)
	for i, got := range s.RenewAll(t.Context(), []driver.Renewal{{ID: other.ID, TTL: time.Minute}, {ID: slot.ID, TTL: time.Minute}}) {
		if got.Err != nil {
			t.Errorf("renewal %d: %v", i, got.Err)
		}
	}
	release(t, s, other)
	grant(t, s, other)
	if took := watch.Elapsed(); took > 5*time.Second {
		t.Errorf("during an idle transaction renewals took %v", took)
	}
	w := queueing(exclusive("mine"))
	if res := refuse(t, s, w); !strings.Contains(res.Blocker.Holder, "transaction") || res.Retry != 0 {
		t.Errorf("refused with %+v, want the open transaction named", res)
	}
	wake := s.Watch(t.Context(), w.ID)
	refuse(t, s, w)
	release(t, s, slot) // its key is not free
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := refuse(t, s, w); res.Blocker.Holder != "idle" {
		t.Errorf("after the commit the blocker is %+v", res.Blocker)
	}
	drain(wake)
	if ok, err := eval("select Schema.release_lock('mine', 'idle')"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	woken(t, wake, "by the release")
	grant(t, s, w)
}

// A transaction that the server is at work on, as on a busy machine, makes attempts on its key wait
// for more than 200 ms. They are not refused.
func TestSQL_slow(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	works(t, s)
	slot := shared("slots")
	slot.Limit = 2
	c, eval := plainSQL(t, srv.URL, opt)
	pid := int64(c.PgConn().PID())
	slow := make(chan error, 1)
	go func() {
		_, err := eval("select answer = '+' and pg_sleep(0.7) is not null from Schema.acquire('slots', 'slow', '1 min', 1, 2)")
		slow <- err
	}()
	look, err := pgx.Connect(t.Context(), srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer look.Close(context.Background())
	eventually(t, "the slow transaction has the key", func() error {
		var has bool
		err := look.QueryRow(t.Context(),
			"select exists (select from pg_locks where pid = $1 and locktype = 'advisory' and granted)", pid).Scan(&has)
		if err == nil && !has {
			err = errors.New("not yet")
		}
		return err
	})
	if got := grant(t, s, slot); got.Used != 2 {
		t.Errorf("granted with %d used, want 2: before the slow transaction ended", got.Used)
	}
	if err := <-slow; err != nil {
		t.Error(err)
	}
}

// The context manager of docs/postgres.md, and a client that uses psycopg2's default and is idle in
// its transaction.
func TestSQL_python(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	s := made(t, url, nil)
	works(t, s)
	const script = `
idle = connect()
with idle.cursor() as cur:
    cur.execute("select distlock.acquire_lock('idle', 'python', 60)")
    assert cur.fetchone()[0]
try:
    with lock(connect, "go"):
        sys.exit("Go holds it")
except BlockingIOError:
    pass
with lock(connect, "nightly", ttl=6) as lost:
    print("held", flush=True)
    sys.stdin.readline()
    assert not lost.is_set()
print("released", flush=True)
sys.stdin.readline()
idle.commit()
print("done", flush=True)
`
	held := exclusive("go")
	grant(t, s, held)
	p := startPython(t, url, script)
	p.expect("held")
	time.Sleep(7 * time.Second) // it extends the lock
	refuse(t, s, exclusive("nightly"))
	renew(t, s, held)
	refuse(t, s, exclusive("idle"))
	p.send("")
	p.expect("released")
	grant(t, s, exclusive("nightly"))
	p.send("")
	p.expect("done")
	refuse(t, s, exclusive("idle"))
	renew(t, s, held)
}
