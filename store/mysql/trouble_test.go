package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	client "github.com/go-sql-driver/mysql"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/mysql"
)

// fresh returns a store, and a client of the same database.
func fresh(t testing.TB) (*mysql.Store, *sql.DB) {
	t.Helper()
	url := testenv.MariaDB(t, testenv.Shared()).Database(t)
	return made(t, url, nil), database(t, url)
}

// lockRow locks the row of a key, as a person in an open transaction does, until the test calls the
// result.
func lockRow(t testing.TB, db *sql.DB, key string) (unlock func()) {
	t.Helper()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if value(t, tx, "SELECT COUNT(*) FROM (SELECT lock_key FROM distlock_claim WHERE lock_key = ? FOR UPDATE) c", []byte(key)) == "0" {
		t.Fatal("no row of " + key)
	}
	return func() { _ = tx.Rollback() }
}

// lockWait finds the connection of a transaction that waits for the lock of a row.
var lockWait = regexp.MustCompile(`(?m)^LOCK WAIT .*\n.*thread id (\d+),`)

// waiting waits until n transactions wait for the lock of a row. It does not read the table
// INNODB_TRX: the server refreshes the table only if nobody has read it for 100 ms, and the tests
// that run at the same time keep each other from a new state.
func waiting(t testing.TB, db *sql.DB, n int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var kind, name, status string
		if err := db.QueryRow("SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status); err != nil {
			t.Fatal(err)
		}
		ids := "0"
		for _, found := range lockWait.FindAllStringSubmatch(status, -1) {
			ids += ", " + found[1]
		}
		if value(t, db, "SELECT COUNT(*) >= ? FROM information_schema.PROCESSLIST"+
			" WHERE DB = DATABASE() AND ID IN ("+ids+")", n) == "1" {
			return
		}
	}
	t.Fatalf("no %d transactions wait", n)
}

// The clock is read after the lock: a claim that waited for the lock lives for its whole TTL.
func TestStore_clock_after_lock(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *driver.Request){
		"direct":    func(*driver.Request) {},
		"procedure": func(r *driver.Request) { r.Floor = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db := fresh(t)
			first := exclusive("k")
			grant(t, s, first)
			release(t, s, first)
			unlock := lockRow(t, db, "k")
			defer unlock()
			r := exclusive("k")
			change(&r)
			done := make(chan error, 1)
			go func() {
				res, err := s.Acquire(context.Background(), r)
				if err == nil && !res.Granted {
					err = errors.New("refused")
				}
				done <- err
			}()
			waiting(t, db, 1)
			locked := value(t, db, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
			unlock()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			early := value(t, db, "SELECT ? - since FROM distlock_claim WHERE lock_key = 'k'", locked)
			if !strings.HasPrefix(early, "-") {
				t.Errorf("granted %s µs before it had the lock", early)
			}
			if life := value(t, db, "SELECT ends - since FROM distlock_claim WHERE lock_key = 'k'"); life != "60000000" {
				t.Errorf("it lives for %s µs, want a minute", life)
			}
		})
	}
}

// A renewal that got the lock of the key after the end of the claim does not bring the claim back,
// alone and with others.
func TestStore_renewed_too_late(t *testing.T) {
	t.Parallel()
	for name, renew := range map[string]func(s *mysql.Store, r driver.Renewal) error{
		"alone": func(s *mysql.Store, r driver.Renewal) error { _, err := s.Renew(context.Background(), r); return err },
		"together": func(s *mysql.Store, r driver.Renewal) error {
			return s.RenewAll(context.Background(), []driver.Renewal{r, r})[1].Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db := fresh(t)
			r := exclusive("k")
			r.TTL = 600 * time.Millisecond
			grant(t, s, r)
			unlock := lockRow(t, db, "k")
			defer unlock()
			ended := time.After(r.TTL)
			done := make(chan error, 1)
			go func() { done <- renew(s, driver.Renewal{ID: r.ID, TTL: time.Minute}) }()
			<-ended
			unlock()
			if err := <-done; !errors.Is(err, driver.ErrNotHeld) {
				t.Errorf("%v, want ErrNotHeld", err)
			}
		})
	}
}

