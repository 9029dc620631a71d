package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// 1,000 renewals are one statement, with one answer for each.
func TestStore_renewMany(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Config("track_functions = all"))
	s := made(t, srv.URL, nil)
	rs := make([]driver.Renewal, 1000)
	var wg sync.WaitGroup
	for i := range rs {
		r := exclusive(fmt.Sprint("key \"\\,{} ", i))
		rs[i] = driver.Renewal{ID: r.ID, TTL: 2 * time.Minute}
		if i%7 != 0 {
			wg.Go(func() { grant(t, s, r) })
		}
	}
	wg.Wait()
	for i, got := range s.RenewAll(t.Context(), rs) {
		if held := i%7 != 0; held != (got.Err == nil) || !held && !errors.Is(got.Err, driver.ErrNotHeld) {
			t.Fatalf("claim %d: %v", i, got.Err)
		}
	}
	s.Close() // the server counts the calls of a connection when it ends
	eventually(t, "the server has counted", func() error {
		rows := query(t, srv, "select funcname, calls from pg_stat_user_functions where schemaname = 'distlock' and funcname in ('renew', 'renew_all')")
		if len(rows) != 1 || rows[0][0] != "renew_all" || rows[0][1] != "1" {
			return fmt.Errorf("%v calls for 1000 renewals, want one of renew_all", rows)
		}
		return nil
	})
	if rows := query(t, srv, "select count(*) from distlock.locks where expires_at > now() + interval '90 s'"); rows[0][0] != "857" {
		t.Errorf("%v claims have the new TTL, want 857", rows)
	}
}

