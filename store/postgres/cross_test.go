package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// holdKey begins a transaction that releases the request's claim, if there is one, and has the key
// until commit is called.
func holdKey(t *testing.T, url string, opt *postgres.Options, r driver.Request) (commit func()) {
	t.Helper()
	c, eval := plainSQL(t, url, opt)
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eval("select Schema.release($1, $2)", r.Key, r.Owner); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// busy checks that nothing was changed because another transaction has the key.
func busy(t *testing.T, verb string, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "55P03") {
		t.Errorf("%s during another transaction: %v, want ErrUnavailable with 55P03", verb, err)
	}
}

// waits waits until a connection to the database waits for something, or until the call in progress
// has ended.
func waits(t *testing.T, srv *testenv.PostgresServer, url, what string, done <-chan error) {
	t.Helper()
	name, _, _ := strings.Cut(url[strings.LastIndex(url, "/")+1:], "?")
	eventually(t, "it waits", func() error {
		rows := query(t, srv, "select count(*) from pg_stat_activity where datname = '"+name+"' and "+what)
		if rows[0][0] == "0" && len(done) == 0 {
			return errors.New("no connection waits")
		}
		return nil
	})
}

// empty checks that a key has no claim and no queue entry.
func empty(t *testing.T, s driver.Store, key string) {
	t.Helper()
	if cs, err := driver.Show(t.Context(), s, key); err != nil || len(cs) > 0 {
		t.Errorf("found %+v, %v; want nothing", cs, err)
	}
}

// releaseEventually repeats a release until no other transaction has the key.
func releaseEventually(ctx context.Context, s driver.Store, r driver.Request) error {
	for {
		if err := s.Release(ctx, r.ID); !errors.Is(err, driver.ErrUnavailable) {
			return err
		}
	}
}

// A release of a queue entry does not return ErrNotHeld while another transaction grants the key to
// its owner.
func TestRelease_crossesHandOff(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	if srv.PID() == 0 {
		srv = testenv.Postgres(t) // PgBouncer needs a server of our own
	}
	url := srv.Database(t)
	pooler := testenv.PgBouncer(t, srv, testenv.PoolTransaction)
	for name, way := range map[string]string{"direct": url, "pooled": on(t, url, pooler.Addr, "")} {
		t.Run(name, func(t *testing.T) {
			opt := &postgres.Options{Schema: name}
			s := made(t, way, opt)
			h, a := exclusive("key"), queueing(exclusive("key"))
			grant(t, s, h)
			refuse(t, s, a)
			commit := holdKey(t, url, opt, h)
			busy(t, "Release", s.Release(t.Context(), a.ID))
			done := make(chan error, 1)
			go func() { done <- releaseEventually(t.Context(), s, a) }()
			waits(t, srv, url, "wait_event_type = 'Lock'", done)
			commit()
			if err := <-done; err != nil {
				t.Errorf("Release of what was granted meanwhile: %v", err)
			}
			empty(t, s, "key")

			// Without a hand-off the answer is known only when the other transaction has ended,
			// too.
			commit = holdKey(t, url, opt, exclusive("key"))
			busy(t, "Release", s.Release(t.Context(), a.ID))
			grant(t, s, exclusive("other"))
			commit()
			if err := s.Release(t.Context(), a.ID); !errors.Is(err, driver.ErrNotHeld) {
				t.Errorf("Release of what is not there: %v, want ErrNotHeld", err)
			}
		})
	}
}

// The same holds for SQL clients.
func TestSQL_releaseCrossesHandOff(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	h := exclusive("key")
	grant(t, s, h)
	_, eval := plainSQL(t, srv.URL, opt)
	if ok, err := eval("select answer = '-' from Schema.acquire('key', 'sql/h', '1 min', queue_ttl => '1 min')"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	commit := holdKey(t, srv.URL, opt, h)
	for _, call := range []string{"release('key', 'sql/h')", "release_lock('key', 'h')", "release_all('{other,key}', '{o,sql/h}')"} {
		if ok, err := eval("select Schema." + call); err == nil ||
			!strings.Contains(err.Error(), "55P03") {
			t.Errorf("%s during another transaction: %v, %v; want 55P03", call, ok, err)
		}
	}
	if ok, err := eval("select Schema.release('key', 'sql/h', false) is null"); err != nil || !ok {
		t.Errorf("release that does not wait: %v, %v; want null", ok, err)
	}
	commit()
	if ok, err := eval("select Schema.release_lock('key', 'h')"); err != nil || !ok {
		t.Errorf("release_lock of what was granted meanwhile: %v, %v", ok, err)
	}
	empty(t, s, "key")
}

// A release does not overtake the Acquire that it undoes, which waits for the key outside the
// batcher.
func TestRelease_afterAcquireThatWaits(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	opt := &postgres.Options{Schema: "distlock"}
	s := made(t, url, opt)
	works(t, s)
	a := exclusive("key")
	commit := holdKey(t, url, opt, exclusive("key"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, a)
		done <- err
	}()
	waits(t, srv, url, "wait_event_type = 'Lock'", done)
	cancel()
	<-done
	busy(t, "Release", s.Release(t.Context(), a.ID))
	commit()
	if err := releaseEventually(t.Context(), s, a); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		t.Error(err)
	}
	empty(t, s, "key")
}