// A key that somebody has locked is unavailable, for attempts and renewals, and ends no renewal of
// another key.
func TestStore_locked(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	var all []driver.Renewal
	for _, key := range []string{"a", "b", "c"} {
		r := exclusive(key)
		grant(t, s, r)
		all = append(all, driver.Renewal{ID: r.ID, TTL: time.Minute})
	}
	defer lockRow(t, db, "b")()
	attempt := make(chan error, 1)
	go func() {
		_, err := s.Acquire(context.Background(), queueing(exclusive("b")))
		attempt <- err
	}()
	for i, r := range s.RenewAll(t.Context(), all) {
		if i == 1 != errors.Is(r.Err, driver.ErrUnavailable) || i != 1 && r.Err != nil {
			t.Errorf("%s: %v", all[i].Key, r.Err)
		}
	}
	var e *client.MySQLError
	if err := <-attempt; !errors.Is(err, driver.ErrUnavailable) || !errors.As(err, &e) || e.Number != 1205 {
		t.Errorf("an attempt: %v, want ErrUnavailable because of error 1205", err)
	}
}

// In a deadlock with a larger transaction the server rolls back that of the store. An attempt is
// then unavailable, and has changed nothing. Renewals run again, one by one.
func TestStore_deadlock(t *testing.T) {
	t.Parallel()
	t.Run("attempt", func(t *testing.T) {
		t.Parallel()
		s, db := fresh(t)
		held, wants := shared("k"), queueing(exclusive("k"))
		grant(t, s, held)
		tx := large(t, db)
		statement(t, tx, "DO (SELECT COUNT(*) FROM (SELECT fence FROM distlock_claim WHERE lock_key = 'k' AND slot > '' FOR UPDATE) c)")
		done := make(chan error, 1)
		go func() {
			_, err := s.Acquire(context.Background(), wants)
			done <- err
		}()
		waiting(t, db, 1)
		statement(t, tx, "UPDATE distlock_claim SET news = news + 1 WHERE lock_key = 'k' AND slot = ''")
		var e *client.MySQLError
		if err := <-done; !errors.Is(err, driver.ErrUnavailable) || !errors.As(err, &e) || e.Number != 1213 {
			t.Errorf("%v, want ErrUnavailable because of error 1213", err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if all, err := s.Show(t.Context(), "k"); err != nil || len(all) != 1 || all[0].Owner != driver.Tag(held.Owner) {
			t.Errorf("%v, %v, want the claim of before", all, err)
		}
	})
	t.Run("renewals", func(t *testing.T) {
		t.Parallel()
		s, db := fresh(t)
		a, b := exclusive("a"), exclusive("b")
		grant(t, s, a)
		grant(t, s, b)
		tx := large(t, db)
		statement(t, tx, "UPDATE distlock_claim SET news = news + 1 WHERE lock_key = 'b'")
		done := make(chan []driver.Renewed, 1)
		go func() {
			done <- s.RenewAll(context.Background(), []driver.Renewal{{ID: a.ID, TTL: time.Hour}, {ID: b.ID, TTL: time.Hour}})
		}()
		waiting(t, db, 1)
		statement(t, tx, "UPDATE distlock_claim SET news = news + 1 WHERE lock_key = 'a'")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		for i, r := range <-done {
			if r.Err != nil {
				t.Errorf("renewal %d: %v", i, r.Err)
			}
		}
	})
}

// A Break of a key without a row has no row to lock. A claim that is granted during the call stays,
// or the call returns it.
func TestStore_break_unlocked(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	works(t, s)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	// Break waits for this row after it has passed the place of the row of the key.
	statement(t, tx, "INSERT INTO distlock_claim (lock_key, slot) VALUES ('k', 'x')")
	type answer struct {
		all []driver.Claim
		err error
	}
	done := make(chan answer, 1)
	go func() {
		all, err := s.Break(context.Background(), "k", 0, "stuck")
		done <- answer{all, err}
	}()
	waiting(t, db, 1)
	r := exclusive("k")
	grant(t, s, r)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	broken := <-done
	if broken.err != nil {
		t.Fatal(broken.err)
	}
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: time.Minute}); (err != nil) != (len(broken.all) > 0) {
		t.Errorf("Break returned %d claims, and the renewal is %v", len(broken.all), err)
	}
}

// large begins a transaction that the server does not roll back in a deadlock, because it has
// changed many rows.
func large(t testing.TB, db *sql.DB) *sql.Tx {
	t.Helper()
	if _, err := db.Exec("CREATE TABLE large (n INT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	statement(t, tx, "INSERT INTO large (n) WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c WHERE n < 500) SELECT n FROM c")
	return tx
}

