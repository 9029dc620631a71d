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

// under begins a transaction that gives back what a request holds, if it holds anything, and has the key until it is committed.
func under(t *testing.T, url string, opt *postgres.Options, r driver.Request) (commit func()) {
	t.Helper()
	c, ask := plainSQL(t, url, opt)
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask("select Schema.release($1, $2)", r.Key, r.Owner); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// busy wants that nothing was changed, since others have the key.
func busy(t *testing.T, verb string, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "55P03") {
		t.Errorf("%s under another's transaction: %v, want ErrUnavailable with 55P03", verb, err)
	}
}

// waits waits until a connection to the database waits for something, or what is under way is over.
func waits(t *testing.T, srv *testenv.PostgresServer, url, what string, over <-chan error) {
	t.Helper()
	name, _, _ := strings.Cut(url[strings.LastIndex(url, "/")+1:], "?")
	eventually(t, "it waits", func() error {
		rows := query(t, srv, "select count(*) from pg_stat_activity where datname = '"+name+"' and "+what)
		if rows[0][0] == "0" && len(over) == 0 {
			return errors.New("nobody waits")
		}
		return nil
	})
}

// empty wants that nothing stands on a key.
func empty(t *testing.T, s driver.Store, key string) {
	t.Helper()
	if cs, err := driver.Show(t.Context(), s, key); err != nil || len(cs) > 0 {
		t.Errorf("there is %+v, %v; want nothing", cs, err)
	}
}

// given releases until that is not refused because others have the key.
func given(ctx context.Context, s driver.Store, r driver.Request) error {
	for {
		if err := s.Release(ctx, r.ID); !errors.Is(err, driver.ErrUnavailable) {
			return err
		}
	}
}

// Whoever gives up its place while another's transaction grants it the key is not told that it has nothing.
func TestRelease_crossesHandOn(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	if srv.PID() == 0 {
		srv = testenv.Postgres(t) // PgBouncer needs one of our own
	}
	url := srv.Database(t)
	pooler := testenv.PgBouncer(t, srv, testenv.PoolTransaction)
	for name, way := range map[string]string{"direct": url, "pooled": on(t, url, pooler.Addr, "")} {
		t.Run(name, func(t *testing.T) {
			opt := &postgres.Options{Schema: name}
			s := made(t, way, opt)
			h, a := exclusive("key"), placed(exclusive("key"))
			grant(t, s, h)
			refuse(t, s, a)
			commit := under(t, url, opt, h)
			busy(t, "Release", s.Release(t.Context(), a.ID))
			done := make(chan error, 1)
			go func() { done <- given(t.Context(), s, a) }()
			waits(t, srv, url, "wait_event_type = 'Lock'", done)
			commit()
			if err := <-done; err != nil {
				t.Errorf("Release of what was granted meanwhile: %v", err)
			}
			empty(t, s, "key")

			// Where nothing was handed on, too, that is known only when the other is done.
			commit = under(t, url, opt, exclusive("key"))
			busy(t, "Release", s.Release(t.Context(), a.ID))
			grant(t, s, exclusive("other"))
			commit()
			if err := s.Release(t.Context(), a.ID); !errors.Is(err, driver.ErrNotHeld) {
				t.Errorf("Release of what is not there: %v, want ErrNotHeld", err)
			}
		})
	}
}

// SQL clients are told the same.
func TestSQL_releaseCrossesHandOn(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	h := exclusive("key")
	grant(t, s, h)
	_, ask := plainSQL(t, srv.URL, opt)
	if ok, err := ask("select answer = '-' from Schema.acquire('key', 'sql/h', '1 min', place => '1 min')"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	commit := under(t, srv.URL, opt, h)
	for _, call := range []string{"release('key', 'sql/h')", "release_lock('key', 'h')", "release_all('{other,key}', '{o,sql/h}')"} {
		if ok, err := ask("select Schema." + call); err == nil || !strings.Contains(err.Error(), "55P03") {
			t.Errorf("%s under another's transaction: %v, %v; want 55P03", call, ok, err)
		}
	}
	if ok, err := ask("select Schema.release('key', 'sql/h', false) is null"); err != nil || !ok {
		t.Errorf("release that does not wait: %v, %v; want null", ok, err)
	}
	commit()
	if ok, err := ask("select Schema.release_lock('key', 'h')"); err != nil || !ok {
		t.Errorf("release_lock of what was granted meanwhile: %v, %v", ok, err)
	}
	empty(t, s, "key")
}

// A release does not overtake the Acquire that it undoes, which waits for the key beside the lane.
func TestRelease_afterAcquireThatWaits(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	opt := &postgres.Options{Schema: "distlock"}
	s := made(t, url, opt)
	works(t, s)
	a := exclusive("key")
	commit := under(t, url, opt, exclusive("key"))
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
	if err := given(t.Context(), s, a); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		t.Error(err)
	}
	empty(t, s, "key")
}