// A release that may return ErrNotHeld waits outside the batcher, where it delays no other call of
// its process.
func TestBatcher_absent(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	opt := &postgres.Options{Schema: "distlock"}
	s := made(t, url, opt)
	works(t, s)
	commit := holdKey(t, url, opt, exclusive("key"))
	for range 5 { // a wait that ends before the check shows nothing
		done := make(chan error, 1)
		go func() { done <- s.Release(t.Context(), exclusive("key").ID) }()
		waits(t, srv, url, "wait_event_type = 'Lock'", done)
		if n := s.Queued(); n >= 0 {
			t.Error("the batcher waits for the key")
		}
		busy(t, "Release", <-done)
	}
	commit()
	if err := s.Release(t.Context(), exclusive("key").ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Release of what is not there: %v, want ErrNotHeld", err)
	}
}

// An existing queue entry does not prove that there is no claim: an Acquire of its owner may be in
// progress.
func TestRelease_queueEntryUnderTransaction(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	h, a := exclusive("key"), queueing(exclusive("key"))
	grant(t, s, h)
	refuse(t, s, a)
	commit := holdKey(t, srv.URL, opt, exclusive("key"))
	busy(t, "Release", s.Release(t.Context(), a.ID))
	release(t, s, h) // its claim is visible
	commit()
	release(t, s, a)
	empty(t, s, "key")
}

// Release does not return ErrNotHeld for a claim whose commit waits for a standby.
func TestRelease_crossesCommit(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	s := made(t, srv.URL, nil)
	works(t, s)
	standby := func(sql string) {
		query(t, srv, "alter system "+sql)
		query(t, srv, "select pg_reload_conf()")
	}
	standby("set synchronous_standby_names = 'nobody'")
	ctx, cancel := context.WithCancel(t.Context())
	var a driver.Request
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil { // until the server has read its settings
			a = exclusive(rand.Text())
			_, err = s.Acquire(ctx, a)
		}
		done <- err
	}()
	waits(t, srv, srv.URL, "wait_event = 'SyncRep'", done)
	cancel()
	<-done
	if err := s.Release(t.Context(), a.ID); err == nil || errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Release of what is being committed: %v, want an error that leaves it open", err)
	}
	standby("reset synchronous_standby_names")
	eventually(t, "the claim can be released", func() error { return s.Release(t.Context(), a.ID) })
	empty(t, s, a.Key)
}

// A repeated Acquire is not refused while another transaction grants the key to its owner: it
// returns that grant, or an error.
func TestAcquire_crossesHandOff(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	opt := &postgres.Options{Schema: "distlock"}
	s := made(t, url, opt)
	h, a := exclusive("key"), queueing(exclusive("key"))
	grant(t, s, h)
	refuse(t, s, a)
	commit := holdKey(t, url, opt, h)
	_, err := s.Acquire(t.Context(), a)
	busy(t, "Acquire", err)
	done := make(chan error, 1)
	go func() {
		for {
			res, err := s.Acquire(t.Context(), a)
			if errors.Is(err, driver.ErrUnavailable) {
				continue
			}
			if err == nil && !res.Granted {
				err = fmt.Errorf("refused by %+v", res.Blocker)
			}
			done <- err
			return
		}
	}()
	// It waits for its queue entry, not for the key.
	waits(t, srv, url, "wait_event = 'transactionid'", done)
	commit()
	if err := <-done; err != nil {
		t.Errorf("Acquire of what was granted meanwhile: %v", err)
	}
	release(t, s, a)
	empty(t, s, "key")
}

// A repeated grant removes the queue entry, so that nothing is granted after the release.
func TestAcquire_againLeavesQueue(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	a := exclusive("key")
	grant(t, s, a)
	query(t, srv, "insert into "+quoted(opt)+`.queue (key, owner, weight, "limit", holder, task, meta, channel, since, ends)
		values ('key', '`+a.Owner+`', 1, 1, '', '', '{}', '', now(), now() + interval '1 min')`)
	if res := grant(t, s, a); res.Behind != 0 {
		t.Errorf("%d wait behind it, want none", res.Behind)
	}
	release(t, s, a)
	empty(t, s, "key")
}

// A handed-off claim ends with its queue entry, which its owner has extended in the meantime
// without the key.
func TestPromote_entryRenewedMeanwhile(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	opt := &postgres.Options{Schema: "distlock"}
	s := made(t, url, opt)
	h, a := exclusive("key"), queueing(exclusive("key"))
	grant(t, s, h)
	refuse(t, s, a)
	c, _ := plainSQL(t, url, opt)
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "update distlock.queue set ends = ends + interval '1 hour', ttl = ttl + interval '1 hour'"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- releaseEventually(t.Context(), s, h) }()
	waits(t, srv, url, "wait_event = 'transactionid'", done)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if cs, err := s.Show(t.Context(), "key"); err != nil || len(cs) != 1 || cs[0].Waiting ||
		cs[0].Left < time.Hour {
		t.Errorf("there is %+v, %v; want a claim for an hour", cs, err)
	}
}

// However many claims and queue entries have ended or were broken, List finds the live ones after
// them.
func TestList_endedBefore(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	grant(t, s, exclusive("b"))
	refuse(t, s, queueing(exclusive("b")))
	for _, sql := range []string{
		`claim (key, owner, weight, "limit", fence, granted, holder, task, meta, since, ends, broken)
			select 'a' || i, 'o', 1, 1, 1, 1, '', '', '{}', now(), case when i > 150 then now() + interval '1 hour' else '-infinity' end, case when i > 150 then 'why' end`,
		`queue (key, owner, weight, "limit", holder, task, meta, channel, since, ends) select 'a' || i, 'w', 1, 1, '', '', '{}', '', now(), '-infinity'`,
	} {
		query(t, srv, "insert into "+quoted(opt)+"."+sql+" from generate_series(1, 300) i")
	}
	var got []string
	for c, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(c.Key, " ", c.Waiting))
	}
	if want := []string{"b false", "b true"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("List yields %q, want %q", got, want)
	}
}