func statement(t testing.TB, tx *sql.Tx, text string) {
	t.Helper()
	if _, err := tx.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// A procedure is a transaction of its own: within another one it fails, and commits nothing of it.
func TestProcedures_transaction(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	grant(t, s, exclusive("k"))
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("UPDATE distlock_claim SET task = 'mine' WHERE lock_key = 'k'"); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{
		"CALL distlock_acquire_lock('other', 'me', 30)", "CALL distlock_release_lock('k', 'me')", "CALL distlock_renew('k', 'o', 1, 0, NULL, 0)",
		"CALL distlock_renew_all('[]')", "CALL distlock_break('k', 0, '')", "CALL distlock_sweep('', 10)",
	} {
		var e *client.MySQLError
		if _, err := tx.Exec(call); !errors.As(err, &e) || e.Number != 1568 {
			t.Errorf("%s: %v, want error 1568", call, err)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got := value(t, db, "SELECT GROUP_CONCAT(task) FROM distlock_claim"); got != "" {
		t.Errorf("a procedure committed the transaction: %q", got)
	}
}

// Programs in other languages have the same locks.
func TestProcedures(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	works(t, s)
	answer := func(call string) string {
		t.Helper()
		rows, err := db.Query(call)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, _ := rows.Columns()
		cells := make([]any, len(columns))
		var first string
		cells[0] = &first
		for i := 1; i < len(cells); i++ {
			cells[i] = new(sql.RawBytes)
		}
		if !rows.Next() {
			t.Fatal(rows.Err())
		}
		if err := rows.Scan(cells...); err != nil {
			t.Fatal(err)
		}
		return first
	}
	for _, step := range []struct{ call, want string }{
		{"CALL distlock_acquire_lock('~n', 'a', 30)", "+"}, {"CALL distlock_acquire_lock('~n', 'a', 30)", "="},
		{"CALL distlock_acquire_lock('~n', 'b', 30)", "-"}, {"CALL distlock_release_lock('~n', 'b')", "0"},
	} {
		if got := answer(step.call); got != step.want {
			t.Errorf("%s: %s, want %s", step.call, got, step.want)
		}
	}
	if c := refuse(t, s, exclusive("~~n")).Blocker; c.Holder != "a" || c.Owner != driver.Tag("sql/a") {
		t.Errorf("the blocker is %+v", c)
	}
	if got := answer("CALL distlock_release_lock('~n', 'a')"); got != "1" {
		t.Error("release:", got)
	}
	grant(t, s, exclusive("~~n"))
	var e *client.MySQLError
	for _, call := range []string{
		"CALL distlock_acquire_lock('', 'a', 30)", "CALL distlock_acquire_lock('n', 'a', 0)", "CALL distlock_acquire_lock('n', NULL, 1)",
		"CALL distlock_break('n', -1, '')", "CALL distlock_break('n', 0, NULL)", "CALL distlock_renew('n', 'o', 0, 0, NULL, 0)",
	} {
		if _, err := db.Exec(call); !errors.As(err, &e) || e.Number != 1644 {
			t.Errorf("%s: %v, want error 1644", call, err)
		}
	}
}

// Connections that the server has closed cost nothing but a new one: the next call works, and is
// made once.
func TestStore_connections_killed(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	for i := range 5 {
		works(t, s)
		for _, id := range strings.Split(value(t, db, "SELECT COALESCE(GROUP_CONCAT(ID), '') FROM information_schema.PROCESSLIST"+
			" WHERE DB = DATABASE() AND ID <> CONNECTION_ID()"), ",") {
			_, _ = db.Exec("KILL " + id) // it may be gone
		}
		time.Sleep(20 * time.Millisecond)
		r := exclusive(fmt.Sprint("k", i))
		res, err := s.Acquire(t.Context(), r)
		if err != nil || !res.Granted || !res.Fresh {
			t.Fatalf("after the connections were closed: %+v, %v", res, err)
		}
		if all, err := s.Show(t.Context(), r.Key); err != nil || len(all) != 1 || all[0].Fence != res.Fence {
			t.Errorf("%v, %v, want one claim of fence %d", all, err, res.Fence)
		}
	}
}

// A call whose answer is lost may have been committed. It is sent once, and its outcome is unknown:
// database/sql would send it again. The same owner then gets the same claim.
func TestStore_sent_once(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *driver.Request){
		"direct":    func(*driver.Request) {},
		"procedure": func(r *driver.Request) { r.Floor = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.MariaDB(t, testenv.Shared())
			url, link := srv.Database(t), testenv.Proxy(t, srv.Addr)
			near, far := made(t, url, nil), made(t, on(t, url, link.Addr), nil)
			r := exclusive("k")
			change(&r)
			var all []driver.Claim
			for tries := 0; len(all) == 0; tries++ {
				if tries == 20 {
					t.Fatal("the statement was never sent: this tests nothing")
				}
				for range 2 { // the connection is open, and its statements are prepared
					grant(t, far, r)
					release(t, far, r)
				}
				far.Swept() // the answer that is cut off is that of the call
				r.Owner = exclusive("k").Owner
				link.CutAfter(0)
				if res, err := far.Acquire(t.Context(), r); err == nil || errors.Is(err, driver.ErrUnavailable) {
					t.Fatalf("granted %v, error %v; want an unknown outcome", res.Granted, err)
				}
				var err error
				if all, err = near.Show(t.Context(), "k"); err != nil || len(all) > 1 {
					t.Fatalf("%v, %v, want one claim", all, err)
				}
			}
			if res := grant(t, far, r); res.Fresh || res.Fence != all[0].Fence {
				t.Errorf("%+v, want the claim of fence %d again", res, all[0].Fence)
			}
		})
	}
}

// A server that crashes and comes back has all claims. While it is stopped, calls end with their
// context; while it is down, the store is unavailable or the outcome unknown.
func TestStore_server(t *testing.T) {
	t.Parallel()
	srv := testenv.MariaDB(t)
	s := made(t, srv.URL, nil)
	held := exclusive("held")
	res := grant(t, s, held)
	srv.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	began := time.Now()
	if _, err := s.Acquire(ctx, exclusive("k")); err == nil || errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("while the server is stopped: %v, want unknown", err)
	}
	cancel()
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("the call took %v", d)
	}
	srv.Resume()
	srv.Kill()
	if r, err := s.Acquire(t.Context(), exclusive("k")); err == nil {
		t.Errorf("granted %v without a server", r.Granted)
	}
	srv.Restart()
	works(t, s)
	if c := refuse(t, s, exclusive("held")).Blocker; c.Fence != res.Fence {
		t.Errorf("after the crash the blocker is %+v", c)
	}
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: held.ID, TTL: time.Minute}); err != nil {
		t.Errorf("the claim cannot be renewed: %v", err)
	}
	release(t, s, held)
	if next := grant(t, s, exclusive("held")); next.Fence < res.Fence+driver.Span {
		t.Errorf("fence %d after %d", next.Fence, res.Fence)
	}
}