// Whoever waits to be told that it has nothing does so beside the lane, where it holds up no other call of its process.
func TestLane_absent(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	opt := &postgres.Options{Schema: "distlock"}
	s := made(t, url, opt)
	works(t, s)
	commit := under(t, url, opt, exclusive("key"))
	for range 5 { // a wait that is over when it is looked at shows nothing
		done := make(chan error, 1)
		go func() { done <- s.Release(t.Context(), exclusive("key").ID) }()
		waits(t, srv, url, "wait_event_type = 'Lock'", done)
		if n := s.Queued(); n >= 0 {
			t.Error("the lane waits for the key")
		}
		busy(t, "Release", <-done)
	}
	commit()
	if err := s.Release(t.Context(), exclusive("key").ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Release of what is not there: %v, want ErrNotHeld", err)
	}
}

// A place that is there does not prove that no claim comes: its owner's Acquire may be under way.
func TestRelease_placeUnderTransaction(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	h, a := exclusive("key"), placed(exclusive("key"))
	grant(t, s, h)
	refuse(t, s, a)
	commit := under(t, srv.URL, opt, exclusive("key"))
	busy(t, "Release", s.Release(t.Context(), a.ID))
	release(t, s, h) // a claim is there for all to see
	commit()
	release(t, s, a)
	empty(t, s, "key")
}

// A claim whose commit waits for a standby is not told as if it were not there.
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
	eventually(t, "the claim can be given back", func() error { return s.Release(t.Context(), a.ID) })
	empty(t, s, a.Key)
}

// Whoever asks again while another's transaction grants it the key is not refused: it is granted the same, or told nothing.
func TestAcquire_crossesHandOn(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	opt := &postgres.Options{Schema: "distlock"}
	s := made(t, url, opt)
	h, a := exclusive("key"), placed(exclusive("key"))
	grant(t, s, h)
	refuse(t, s, a)
	commit := under(t, url, opt, h)
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
	waits(t, srv, url, "wait_event = 'transactionid'", done) // it waits for its place, and for the key no more
	commit()
	if err := <-done; err != nil {
		t.Errorf("Acquire of what was granted meanwhile: %v", err)
	}
	release(t, s, a)
	empty(t, s, "key")
}

// Being granted again gives up a place, so that nothing is granted after the release.
func TestAcquire_againGivesUpPlace(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	a := exclusive("key")
	grant(t, s, a)
	query(t, srv, "insert into "+quoted(opt)+`.place (key, owner, weight, "limit", holder, party, meta, channel, since, ends)
		values ('key', '`+a.Owner+`', 1, 1, '', '', '{}', '', now(), now() + interval '1 min')`)
	if res := grant(t, s, a); res.Behind != 0 {
		t.Errorf("%d wait behind it, want none", res.Behind)
	}
	release(t, s, a)
	empty(t, s, "key")
}

// A claim that is handed on lives as long as the place of its owner, who asked again meanwhile without the key.
func TestPromote_placeAskedForMeanwhile(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	opt := &postgres.Options{Schema: "distlock"}
	s := made(t, url, opt)
	h, a := exclusive("key"), placed(exclusive("key"))
	grant(t, s, h)
	refuse(t, s, a)
	c, _ := plainSQL(t, url, opt)
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "update distlock.place set ends = ends + interval '1 hour', life = life + interval '1 hour'"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- given(t.Context(), s, h) }()
	waits(t, srv, url, "wait_event = 'transactionid'", done)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if cs, err := s.Show(t.Context(), "key"); err != nil || len(cs) != 1 || cs[0].Waiting || cs[0].Left < time.Hour {
		t.Errorf("there is %+v, %v; want a claim for an hour", cs, err)
	}
}

// However many claims and places have ended, or were broken, List finds those that live behind them.
func TestList_endedBefore(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	grant(t, s, exclusive("b"))
	refuse(t, s, placed(exclusive("b")))
	for _, sql := range []string{
		`claim (key, owner, weight, "limit", fence, granted, holder, party, meta, since, ends, broken)
			select 'a' || i, 'o', 1, 1, 1, 1, '', '', '{}', now(), case when i > 150 then now() + interval '1 hour' else '-infinity' end, case when i > 150 then 'why' end`,
		`place (key, owner, weight, "limit", holder, party, meta, channel, since, ends) select 'a' || i, 'w', 1, 1, '', '', '{}', '', now(), '-infinity'`,
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