// Concurrent calls go out together. A call that the server refuses does not affect the others, and
// neither does a key that another transaction has.
func TestBatcher_together(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	s := made(t, url, nil)
	works(t, s)
	c, eval := plainSQL(t, url, &postgres.Options{Schema: "distlock"})
	if _, err := c.Exec(t.Context(), "alter table distlock.claim add check (holder <> 'refuse me')"); err != nil {
		t.Fatal(err)
	}
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if ok, err := eval("select Schema.acquire_lock('stuck', 'other', 60)"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	before := commits(t, srv, url)
	var wg sync.WaitGroup
	var slowest time.Duration
	var mu sync.Mutex
	for i := range 60 {
		wg.Go(func() {
			r := exclusive(fmt.Sprint("key", i))
			switch i {
			case 20:
				r.Holder = "refuse me"
				if _, err := s.Acquire(t.Context(), r); !errors.Is(err, driver.ErrUnavailable) ||
					!strings.Contains(err.Error(), "23514") {
					t.Errorf("what the server refuses: %v, want ErrUnavailable with 23514", err)
				}
				return
			case 40:
				r = exclusive("stuck")
				refuse(t, s, r)
				return
			}
			for range 10 {
				began := time.Now()
				grant(t, s, r)
				release(t, s, r)
				mu.Lock()
				slowest = max(slowest, time.Since(began))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if n := commits(t, srv, url) - before; n > 600 {
		t.Errorf("%d transactions for 1162 calls, want them together", n)
	}
	t.Logf("the slowest pair took %v", slowest)
}

// A transaction has locked some claims. Their releases all return in time that nothing was changed,
// and delay no other call.
func TestBatcher_locked(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	locked, others := make([]driver.Request, 40), make([]driver.Request, 20)
	var wg sync.WaitGroup
	for i := range locked {
		locked[i] = exclusive(fmt.Sprint("locked", i))
		wg.Go(func() { grant(t, s, locked[i]) })
	}
	for i := range others {
		others[i] = exclusive(fmt.Sprint("other", i))
		wg.Go(func() { grant(t, s, others[i]) })
	}
	wg.Wait()
	c, _ := plainSQL(t, srv.URL, opt)
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if tag, err := tx.Exec(t.Context(), "select from "+quoted(opt)+".claim where key like 'locked%' for update"); err != nil || tag.RowsAffected() != 40 {
		t.Fatal(tag, err)
	}
	watch := testenv.NewStopwatch(t)
	var answered atomic.Int32
	for _, r := range locked {
		wg.Go(func() {
			if err := s.Release(t.Context(), r.ID); !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("%s: %v, want that nothing was changed", r.Key, err)
			}
			answered.Add(1)
		})
	}
	var free sync.WaitGroup
	for _, r := range others {
		free.Go(func() {
			if err := s.Release(t.Context(), r.ID); err != nil {
				t.Errorf("%s: %v", r.Key, err)
			}
		})
	}
	free.Wait()
	if n := answered.Load(); n > 20 { // each of them has waited, a few at a time
		t.Errorf("the others had to wait until %d of 40 had returned", n)
	}
	wg.Wait()
	if took := watch.Elapsed(); took > 6*time.Second { // one after the other they would take 8 s
		t.Errorf("the releases took %v", took)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range locked {
		release(t, s, r)
	}
}

// The server notices the loss of a client whose host was switched off in the middle of a batch.
func TestBatcher_keepalive(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	grant(t, s, exclusive("key"))
	c, _ := plainSQL(t, srv.URL, opt)
	// Only the connection itself sees its settings, so a trigger on its statements records them.
	for _, sql := range []string{
		"create table Schema.seen (name text, value text)",
		"create function Schema.see() returns trigger language plpgsql as $$ begin insert into Schema.seen select name, setting from pg_settings where name like 'tcp_keepalives_%'; return old; end $$",
		"create trigger see before delete on Schema.claim for each row execute function Schema.see()",
	} {
		if _, err := c.Exec(t.Context(), strings.ReplaceAll(sql, "Schema", quoted(opt))); err != nil {
			t.Fatal(err)
		}
	}
	r := exclusive("another")
	grant(t, s, r)
	release(t, s, r)
	rows, err := c.Query(t.Context(),
		"select name || ' ' || value from "+quoted(opt)+".seen order by name")
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if want := []string{"tcp_keepalives_count 3", "tcp_keepalives_idle 10", "tcp_keepalives_interval 3"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// Calls of one batch see each other as if they had come one after the other, and see the waiters.
func TestBatcher_sameKey(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	proxy := testenv.Proxy(t, srv.Addr)
	s, other := made(t, on(t, srv.URL, proxy.Addr, ""), opt), made(t, srv.URL, opt)
	waited, waiter, slots, value := exclusive("waited"), queueing(exclusive("waited")),
		shared("slots"), exclusive("value")
	value.Value, value.Meta = []byte{0, '"', '\\', 255}, map[string]string{`a"{`: `\x,null`}
	held := []driver.Request{waited, exclusive("other"), slots}
	for _, r := range held {
		grant(t, s, r)
	}
	refuse(t, other, waiter)
	for _, key := range []string{"queue", "same", "value"} { // new keys have a test of their own
		r := exclusive(key)
		grant(t, s, r)
		release(t, s, r)
	}
	query(t, srv, "insert into "+quoted(opt)+`.queue (key, owner, weight, "limit", holder, task, meta, channel, since, ends)
		values ('queue', 'first', 1, 1, '', '', '{}', '', now(), now() + interval '1 min')`)

	proxy.Hold(testenv.Both)
	var wg sync.WaitGroup
	// All others wait for it and go out together.
	wg.Go(func() { _ = s.Release(t.Context(), exclusive("nobody's").ID) })
	waitQueued(t, s, 0)
	var same atomic.Int32
	for range 3 {
		wg.Go(func() {
			res, err := s.Acquire(t.Context(), exclusive("same"))
			if err != nil {
				t.Error(err)
			}
			if res.Granted {
				same.Add(1)
			}
		})
	}
	wg.Go(func() {
		if res, err := s.Acquire(t.Context(), exclusive("queue")); err != nil || res.Granted ||
			res.Blocker.Owner != driver.Tag("first") {
			t.Errorf("with one in the queue: %+v, %v", res, err)
		}
	})
	wg.Go(func() {
		if res, err := s.Acquire(t.Context(), value); err != nil || !res.Granted {
			t.Errorf("with a value: %+v, %v", res, err)
		}
	})
	for _, r := range held {
		wg.Go(func() {
			if err := s.Release(t.Context(), r.ID); err != nil {
				t.Error(err)
			}
		})
	}
	waitQueued(t, s, 3+2+len(held))
	proxy.Heal()
	wg.Wait()
	if n := same.Load(); n != 1 {
		t.Errorf("%d of three on one key were granted, want 1", n)
	}
	if cs, err := other.Show(t.Context(), "waited"); err != nil || len(cs) != 1 || cs[0].Waiting {
		t.Errorf("the waiter has no claim: %+v, %v", cs, err)
	}
	for _, key := range []string{"other", "slots"} {
		if cs, err := other.Show(t.Context(), key); err != nil || len(cs) > 0 {
			t.Errorf("%s is released, and there is %+v, %v", key, cs, err)
		}
	}
	res := refuse(t, other, exclusive("value"))
	if !bytes.Equal(res.Blocker.Value, value.Value) || !maps.Equal(res.Blocker.Meta, value.Meta) {
		t.Errorf("value %q and meta %q, want %q and %q", res.Blocker.Value, res.Blocker.Meta,
			value.Value, value.Meta)
	}
}

// One statement grants the claims of a batch on new keys and records their fences.
func TestBatcher_newKeys(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	proxy := testenv.Proxy(t, srv.Addr)
	s := made(t, on(t, srv.URL, proxy.Addr, "")+"&track_functions=all", opt)
	first := exclusive("first") // creates the schema and prepares both statements
	grant(t, s, first)
	release(t, s, first)
	const keys = 20
	ahead, twins := exclusive("ahead"), [2]driver.Request{exclusive("twin"), exclusive("twin")}
	ahead.Floor = uint64(time.Now().Add(10 * time.Minute).UnixMicro())

	proxy.Hold(testenv.Both)
	var wg sync.WaitGroup
	// All others wait for it and go out together.
	wg.Go(func() { _ = s.Release(t.Context(), exclusive("nobody's").ID) })
	waitQueued(t, s, 0)
	for i := range keys {
		wg.Go(func() { grant(t, s, exclusive(fmt.Sprint("key", i))) })
	}
	wg.Go(func() {
		if res := grant(t, s, ahead); res.Fence != ahead.Floor {
			t.Errorf("fence %d, want the floor %d", res.Fence, ahead.Floor)
		}
	})
	var granted atomic.Int32
	for _, r := range twins {
		wg.Go(func() {
			res, err := s.Acquire(t.Context(), r)
			if err != nil || res.Granted == (res.Blocker.Key == "twin") {
				t.Errorf("one of two on a new key: %+v, %v", res, err)
			}
			if res.Granted {
				granted.Add(1)
			}
		})
	}
	waitQueued(t, s, keys+1+len(twins))
	proxy.Heal()
	wg.Wait()
	if n := granted.Load(); n != 1 {
		t.Errorf("%d of two on one key were granted, want 1", n)
	}
	rows := query(t, srv, strings.ReplaceAll("select count(*) from Schema.key k join Schema.claim c using (key, fence)", "Schema", quoted(opt)))
	if want := fmt.Sprint(keys + 2); rows[0][0] != want {
		t.Errorf("the fences of %v keys are noted, want %s", rows, want)
	}
	if t.Failed() {
		return
	}
	// The server counts the calls of a connection when it ends, one function after the other.
	s.Close()
	eventually(t, "the server has counted", func() error {
		rows := query(t, srv, "select string_agg(funcname || ' ' || calls, ', ' order by funcname), sum(calls) from pg_stat_user_functions where schemaname = '"+
			strings.ReplaceAll(opt.Schema, "'", "''")+"' and funcname in ('attempt', 'attempt_all')")
		// Single calls: the very first one, the one with a floor, and the second of the two on one
		// key.
		const want = "attempt 3, attempt_all 1"
		if sum, err := strconv.Atoi(rows[0][1]); err == nil && sum > 4 {
			t.Errorf("the calls were %q, want %s", rows[0][0], want)
			return nil
		}
		if rows[0][0] != want {
			return fmt.Errorf("the calls were %q, want %s", rows[0][0], want)
		}
		return nil
	})
}

// Plans that were made for empty tables do not read all claims for each call of a batch.
func TestBatcher_plans(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	const workers, rounds, held = 16, 10, 5000
	contend := func() {
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				for range rounds {
					r := exclusive(fmt.Sprint("key", i))
					grant(t, s, r)
					release(t, s, r)
				}
			})
		}
		wg.Wait()
	}
	grant(t, s, exclusive("one"))
	query(t, srv, "insert into "+quoted(opt)+".key select 'other' || i, 1 from generate_series(1, 1000) i")
	for _, table := range []string{"key", "claim", "queue", "freed", "observer"} {
		// Now the planner assumes empty tables.
		query(t, srv, "vacuum analyze "+quoted(opt)+"."+table)
	}
	contend()
	query(t, srv, strings.ReplaceAll(fmt.Sprintf(`insert into Schema.claim (key, owner, weight, "limit", fence, granted, holder, task, meta, since, ends)
		select 'held' || i, 'o', 1, 1, 1, 1, '', '', '{}', now(), now() + interval '1 hour' from generate_series(1, %d) i`, held), "Schema", quoted(opt)))
	contend()
	s.Close() // the server counts the calls of a connection when it ends
	name := strings.ReplaceAll(opt.Schema, "'", "''")
	eventually(t, "the server has counted", func() error {
		rows := query(t, srv, "select i.idx_scan, i.idx_tup_read, t.seq_scan from pg_stat_user_indexes i join pg_stat_user_tables t using (relid) where i.schemaname = '"+name+"' and i.indexrelname in ('claim_pkey', 'key_pkey') order by i.indexrelname")
		scans, err := strconv.Atoi(rows[0][0])
		if err != nil || scans < workers*rounds {
			return fmt.Errorf("%v scans: %w", rows, err)
		}
		if read, err := strconv.Atoi(rows[0][1]); err != nil || read > 10*scans {
			t.Errorf("%d scans have read %d claims, %v", scans, read, err)
		}
		for i, what := range []string{"claims", "keys"} {
			// A few before the settings, and in sweeps.
			if full, err := strconv.Atoi(rows[i][2]); err != nil || full > 30 {
				t.Errorf("all %s were read %d times, %v", what, full, err)
			}
		}
		return nil
	})
}

// commits returns the number of transactions in a database, up to a second ago.
func commits(t testing.TB, srv *testenv.PostgresServer, url string) int {
	t.Helper()
	time.Sleep(1100 * time.Millisecond) // a connection reports its counts once a second
	name, _, _ := strings.Cut(url[strings.LastIndex(url, "/")+1:], "?")
	n, err := strconv.Atoi(query(t, srv,
		"select xact_commit from pg_stat_database where datname = '"+name+"'")[0][0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitQueued waits until one call is in progress and n calls wait behind it.
func waitQueued(t testing.TB, s *postgres.Store, n int) {
	t.Helper()
	eventually(t, "the calls wait", func() error {
		if got := s.Queued(); got != n {
			return fmt.Errorf("%d wait, want %d", got, n)
		}
		return nil
	})
}

// A call that was not sent before its ctx ends is never sent, and a call in progress can be undone.
func TestBatcher_abandonedCalls(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	proxy := testenv.Proxy(t, srv.Addr)
	s := made(t, on(t, srv.URL, proxy.Addr, ""), opt)
	works(t, s)
	proxy.Hold(testenv.Both)
	ctx, cancel := context.WithCancel(t.Context())
	sent, waiting := exclusive("in progress"), exclusive("waiting")
	var wg sync.WaitGroup
	for i, r := range []driver.Request{sent, waiting} {
		wg.Go(func() {
			if _, err := s.Acquire(ctx, r); !errors.Is(err, context.Canceled) {
				t.Errorf("Acquire: %v, want that it was cancelled", err)
			}
		})
		waitQueued(t, s, i)
	}
	cancel()
	wg.Wait()
	proxy.Heal()
	next := exclusive("in progress")
	eventually(t, "the key is free", func() error {
		if err := s.Release(t.Context(), sent.ID); err != nil && !errors.Is(err, driver.ErrNotHeld) {
			return err
		}
		res, err := s.Acquire(t.Context(), next)
		if err == nil && !res.Granted {
			err = errors.New("refused")
		}
		return err
	})
	if cs, err := s.Show(t.Context(), "waiting"); err != nil || len(cs) > 0 {
		t.Errorf("a call that was abandoned before it was sent: %v, %v", cs, err)
	}
	s.Close()
	if _, err := s.Acquire(t.Context(), sent); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("after Close: %v", err)
	}
}

// A sweep deletes idle keys and keeps held keys and recent fences.
func TestStore_sweep(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	sql := func(text string) [][]string {
		return query(t, srv, strings.ReplaceAll(text, "Schema", quoted(opt)))
	}
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			r := exclusive(fmt.Sprint("old", i))
			r.TTL = time.Millisecond
			grant(t, s, r)
		})
	}
	wg.Wait()
	held := exclusive("old7")
	var last uint64
	eventually(t, "the TTL has passed", func() error {
		res, err := s.Acquire(t.Context(), held)
		if last = res.Fence; err == nil && !res.Granted {
			err = errors.New("refused")
		}
		return err
	})
	recent := exclusive("recent")
	fence := grant(t, s, recent).Fence
	release(t, s, recent)
	sql("update Schema.key set fence = fence - 3600000000 where key <> 'recent' and key <> 'old7'")
	eventually(t, "only the held key and the one with a recent fence are left", func() error {
		sql("select Schema.sweep()") // no effect while the store sweeps
		if rows := sql("select string_agg(key, ' ' order by key) from Schema.key where key <> ''"); rows[0][0] != "old7 recent" {
			return fmt.Errorf("the keys %.60q are left", rows)
		}
		return nil
	})
	if rows := sql("select count(*) from Schema.claim"); rows[0][0] != "1" {
		t.Errorf("%v claims are left, want 1", rows)
	}
	renew(t, s, held)
	if next := grant(t, s, recent).Fence; next < fence+driver.Span {
		t.Errorf("fence %d after %d", next, fence)
	}
	// The clock of the server is behind the last fence: the fence stays, and the next one is above
	// it.
	ahead := last + 20*60*1e6
	sql(fmt.Sprintf("update Schema.key set fence = %d where key = 'old7'", ahead))
	release(t, s, held)
	for range 4 {
		sql("select Schema.sweep()")
	}
	if next := grant(t, s, held).Fence; next < ahead+driver.Span {
		t.Errorf("fence %d after %d, which the clock has not passed", next, ahead)
	}
}
