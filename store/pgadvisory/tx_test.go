package pgadvisory_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/pgadvisory"
)

// txs opens connections of the caller, and begins a transaction on each.
func txs(t *testing.T, url string, n int) (all []pgx.Tx) {
	t.Helper()
	for range n {
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tx)
	}
	return all
}

// TestTryLockTx shows that a lock of a transaction excludes others and the store, and ends with the
// transaction.
func TestTryLockTx(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s := opened(t, url)
	tx := txs(t, url, 3)
	try := func(i int, want bool, opt *pgadvisory.TxOptions) uint64 {
		t.Helper()
		fence, ok, err := pgadvisory.TryLockTx(t.Context(), tx[i], "key", opt)
		if err != nil || ok != want || ok != (fence > 0) && (opt == nil || !opt.Unfenced) {
			t.Fatal(fence, ok, err)
		}
		return fence
	}
	first := try(0, true, nil)
	try(1, false, nil)
	try(1, false, &pgadvisory.TxOptions{Shared: true})
	refused(t, s, exclusive("key", time.Minute))
	if err := tx[0].Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := exclusive("key", time.Minute)
	second := take(t, s, r).Fence
	try(1, false, nil)
	free(t, s, r.ID)
	third := try(1, true, &pgadvisory.TxOptions{Shared: true})
	try(2, true, &pgadvisory.TxOptions{Shared: true, Unfenced: true})
	if second < first+driver.Span || third < second+driver.Span {
		t.Error("fences are", first, second, third)
	}
	for _, x := range tx[1:] {
		refused(t, s, exclusive("key", time.Minute))
		if err := x.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	take(t, s, exclusive("key", time.Minute))
	if _, _, err := pgadvisory.TryLockTx(t.Context(), tx[0], "", nil); !errors.Is(err, driver.ErrInvalid) {
		t.Error("an empty key:", err)
	}
}

// lockLater starts a LockTx, and returns when its transaction is in the server's queue: a server
// that has not started a statement misses its cancellation.
func lockLater(
	t *testing.T, ctx context.Context, url string, tx pgx.Tx, opt *pgadvisory.TxOptions,
) <-chan error {
	t.Helper()
	waits := make(chan error, 1)
	pid := tx.Conn().PgConn().PID()
	go func() {
		_, err := pgadvisory.LockTx(ctx, tx, "key", opt)
		waits <- err
	}()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	soon(t, 10*time.Second, func() error {
		var n int
		err := c.QueryRow(t.Context(),
			"select count(*) from pg_locks where pid = $1 and not granted", pid).Scan(&n)
		if err == nil && n == 0 {
			err = errors.New("it does not wait")
		}
		return err
	})
	return waits
}

// TestLockTx shows that a transaction waits in the server's queue until the lock is free,
// lock_timeout has passed or its ctx ends.
func TestLockTx(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s := opened(t, url)
	tx := txs(t, url, 3)
	r := exclusive("key", time.Minute)
	take(t, s, r)
	if _, err := tx[0].Exec(t.Context(), "set local lock_timeout = '50ms'"); err != nil {
		t.Fatal(err)
	}
	if _, err := pgadvisory.LockTx(t.Context(), tx[0], "key", nil); err == nil ||
		!strings.Contains(err.Error(), "lock timeout") {
		t.Error("with lock_timeout:", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := lockLater(t, ctx, url, tx[1], nil)
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Error("with a ctx that ends:", err)
	}
	waits = lockLater(t, t.Context(), url, tx[2], &pgadvisory.TxOptions{Shared: true})
	free(t, s, r.ID)
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	refused(t, s, exclusive("key", time.Minute))
	// The server may not have noticed yet that the second transaction has left its queue.
	reader := shared("key", time.Minute)
	soon(t, 10*time.Second, func() error { return got(t, s, reader) })
}

// TestStore_monitoring runs the query that the documentation has for monitoring.
func TestStore_monitoring(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	a, b := opened(t, url), opened(t, url)
	take(t, a, exclusive("key", time.Minute))
	w := exclusive("key", time.Minute)
	driver.Watch(t.Context(), b, w.ID)
	refused(t, b, w)
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	soon(t, 5*time.Second, func() error {
		rows, err := c.Query(t.Context(), documented(t, "```sql\nselect l.granted"))
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err != nil {
			return err
		}
		if len(lines) != 2 || lines[0]["granted"] != true || lines[1]["granted"] != false ||
			lines[0]["key"] != pgadvisory.Key("key") ||
			!strings.HasPrefix(lines[0]["application_name"].(string), "distlock pgadvisory.test[") {
			return fmt.Errorf("the rows are %v", lines)
		}
		return nil
	})
}

// documented returns the SQL of the page that begins so.
func documented(t *testing.T, begin string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/pgadvisory.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), begin)
	sql, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("the page has no", begin)
	}
	return strings.TrimPrefix(begin, "```sql\n") + sql
}
