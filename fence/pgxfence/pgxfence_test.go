package pgxfence_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/fence/pgxfence"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testenv.Main(m, nil))
}

func open(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func database(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, testenv.Postgres(t, testenv.Shared()).Database(t))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run(t testing.TB, db *pgxpool.Pool, query string, args ...any) {
	t.Helper()
	_, err := db.Exec(t.Context(), query, args...)
	must(t, err)
}

func count(t testing.TB, db *pgxpool.Pool, query string) (n int) {
	t.Helper()
	must(t, db.QueryRow(t.Context(), query).Scan(&n))
	return n
}

func proof(t testing.TB, key string, n uint64) fence.Proof {
	t.Helper()
	p, err := fence.New(key, n)
	must(t, err)
	return p
}

// wantStale fails unless err says that fence is stale, and that current is the highest.
func wantStale(t testing.TB, err error, n, current uint64) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) {
		t.Fatalf("fence %d after %d: %v, want ErrStale", n, current, err)
	}
	if stale.Fence != n || stale.Current != current {
		t.Errorf("the error has fence %d and current %d, want %d and %d", stale.Fence, stale.Current, n, current)
	}
}

func TestRow(t *testing.T) {
	ctx, db := t.Context(), database(t)
	run(t, db, "create schema billing")
	run(t, db, "create table billing.invoice (number int primary key, paid bool, note text, mark bigint not null default 0)")
	run(t, db, "insert into billing.invoice (number) values (42)")
	row := pgxfence.Row{Table: "billing.invoice", Key: "number", Column: "mark"}
	update := func(db pgxfence.DB, n uint64) error {
		return row.Update(ctx, db, proof(t, "invoice/42", n), 42, "paid = $1, note = $2", true, "by hand")
	}
	must(t, update(db, 9))
	must(t, update(db, 9))
	must(t, update(db, 10))
	wantStale(t, update(db, 9), 9, 10)
	must(t, update(db, 1<<53-2))
	must(t, update(db, 1<<53-1))
	wantStale(t, update(db, 1<<53-2), 1<<53-2, 1<<53-1)
	must(t, row.Update(ctx, db, proof(t, "invoice/42", 1<<53-1), 42, ""))
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return update(tx, 1) })
	wantStale(t, err, 1, 1<<53-1)
	if err := row.Update(ctx, db, proof(t, "invoice/43", 9), 43, ""); !errors.Is(err, pgx.ErrNoRows) || errors.Is(err, fence.ErrStale) {
		t.Errorf("no such row: %v", err)
	}
	if n := count(t, db, "select count(*) from billing.invoice where paid and note = 'by hand' and mark = 9007199254740991"); n != 1 {
		t.Error("the row is not as the last holder left it")
	}
	for what, err := range map[string]error{
		"no lease":            row.Update(ctx, db, nil, 42, ""),
		"none in the context": row.Update(ctx, db, distlock.FromContext(ctx), 42, ""),
		"name":                pgxfence.Row{Table: "a b"}.Update(ctx, db, proof(t, "a", 1), 42, ""),
	} {
		if !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	run(t, db, "create table t (id int primary key, fence text not null)")
	run(t, db, "insert into t values (1, '9')")
	if err := (pgxfence.Row{Table: "t"}).Update(ctx, db, proof(t, "a", 10), 1, ""); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("a fence that is text: %v, want the server to refuse the comparison", err)
	}
}

func TestTable(t *testing.T) {
	ctx, db := t.Context(), database(t)
	table := pgxfence.Table{}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if err := table.Ensure(ctx, db); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	run(t, db, "create table note (text text)")
	write := func(n uint64) error {
		return table.Do(ctx, db, proof(t, "notes", n), func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into note values ('a')")
			return err
		})
	}
	must(t, write(9))
	must(t, write(9))
	must(t, write(10))
	wantStale(t, write(9), 9, 10)
	must(t, write(1<<53-2))
	must(t, write(1<<53-1))
	wantStale(t, write(1<<53-2), 1<<53-2, 1<<53-1)
	mine := errors.New("mine")
	if err := table.Do(ctx, db, proof(t, "other", 20), func(pgx.Tx) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("%v, want the error of the function", err)
	}
	must(t, table.Do(ctx, db, proof(t, "other", 19), func(pgx.Tx) error { return nil })) // 20 was never committed
	if n := count(t, db, "select count(*) from note"); n != 5 {
		t.Errorf("%d notes, want 5", n)
	}
	if n, err := table.Sweep(ctx, db, 1000); n != 1 || err != nil {
		t.Errorf("%d swept, %v, want 1", n, err)
	}
	wantStale(t, write(9), 9, 1<<53-1)

	bad := pgxfence.Table{Name: "a b"}
	_, swept := table.Sweep(ctx, db, 1<<53)
	_, _, read := pgxfence.Recorded[int](ctx, db, bad, "a")
	for what, err := range map[string]error{
		"name": bad.Ensure(ctx, db), "read": read, "bound": swept, "no lease": table.Register(db).Advance(ctx, nil),
		"register": bad.Register(db).Advance(ctx, proof(t, "a", 1)),
	} {
		if !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
}

