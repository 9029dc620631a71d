package mysql_test

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// A grant that lets in waiters reports the state before them, as a store does that leaves the
// waiters to their next attempts.
func TestAcquire_countsBeforeWaiters(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	claim := func(weight int64) driver.Request {
		r := queueing(shared("k"))
		r.Weight, r.Limit = weight, 3
		return r
	}
	same := func(what string, res driver.Result, used int64, behind int) {
		t.Helper()
		if res.Used != used || res.Behind != behind {
			t.Errorf("%s: used %d, behind %d; want %d, %d", what, res.Used, res.Behind, used, behind)
		}
	}
	a, b, c := claim(3), claim(1), claim(2)
	grant(t, s, a)
	refuse(t, s, b)
	refuse(t, s, c)
	a.Weight = 2
	same("a lower weight", grant(t, s, a), 2, 2)
	if all, err := s.Show(t.Context(), "k"); err != nil || len(all) != 3 || all[1].Waiting || !all[2].Waiting {
		t.Errorf("%+v, %v, want two claims and a waiter", all, err)
	}
	d := claim(1)
	refuse(t, s, d)
	// Both claims end by their TTL, so no release grants anything.
	if _, err := db.Exec("UPDATE distlock_claim SET ends = 1 WHERE slot > ''"); err != nil {
		t.Fatal(err)
	}
	same("the head of the queue", grant(t, s, c), 2, 1)
	if res := grant(t, s, d); res.Fresh || res.Used != 3 {
		t.Errorf("%+v, want the claim that the grant before let in", res)
	}
}

// The number of rows that a call reads does not depend on the number of queue entries of its key.
func TestProcedures_flat(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	works(t, s)
	s.Swept() // a sweep between two of the statements below would correct the count of entries
	hash := func(owner string) string { return "UNHEX(SHA2('" + owner + "', 256))" }
	attempt := func(owner string) string {
		return "CALL distlock_acquire('k', " + hash(owner) + ", 60000000, 1073741824, 1073741824, 60000000, 0, '', '', NULL, NULL)"
	}
	const entries = 3000
	for _, c := range []struct{ name, call string }{
		{"attempt of the head", attempt("w1")},
		{"attempt in the middle", attempt("w1500")},
		{"attempt of the last", attempt(fmt.Sprint("w", entries))},
		{"attempt of another", attempt("new")},
		{"attempt of the holder", attempt("o")},
		{"renewal", "CALL distlock_renew('k', " + hash("o") + ", 60000000, 0, NULL, 0)"},
		{"renewals", "CALL distlock_renew_all(JSON_ARRAY(JSON_ARRAY(0, HEX('k'), SHA2('o', 256), 60000000)))"},
		{"release that grants", "CALL distlock_release('k', " + hash("o") + ")"},
		{"entry that leaves", "CALL distlock_release('k', " + hash("w1500") + ")"},
		{"break that grants", "CALL distlock_break('k', 0, 'test')"},
	} {
		for _, text := range []string{
			"DELETE FROM distlock_claim", "DELETE FROM distlock_queue",
			`INSERT INTO distlock_claim (lock_key, slot, last, entries, earliest, tail, owner, weight, ` + "`limit`" + `, fence, granted, since, ends)
				SELECT 'k', '', 1, 3000, 1 << 52, 3000, ` + hash("o") + `, 1073741824, 1073741824, 1, 1, 1, 1 << 52`,
			`INSERT INTO distlock_queue SELECT 'k', seq, UNHEX(SHA2(CONCAT('w', seq), 256)), 1073741824, 1073741824, 1, 1 << 52, 1 << 52,
				'', '', NULL, NULL FROM seq_1_to_3000`,
		} {
			if _, err := db.Exec(text); err != nil {
				t.Fatal(err)
			}
		}
		if n := rowsRead(t, db, c.call); n > 200 {
			t.Errorf("%s reads %d rows of %d", c.name, n, entries)
		}
	}
}

