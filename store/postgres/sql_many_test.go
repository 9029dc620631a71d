package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// Two calls of one owner lower its weight at the same time, without the lock of the key: the sum of
// the claims falls once. Otherwise more claims than the limit would be granted.
func TestSQL_sumLoweredTwice(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	one := func(weight int64) driver.Request {
		r := exclusive("permits")
		r.Weight, r.Limit = weight, 60
		return r
	}
	big := one(30)
	grant(t, s, big)
	for range 30 { // enough claims to keep their sum
		grant(t, s, one(1))
	}
	refuse(t, s, one(1))
	begin := func() pgx.Tx {
		c, _ := plainSQL(t, srv.URL, opt)
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		return tx
	}
	idle, first, second := begin(), begin(), begin()
	if _, err := idle.Exec(t.Context(), "select "+quoted(opt)+".acquire('permits', 'nobody', '1 s', 60, 60)"); err != nil {
		t.Fatal(err)
	}
	lower := func(tx pgx.Tx) error {
		var answer string
		err := tx.QueryRow(t.Context(), "select answer from "+quoted(opt)+".acquire('permits', $1, '1 min', 1, 60)", big.Owner).Scan(&answer)
		if err == nil && answer != "=" {
			err = errors.New("answer " + answer)
		}
		return err
	}
	query(t, srv, "alter function "+quoted(opt)+".acquire set lock_timeout = 0") // so that the second call waits
	if err := lower(first); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		err := lower(second)
		done <- errors.Join(err, second.Commit(context.WithoutCancel(t.Context())))
	}()
	eventually(t, "the second call waits for the claim", func() error {
		if rows := query(t, srv, "select from pg_stat_activity where wait_event_type = 'Lock' and wait_event = 'transactionid'"+
			" and pid = "+strconv.Itoa(int(second.Conn().PgConn().PID()))); len(rows) == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	if err := errors.Join(first.Commit(t.Context()), <-done, idle.Rollback(t.Context())); err != nil {
		t.Fatal(err)
	}
	var sum int64 = 31
	for res := (driver.Result{Granted: true}); res.Granted && sum < 100; {
		var err error
		if res, err = s.Acquire(t.Context(), one(1)); err != nil {
			t.Fatal(err)
		}
		if res.Granted {
			sum++
		}
	}
	if sum != 60 {
		t.Errorf("the claims have the weight %d, want the limit, 60", sum)
	}
}

// The rows that a call reads do not depend on the number of queue entries and claims on its key.
func TestSQL_flat(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	works(t, made(t, srv.URL, opt))
	for _, sql := range []string{
		"insert into Schema.key values ('queue', 1), ('many', 1)",
		`insert into Schema.claim (key, owner, weight, "limit", fence, granted, holder, task, meta, since, ends)
			select case i when 0 then 'queue' else 'many' end, 'o' || i, case i when 0 then 1073741824 else 1 end, 1073741824, 1, 1, '', '', '{}', now(), now() + interval '1 hour'
			from generate_series(0, 1000) i`,
		`insert into Schema.queue (key, owner, weight, "limit", holder, task, meta, channel, since, ends, ttl)
			select 'queue', 'w' || i, 1073741824, 1073741824, '', '', '{}', '', now(), now() + interval '1 hour', '1 hour' from generate_series(1, 4000) i`,
		// The first call counts the claims.
		"select Schema.attempt('many', 'first', '1 hour', 1, 1073741824, null, 0, '', '', '{}', null, '', true)",
	} {
		query(t, srv, strings.ReplaceAll(sql, "Schema", quoted(opt)))
	}
	const attempt = "Schema.attempt('%s', '%s', '1 hour', %s, 1073741824, %s, 0, '', '', '{}', null, '', true)"
	for name, call := range map[string]string{
		"attempt of the head":            fmt.Sprintf(attempt, "queue", "w1", "1073741824", "'1 hour'"),
		"attempt in the middle":          fmt.Sprintf(attempt, "queue", "w2000", "1073741824", "'1 hour'"),
		"attempt of the last":            fmt.Sprintf(attempt, "queue", "w4000", "1073741824", "'1 hour'"),
		"attempt of another":             fmt.Sprintf(attempt, "queue", "new", "1073741824", "'1 hour'"),
		"attempt of the holder":          fmt.Sprintf(attempt, "queue", "o0", "1073741824", "null"),
		"renewal before a queue":         "Schema.renew('queue', 'o0', '1 hour')",
		"renewals before a queue":        "Schema.renew_all('{queue}', '{o0}', '{1 hour}')",
		"release that grants":            "Schema.release('queue', 'o0')",
		"entry that leaves":              "Schema.release('queue', 'w2000')",
		"claim among many":               fmt.Sprintf(attempt, "many", "new", "1", "null"),
		"claim among many, again":        fmt.Sprintf(attempt, "many", "o500", "1", "null"),
		"exclusive claim, refused":       fmt.Sprintf(attempt, "many", "new", "1073741824", "'1 hour'"),
		"renewal among many":             "Schema.renew('many', 'o500', '1 hour')",
		"renewals among many":            "Schema.renew_all('{many,many}', '{o500,o501}', '{1 hour,1 hour}')",
		"release among many":             "Schema.release('many', 'o500')",
		"releases among many":            "Schema.release_all('{many,many}', '{o500,o501}')",
		"renewal that shortens its life": "Schema.renew('many', 'o500', '1 second')",
		"attempts far from the head": `Schema.attempt_all('{queue,queue,queue}', '{w1000,w2000,w3000}', '{1 hour,1 hour,1 hour}', '{1073741824,1073741824,1073741824}', '{1073741824,1073741824,1073741824}',
			'{1 hour,1 hour,1 hour}', '{0,0,0}', '{"","",""}', '{"","",""}', '{"{}","{}","{}"}', '{null,null,null}', '{"","",""}', '{t,t,t}')`,
	} {
		eval, end := begin(t, srv.URL, opt)
		if _, err := eval("set local enable_seqscan = off"); err != nil && !strings.Contains(err.Error(), "no rows") {
			t.Fatal(err)
		}
		if _, err := eval("select count(*) > 0 from " + call); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if ok, err := eval("select sum(idx_tup_fetch + seq_tup_read) < 200 from pg_stat_xact_user_tables where schemaname = $1", opt.Schema); err != nil || !ok {
			t.Errorf("%s reads more than 200 rows: %v", name, err)
		}
		end()
	}
}

// The sum of the weights of many claims stays exact, whatever happens to them, and whether a call
// has the key or not.
func TestSQL_manyClaims(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	const key = "many"
	random := rand.New(rand.NewPCG(1, 2))
	claim := func() driver.Request {
		r := shared(key)
		r.Weight = 1 + random.Int64N(3)
		return r
	}
	var live []driver.Request
	take := func() driver.Request {
		i := random.IntN(len(live))
		r := live[i]
		live = append(live[:i], live[i+1:]...)
		return r
	}
	exact := func(after string) {
		t.Helper()
		want := int64(0)
		for _, r := range live {
			want += r.Weight
		}
		if got := refuse(t, s, exclusive(key)).Used; got != want {
			t.Fatalf("after %s %d are used, want %d by %d claims", after, got, want, len(live))
		}
	}
	steps := []struct {
		name string
		do   func()
	}{
		{"a grant", func() { live = append(live, claim()); grant(t, s, live[len(live)-1]) }},
		{"a release", func() { release(t, s, take()) }},
		{"a lowered weight", func() { r := take(); r.Weight = 1; grant(t, s, r); live = append(live, r) }},
		{"a short life", func() {
			r := take()
			r.TTL = time.Millisecond
			renew(t, s, r)
			time.Sleep(10 * time.Millisecond)
		}},
		{"an attempt with a short life", func() {
			r := take()
			r.TTL = time.Millisecond
			grant(t, s, r)
			time.Sleep(10 * time.Millisecond)
		}},
		{"many short lives", func() {
			a, b := take(), take()
			a.TTL, b.TTL = time.Millisecond, time.Millisecond
			s.RenewAll(t.Context(), renewals(a, b))
			time.Sleep(10 * time.Millisecond)
		}},
		{"a release without the key", func() {
			eval, end := begin(t, srv.URL, opt)
			if _, err := eval("select answer = '-' from Schema.acquire($1, 'o', '1 min')", key); err != nil {
				t.Fatal(err)
			}
			release(t, s, take())
			end()
		}},
	}
	for range 40 {
		steps[0].do()
	}
	for range 150 {
		step := steps[random.IntN(len(steps))]
		if len(live) < 25 {
			step = steps[0]
		}
		step.do()
		exact(step.name)
	}
	if _, err := s.Break(t.Context(), key, 0, "test"); err != nil {
		t.Fatal(err)
	}
	grant(t, s, exclusive(key))
}

// A claim on a key that many claims have left is counted.
func TestSQL_sumEnds(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	s := made(t, srv.URL, fresh(t))
	for range 2 {
		var all []driver.Request
		for range 20 {
			all = append(all, shared("key"))
			grant(t, s, all[len(all)-1])
		}
		for _, r := range all {
			release(t, s, r)
		}
		last := shared("key")
		grant(t, s, last)
		if res := refuse(t, s, exclusive("key")); res.Used != 1 {
			t.Errorf("%d are used, want 1", res.Used)
		}
		release(t, s, last)
	}
}

// A key that is free without a release goes to the head of its queue at any attempt.
func TestAcquire_promotesHead(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	a, head, next := exclusive("key"), queueing(exclusive("key")), queueing(exclusive("key"))
	grant(t, s, a)
	wake := s.Watch(t.Context(), head.ID)
	refuse(t, s, head)
	refuse(t, s, next)
	drain(wake)
	query(t, srv, "update "+quoted(opt)+".claim set ends = now()")
	if b := refuse(t, s, next).Blocker; b.Waiting || b.Owner != driver.Tag(head.Owner) {
		t.Errorf("the key was free, and the second in the queue attempts: %+v is in its way, want a claim of the head", b)
	}
	woken(t, wake, "by the attempt of another")
	release(t, s, head)
	grant(t, s, next)
}

// Ended entries are deleted behind a head that stays, too.
func TestAcquire_clearsQueue(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	grant(t, s, exclusive("key"))
	var last driver.Request
	for range 20 {
		last = queueing(exclusive("key"))
		refuse(t, s, last)
	}
	query(t, srv, strings.ReplaceAll(`insert into Schema.queue (key, owner, weight, "limit", holder, task, meta, channel, since, ends)
		select 'key', 'dead' || i, 1, 1, '', '', '{}', '', now(), now() from generate_series(1, 40) i`, "Schema", quoted(opt)))
	for range 3 {
		if got := refuse(t, s, last).Behind; got != 0 {
			t.Errorf("%d entries behind, want none that live", got)
		}
	}
	if rows := query(t, srv, "select count(*) from "+quoted(opt)+".queue"); rows[0][0] != "20" {
		t.Errorf("%s entries are left, want 20", rows[0][0])
	}
}

// Attempts far from the head of a queue that arrive together are answered together. Each keeps its
// entry, and the others are answered as if they came alone.
func TestSQL_farAttempts(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	works(t, made(t, srv.URL, opt))
	for _, sql := range []string{
		"insert into Schema.key values ('queue', 1)",
		`insert into Schema.claim (key, owner, weight, "limit", fence, granted, holder, task, meta, since, ends)
			values ('queue', 'o', 5, 5, 1, 1, '', '', '{}', now(), now() + interval '1 hour')`,
		`insert into Schema.queue (key, owner, weight, "limit", holder, task, meta, channel, since, ends, ttl)
			select 'queue', 'w' || i, 5, 5, '', '', '{}', '', now(), now() + interval '5 s', '1 min' from generate_series(1, 100) i`,
		"update Schema.queue set ends = now() where owner in ('w50', 'w70')",
		"update Schema.queue set task = 'other' where owner = 'w51'",
		// A grant whose answer was lost, and a late entry of the same owner.
		`insert into Schema.claim (key, owner, weight, "limit", fence, granted, holder, task, meta, since, ends)
			values ('queue', 'w52', 5, 5, 1, 1, '', '', '{}', now(), now() + interval '1 hour')`,
	} {
		query(t, srv, strings.ReplaceAll(sql, "Schema", quoted(opt)))
	}
	owners := []string{"w40", "w41", "w50", "w70", "w51", "w52", "w10", "w95", "new", "w42"}
	array := func(one string) string { return "array_fill(" + one + fmt.Sprintf(", array[%d])", len(owners)) }
	rows := query(t, srv, strings.ReplaceAll(`select a::json->>'answer', a::json->>'ahead', a::json->>'behind', (a::json->>'retry') is null, a::json->'blocker'->>'owner'
		from Schema.attempt_all(`+strings.Join([]string{
		array("'queue'::text"), "'{" + strings.Join(owners, ",") + "}'", array("'1 min'::interval"), array("5::bigint"), array("5::bigint"),
		array("'1 min'::interval"), array("0::bigint"), array("''::text"), array("''::text"), array("'{}'::jsonb"), array("null::bytea"), array("''::text"), array("true"),
	}, ", ")+`) a`, "Schema", quoted(opt)))
	want := map[string]string{
		"w50": "[- 17 0 t o]", "w70": "[- 17 0 t o]", // they had ended, and begin again at the end
		"w52": "[=  17 t ]", "w10": "[- 9 17 f o]", "w95": "[- 17 7 t o]", "new": "[- 17 0 t o]",
	}
	for i, owner := range owners {
		expected := cmp.Or(want[owner], "[- 17 17 t o]")
		if got := fmt.Sprint(rows[i]); got != expected {
			t.Errorf("%s: %s, want %s", owner, got, expected)
		}
	}
	kept := query(t, srv, "select string_agg(owner, ' ' order by number) from "+quoted(opt)+".queue where ends > now() + interval '50 s' and task = ''")
	if got := kept[0][0]; got != "w10 w40 w41 w42 w51 w95 w50 w70 new" {
		t.Errorf("the entries %s were kept", got)
	}
}

// Plans that were made while the tables were empty read few rows of a long queue too.
func TestSQL_flatPlans(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	works(t, made(t, srv.URL, opt))
	eval, end := begin(t, srv.URL, opt)
	defer end()
	const attempt = "select Schema.attempt('%s', '%s', '1 hour', 1073741824, 1073741824, '1 hour', 0, '', '', '{}', null, '', true) <> ''"
	for _, sql := range []string{
		"set local plan_cache_mode = force_generic_plan", "set local enable_seqscan = off", "set local enable_bitmapscan = off",
		"set local enable_hashjoin = off", "set local enable_mergejoin = off",
		fmt.Sprintf(attempt, "queue", "o"), fmt.Sprintf(attempt, "queue", "w2000"), "select Schema.release('queue', 'w2000')",
		`insert into Schema.queue (key, owner, weight, "limit", holder, task, meta, channel, since, ends, ttl)
			select 'queue', 'w' || i, 1073741824, 1073741824, '', '', '{}', '', now(), now() + interval '1 hour', '1 hour' from generate_series(1, 4000) i`,
		fmt.Sprintf(attempt, "queue", "w2000"), "select Schema.release('queue', 'w2000')", "select Schema.release('queue', 'o')",
	} {
		if ok, err := eval(sql); !ok && err == nil || err != nil && !strings.Contains(err.Error(), "no rows") {
			t.Fatalf("%s: %v, %v", sql, ok, err)
		}
	}
	if ok, err := eval("select sum(idx_tup_fetch + seq_tup_read) < 1000 from pg_stat_xact_user_tables where schemaname = $1", opt.Schema); err != nil || !ok {
		t.Errorf("three calls read more than 1,000 rows: %v", err)
	}
}