// A role that may not create tables uses an existing one.
func TestTable_Ensure_role(t *testing.T) {
	ctx, server := t.Context(), testenv.Postgres(t, testenv.Shared())
	url := server.Database(t)
	db := open(t, url)
	must(t, pgxfence.Table{}.Ensure(ctx, db))
	run(t, db, "revoke create on schema public from public")
	role := "r" + strings.ToLower(rand.Text())
	run(t, db, "create role "+role)
	t.Cleanup(func() {
		db.Exec(context.Background(), "drop owned by "+role)
		db.Exec(context.Background(), "drop role "+role)
	})
	run(t, db, "grant select, insert, update on distlock_fence to "+role)
	conn, err := pgx.Connect(ctx, url)
	must(t, err)
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "set role "+role)
	must(t, err)
	must(t, pgxfence.Table{}.Ensure(ctx, conn))
	must(t, pgxfence.Table{}.Do(ctx, conn, proof(t, "a", 1), func(pgx.Tx) error { return nil }))
	if err := (pgxfence.Table{Name: "another"}).Ensure(ctx, conn); err == nil {
		t.Error("a table that is not there and may not be created: no error")
	}
}

type receipt struct {
	Number int
	Text   string
}

func TestOnce(t *testing.T) {
	ctx, db := t.Context(), database(t)
	table := pgxfence.Table{}
	must(t, table.Ensure(ctx, db))
	run(t, db, "create table charge (amount int)")
	charge := func(n uint64, fail error) (receipt, error) {
		return pgxfence.Once(ctx, db, table, proof(t, "charge/42", n), func(tx pgx.Tx) (receipt, error) {
			if _, err := tx.Exec(ctx, "insert into charge values (7)"); err != nil {
				return receipt{}, err
			}
			return receipt{int(n), "é\x00"}, fail
		})
	}
	lost := errors.New("lost on the way")
	if got, err := charge(10, lost); !errors.Is(err, lost) || got != (receipt{}) {
		t.Fatal(got, err)
	}
	must(t, table.Do(ctx, db, proof(t, "charge/42", 11), func(pgx.Tx) error { return nil }))
	_, err := charge(10, nil)
	wantStale(t, err, 10, 11)
	var wg sync.WaitGroup
	for _, n := range []uint64{12, 12, 12, 12, 12, 12, 12, 12} { // a lock that failed: many hold it
		wg.Go(func() {
			if got, err := charge(n, nil); err != nil || got != (receipt{12, "é\x00"}) {
				t.Errorf("fence %d: %+v, %v, want the result of 12", n, got, err)
			}
		})
	}
	wg.Wait()
	for _, n := range []uint64{13, 10} { // 10 is stale, and still gets the result
		if got, err := charge(n, nil); err != nil || got.Number != 12 {
			t.Errorf("fence %d: %+v, %v, want the result of 12", n, got, err)
		}
	}
	if got, ok, err := pgxfence.Recorded[receipt](ctx, db, table, "charge/42"); got.Number != 12 || !ok || err != nil {
		t.Errorf("recorded: %+v, %v, %v", got, ok, err)
	}
	if n := count(t, db, "select count(*) from charge"); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return pgxfence.Record(ctx, tx, table, proof(t, "charge/42", 20), 1) })
	if !errors.Is(err, fence.ErrRecorded) {
		t.Errorf("recorded twice: %v, want ErrRecorded", err)
	}
	if _, err := pgxfence.Once(ctx, db, table, nil, func(pgx.Tx) (int, error) { return 1, nil }); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("no lease: %v", err)
	}
}

// The register of two instances outlives a crash of the database.
func TestRegister_restart(t *testing.T) {
	server := testenv.Postgres(t)
	ctx, url := t.Context(), server.Database(t)
	table := pgxfence.Table{}
	must(t, table.Ensure(ctx, open(t, url)))
	status := func(pool *pgxpool.Pool, header string) int {
		key := func(*http.Request) string { return "a" }
		h := fence.Middleware(table.Register(pool), key, nil)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPut, "/", nil)
		r.Header.Set(fence.Header, header)
		h.ServeHTTP(w, r)
		return w.Code
	}
	one, two := open(t, url), open(t, url)
	if a, b, c := status(one, "9;exclusive;a"), status(two, "10;exclusive;a"), status(one, "9;exclusive;a"); a != 200 || b != 200 || c != 409 {
		t.Errorf("before: %d, %d, %d, want 200, 200, 409", a, b, c)
	}
	server.Kill()
	if s := status(one, "10;exclusive;a"); s != 503 {
		t.Errorf("without the database: %d, want 503", s)
	}
	server.Restart()
	one, two = open(t, url), open(t, url)
	if a, b := status(one, "9;exclusive;a"), status(two, "10;exclusive;a"); a != 409 || b != 200 {
		t.Errorf("after: %d, %d, want 409, 200", a, b)
	}
}

// Fifty goroutines count under a lock, and the counter checks their fences: none is refused, no
// count is lost.
func TestRow_count(t *testing.T) {
	const goroutines, rounds = 50, 4
	ctx, db := t.Context(), database(t)
	run(t, db, "create table counter (id int primary key, n int not null, fence bigint not null default 0)")
	run(t, db, "insert into counter values (1, 0)")
	locker, err := distlock.New(mem.New(), distlock.TTL(30*time.Second))
	must(t, err)
	defer locker.Close(context.WithoutCancel(ctx))
	row := pgxfence.Row{Table: "counter"}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				err := locker.Do(ctx, "counter/1", func(ctx context.Context) error {
					var n int
					if err := db.QueryRow(ctx, "select n from counter where id = 1").Scan(&n); err != nil {
						return err
					}
					return row.Update(ctx, db, distlock.FromContext(ctx), 1, "n = $1", n+1)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := count(t, db, "select n from counter"); n != goroutines*rounds {
		t.Errorf("counted %d, want %d", n, goroutines*rounds)
	}
}
