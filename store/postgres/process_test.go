package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

var roles = testenv.Roles{"first": firstRole, "hold": holdRole}

// reach opens a store in a helper process.
func reach(url, schema string) (*postgres.Store, func(), error) {
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return nil, nil, err
	}
	s, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		return nil, nil, err
	}
	return s, func() { s.Close(); pool.Close() }, nil
}

// firstRole acquires a key of its own in an empty database.
func firstRole(args []string) int {
	s, done, err := reach(args[0], "distlock")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer done()
	bufio.NewReader(os.Stdin).ReadString('\n') // all begin at the same time
	r := exclusive("own/" + args[1])
	if res, err := s.Acquire(context.Background(), r); err != nil || !res.Granted {
		fmt.Fprintln(os.Stderr, res, err)
		return 1
	}
	return 0
}

// Ten processes that find no schema create it once.
func TestProcesses_first(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t, testenv.Shared()).Database(t)
	var all []*testenv.HelperProcess
	for i := range 10 {
		all = append(all, testenv.Helper(t, "first", url, strconv.Itoa(i)))
	}
	for _, h := range all {
		h.Say("now")
	}
	for _, h := range all {
		if code := h.Wait(); code != 0 {
			t.Errorf("a process ended with %d: %s", code, h.Log())
		}
	}
	s := made(t, url, nil)
	n := 0
	for _, err := range s.List(t.Context(), "own/") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 10 {
		t.Errorf("%d claims, want 10", n)
	}
}

// holdTTL is the TTL of holdRole's claim.
const holdTTL = 700 * time.Millisecond

// holdRole acquires a key for a short time. After a signal it acts as if it still held the key: it
// sends an update that compares fences, an update that does not, and a renewal.
func holdRole(args []string) int {
	s, done, err := reach(args[0], args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer done()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer conn.Close(ctx)
	r := exclusive("row")
	r.TTL = holdTTL
	res, err := s.Acquire(ctx, r)
	if err != nil || !res.Granted {
		fmt.Fprintln(os.Stderr, res, err)
		return 1
	}
	fmt.Println(res.Fence)
	bufio.NewReader(os.Stdin).ReadString('\n')
	fenced, err := conn.Exec(ctx,
		"update "+args[2]+" set fence = $1, text = 'old' where fence <= $1", res.Fence)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	plain, err := conn.Exec(ctx, "update "+args[2]+" set careless = 'old'")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, err = s.Renew(ctx, driver.Renewal{ID: r.ID, TTL: time.Minute})
	fmt.Println(fenced.RowsAffected(), plain.RowsAffected(), errors.Is(err, driver.ErrNotHeld),
		errors.Is(s.Release(ctx, r.ID), driver.ErrNotHeld))
	return 0
}

// A holder that was paused for longer than its TTL is refused by its fence and harms no one. A
// write that does not compare fences overwrites data.
func TestProcesses_paused(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	works(t, s)
	table := quoted(opt) + ".row"
	query(t, srv, "create table "+table+" (fence bigint, text text, careless text); insert into "+table+" values (0, '', '')")
	h := testenv.Helper(t, "hold", srv.URL, opt.Schema, table)
	old, _ := strconv.ParseUint(h.Line(), 10, 64)
	held := time.Now()
	h.Pause()
	r := exclusive("row")
	fence := succeed(t, s, r, held)
	if old == 0 || fence < old+driver.Span {
		t.Errorf("fence %d after %d", fence, old)
	}
	query(t, srv, fmt.Sprintf("update %s set fence = %d, text = 'new', careless = 'new'", table, fence))
	h.Resume()
	h.Say("go on")
	if got := h.Line(); got != "0 1 true true" {
		t.Errorf("the paused holder: %s; want its fenced update refused, the other done, and its claim not held", got)
	}
	if rows := query(t, srv, "select text, careless from "+table); rows[0][0] != "new" ||
		rows[0][1] != "old" {
		t.Errorf("the row is %v, want the fenced text kept and the other lost", rows[0])
	}
	renew(t, s, r)
}

// After a holder is killed, the next one is granted when the TTL has passed.
func TestProcesses_killed(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	works(t, s)
	h := testenv.Helper(t, "hold", srv.URL, opt.Schema, "none")
	h.Line()
	held := time.Now()
	h.Kill()
	succeed(t, s, exclusive("row"), held)
}

// succeed acquires the key of a holder that does not renew and was granted before held. A refusal
// after the TTL is an error, even if this process is delayed. It returns the fence.
func succeed(t *testing.T, s driver.Store, r driver.Request, held time.Time) (fence uint64) {
	t.Helper()
	refused := 0
	eventually(t, "the next holder", func() error {
		began := time.Now()
		res, err := s.Acquire(t.Context(), r)
		if fence = res.Fence; err != nil || res.Granted {
			return err
		}
		refused++
		if late := began.Sub(held.Add(holdTTL)); late > 0 {
			t.Errorf("refused %v after the holder's TTL", late)
		}
		return errors.New("refused")
	})
	t.Logf("refused %d times", refused)
	return fence
}