// A server that accepts no more connections makes the store unavailable. Claims are renewed on
// connections that exist already.
func TestStore_no_connection(t *testing.T) {
	t.Parallel()
	srv := testenv.MariaDB(t, testenv.Config("max_connections = 10", "extra_max_connections = 1"))
	s := made(t, srv.URL, nil)
	held := exclusive("held")
	grant(t, s, held)
	renew := driver.Renewal{ID: held.ID, TTL: time.Minute}
	if _, err := s.Renew(t.Context(), renew); err != nil {
		t.Fatal(err)
	}
	s.Swept()
	db := database(t, srv.URL)
	// One more than the limit is for a user that may do everything. A connection that its client
	// has closed counts until the server has noticed it.
	for end := time.Now().Add(10 * time.Second); db.Stats().OpenConnections+s.Conns() < 11; {
		c, err := db.Conn(t.Context())
		if err == nil {
			defer c.Close()
		} else if time.Now().After(end) {
			t.Fatalf("the server has %d connections of the test, and refuses more: %v", db.Stats().OpenConnections+s.Conns(), err)
		}
	}
	if _, err := made(t, srv.URL, nil).Acquire(t.Context(), exclusive("k")); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("without a connection: %v, want ErrUnavailable", err)
	}
	if _, err := s.Renew(t.Context(), renew); err != nil {
		t.Errorf("the claim cannot be renewed: %v", err)
	}
}