// rowsRead returns the number of rows that a statement reads.
func rowsRead(t *testing.T, db *sql.DB, text string) (n int) {
	t.Helper()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecContext(t.Context(), "FLUSH STATUS"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%.80s: %v", text, err)
	}
	row := c.QueryRowContext(t.Context(), "SELECT SUM(VARIABLE_VALUE) FROM information_schema.SESSION_STATUS"+
		" WHERE VARIABLE_NAME IN ('HANDLER_READ_FIRST', 'HANDLER_READ_KEY', 'HANDLER_READ_LAST', 'HANDLER_READ_NEXT',"+
		" 'HANDLER_READ_PREV', 'HANDLER_READ_RND', 'HANDLER_READ_RND_NEXT')")
	if err := row.Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Many owners of one process that watch a key all get their grants, exclusive and shared ones.
func TestWatch_many(t *testing.T) {
	t.Parallel()
	url := testenv.MariaDB(t, testenv.Shared()).Database(t)
	s, other := made(t, url, nil), made(t, url, nil)
	for _, weight := range []int64{driver.Whole, 1} {
		holder := exclusive("k")
		last := grant(t, s, holder).Fence
		type waiter struct {
			driver.Request
			wake <-chan driver.Wake
		}
		var all []waiter
		for range 30 {
			r := queueing(exclusive("k"))
			r.Weight = weight
			all = append(all, waiter{r, other.Watch(t.Context(), r.ID)})
			refuse(t, other, r)
		}
		release(t, s, holder)
		for _, w := range all {
			granted(t, w.wake, last-driver.Span) // shared claims need no gap between their fences
			release(t, other, w.Request)
		}
	}
}

// A key that is free without a release goes to the head of its queue at any attempt: the head may
// attempt so late that its entry expires before.
func TestAcquire_promotesHead(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	a, head, next := exclusive("k"), queueing(exclusive("k")), queueing(exclusive("k"))
	first := grant(t, s, a)
	wake := s.Watch(t.Context(), head.ID)
	refuse(t, s, head)
	refuse(t, s, next)
	if _, err := db.Exec("UPDATE distlock_claim SET ends = 1"); err != nil {
		t.Fatal(err)
	}
	res := refuse(t, s, next)
	if c := res.Blocker; c.Waiting || c.Owner != driver.Tag(head.Owner) || res.Used != driver.Whole || res.Ahead != 0 {
		t.Errorf("%+v, want the claim of the head as the blocker", res)
	}
	granted(t, wake, first.Fence)
	release(t, s, head)
	grant(t, s, next)
}

// An attempt grants the claims of the waiters before its owner, and then its own if that fits too.
// Waiters behind it follow.
func TestAcquire_promotesAhead(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	one := func() driver.Request {
		r := queueing(shared("k"))
		r.Limit = 3
		return r
	}
	holder, head, next, last := exclusive("k"), one(), one(), one()
	grant(t, s, holder)
	for _, r := range []driver.Request{head, next, last} {
		refuse(t, s, r)
	}
	if _, err := db.Exec("UPDATE distlock_claim SET ends = 1"); err != nil {
		t.Fatal(err)
	}
	if res := grant(t, s, next); !res.Fresh || res.Used != 2 || res.Behind != 1 {
		t.Errorf("%+v, want the second of two claims, with one waiter behind it", res)
	}
	if all, err := s.Show(t.Context(), "k"); err != nil || len(all) != 3 || all[0].Owner != driver.Tag(head.Owner) ||
		all[1].Owner != driver.Tag(next.Owner) || all[2].Waiting {
		t.Errorf("%+v, %v, want three claims in the order of the queue", all, err)
	}
}

// Dead entries behind a head that stays are removed, and do not count.
func TestAcquire_clearsQueue(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	grant(t, s, exclusive("k"))
	var last driver.Request
	for range 20 {
		refuse(t, s, queueing(exclusive("k")))
		last = queueing(exclusive("k"))
		last.QueueTTL = time.Hour
		refuse(t, s, last)
	}
	// The clock passes the ends of half of them.
	if _, err := db.Exec("UPDATE distlock_queue SET ends = 1 WHERE ttl < 3600000000"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE distlock_claim SET earliest = 1"); err != nil {
		t.Fatal(err)
	}
	if res := refuse(t, s, last); res.Behind != 0 || res.Ahead != 17 || res.Retry != 0 {
		t.Errorf("ahead %d, behind %d, retry %v; want 17 that are counted, none, and 0", res.Ahead, res.Behind, res.Retry)
	}
	if n := value(t, db, "SELECT COUNT(*) FROM distlock_queue"); n != "20" {
		t.Errorf("%s entries are left, want 20", n)
	}
}

// One statement renews 1,000 claims, and finds each by its whole primary key, also if all are on
// one key.
func TestProcedures_renewMany(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	works(t, s)
	for _, text := range []string{
		"INSERT INTO distlock_claim (lock_key, slot, last, others) VALUES ('k', '', 1, 1000)",
		`INSERT INTO distlock_claim (lock_key, slot, owner, weight, ` + "`limit`" + `, fence, granted, since, ends)
			SELECT 'k', UNHEX(SHA2(seq, 256)), UNHEX(SHA2(seq, 256)), 1, 1073741824, 1, 1, 1, 1 << 52 FROM seq_1_to_1000`,
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprintf(`[%d,"6b","%x",60000000]`, i, sha256.Sum256([]byte(fmt.Sprint(i+1)))))
	}
	if n := rowsRead(t, db, "CALL distlock_renew_all('["+strings.Join(all, ",")+"]')"); n > 15_000 {
		t.Errorf("it reads %d rows", n)
	}
	if n := value(t, db, "SELECT COUNT(*) FROM distlock_claim WHERE slot > '' AND ends < 1 << 52"); n != "1000" {
		t.Errorf("%s claims were renewed, want 1000", n)
	}
}

// Attempts on one key leave connections for other keys.
func TestAcquire_hotKey(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	held := exclusive("k")
	grant(t, s, held)
	unlock := lockRow(t, db, "k")
	defer unlock()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { _, _ = s.Acquire(t.Context(), exclusive("k")) })
	}
	waiting(t, db, 2)
	for range 50 { // the others would follow
		if n := value(t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE()"+
			" AND ID <> CONNECTION_ID() AND INFO REGEXP 'SET since|distlock_acquire'"); n > "2" {
			t.Errorf("%s attempts on a key at a time, want 2", n)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	unlock()
	wg.Wait()
	release(t, s, held)
}
