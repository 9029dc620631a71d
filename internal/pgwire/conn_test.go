package pgwire_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/distlock/distlock/internal/pgwire"
	"github.com/distlock/distlock/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Main(m, nil)) }

// connect returns a connection and its server process.
func connect(t *testing.T, notify func(channel, payload string)) (*pgwire.Conn, uint32) {
	t.Helper()
	pg, err := pgconn.Connect(t.Context(), testenv.Postgres(t, testenv.Shared()).URL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgwire.New(pg, notify)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.End)
	return c, pg.PID()
}

func query(t *testing.T, sql string) {
	t.Helper()
	if _, err := testenv.Postgres(t, testenv.Shared()).Query(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// send sends statements that are not prepared.
func send(t *testing.T, c *pgwire.Conn, sql ...string) *pgwire.Call {
	t.Helper()
	k := &pgwire.Call{Done: make(chan struct{})}
	for _, s := range sql {
		k.Add(pgwire.Statement{SQL: s})
	}
	if err := c.Send(k); err != nil {
		t.Fatal(err)
	}
	return k
}

func await(t *testing.T, c *pgwire.Conn, k *pgwire.Call) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := c.Await(ctx, k.Done); err != nil {
		t.Fatal(err)
	}
}

// Many goroutines on one connection each get their own answer.
func TestConn_order(t *testing.T) {
	t.Parallel()
	c, _ := connect(t, nil)
	k := &pgwire.Call{Done: make(chan struct{})}
	k.Add(pgwire.Statement{Name: "echo", SQL: "select $1::text", Only: true})
	if err := c.Send(k); err != nil {
		t.Fatal(err)
	}
	await(t, c, k)
	if st := k.Statements[0]; !st.Parsed || st.Done || k.Err != nil || k.Lost != nil {
		t.Fatalf("prepared only: %+v", k)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for j := range 20 {
				k, want := &pgwire.Call{Done: make(chan struct{})}, fmt.Sprint(i, j)
				k.Add(pgwire.Statement{Name: "echo", Args: [][]byte{[]byte(want)}})
				err := c.Send(k)
				if err == nil {
					err = c.Await(t.Context(), k.Done)
				}
				if rows := k.Statements[0].Rows; err != nil || k.Lost != nil || len(rows) != 1 || string(rows[0][0]) != want {
					t.Errorf("%q, %v, %v, %v; want %q", rows, err, k.Err, k.Lost, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// The statements of a call are one transaction, and an error of the server does not end the
// connection.
func TestConn_transaction(t *testing.T) {
	t.Parallel()
	c, _ := connect(t, nil)
	k := send(t, c, "create temporary table gone ()", "select 1/0", "select 1")
	await(t, c, k)
	var pgErr *pgconn.PgError
	if !errors.As(k.Err, &pgErr) || pgErr.Code != "22012" || k.Lost != nil {
		t.Errorf("%v, %v, want a division by zero", k.Err, k.Lost)
	}
	if st := k.Statements; !st[0].Done || st[1].Done || st[2].Done || st[2].Parsed {
		t.Errorf("only the first statement was executed: %+v", st)
	}
	k = send(t, c, "select from gone")
	await(t, c, k)
	if k.Err == nil {
		t.Error("a call that failed has changed something")
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// A caller reads an answer that is late, if there is no watch. It returns at the end of its ctx,
// and the watch reads the answer then.
func TestConn_late(t *testing.T) {
	t.Parallel()
	c, _ := connect(t, nil)
	k := send(t, c, "select pg_sleep(0.1)")
	await(t, c, k)
	if k.Err != nil || k.Lost != nil {
		t.Error(k.Err, k.Lost)
	}
	c.Watch(nil)
	k = send(t, c, "select pg_sleep(0.3)")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	watch := testenv.NewStopwatch(t)
	if err := c.Await(ctx, k.Done); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if took := watch.Elapsed(); took > 250*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	select {
	case <-k.Done:
		if k.Err != nil || k.Lost != nil {
			t.Error(k.Err, k.Lost)
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody reads the answer")
	}
}

// A connection that is cut reports its calls as lost, and sends no more.
func TestConn_Close(t *testing.T) {
	t.Parallel()
	c, _ := connect(t, nil)
	first, second := send(t, c, "select pg_sleep(60)"), send(t, c, "select 1")
	time.AfterFunc(50*time.Millisecond, c.Close)
	for _, k := range []*pgwire.Call{first, second} {
		await(t, c, k)
		if k.Lost == nil || k.Statements[0].Done {
			t.Errorf("an answer from a connection that was cut: %+v", k)
		}
	}
	idle, _ := connect(t, nil)
	idle.Close() // nobody reads, so that nobody notices
	if err := idle.Send(&pgwire.Call{}); err == nil || idle.Err() == nil {
		t.Error("a call was sent on a connection that was cut")
	}
}

// The watch notices notifications, and the end of an idle connection.
func TestConn_Watch(t *testing.T) {
	t.Parallel()
	heard := make(chan string, 1)
	c, pid := connect(t, func(channel, payload string) { heard <- channel + " " + payload })
	k := send(t, c, "listen pgwire")
	await(t, c, k)
	ended := make(chan struct{})
	c.Watch(func() { close(ended) })
	query(t, "select pg_notify('pgwire', 'hello')")
	select {
	case got := <-heard:
		if got != "pgwire hello" {
			t.Error(got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no notification")
	}
	query(t, fmt.Sprintf("select pg_terminate_backend(%d)", pid))
	for _, end := range []<-chan struct{}{ended, c.Ended()} {
		select {
		case <-end:
		case <-time.After(10 * time.Second):
			t.Fatal("the end was not noticed")
		}
	}
	var pgErr *pgconn.PgError
	if !errors.As(c.Err(), &pgErr) || pgErr.Code != "57P01" {
		t.Errorf("%v, want admin_shutdown", c.Err())
	}
}
