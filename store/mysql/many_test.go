package mysql_test

import (
	"context"
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
		{"attempts together", "CALL distlock_attempt_all('k', 60000000, JSON_ARRAY(JSON_ARRAY(0, SHA2('w1500', 256)," +
			" 60000000, 1073741824, 1073741824, '', '', '', ''), JSON_ARRAY(1, SHA2('w2000', 256), 60000000, 1073741824, 1073741824, '', '', '', '')," +
			" JSON_ARRAY(2, SHA2('another', 256), 60000000, 1073741824, 1073741824, '', '', '', '')))"},
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

// Many attempts on a key that wait for their turn are made in one statement, if their entries are
// far from the head of the queue. Their entries and answers are those of attempts that are made
// alone.
func TestAcquire_together(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	holder := exclusive("k")
	holder.Holder, holder.Value = "holder", []byte("value")
	fence := grant(t, s, holder).Fence
	all := make([]driver.Request, 70)
	for i := range all {
		all[i] = queueing(exclusive("k"))
		refuse(t, s, all[i])
	}
	for i := range all { // what a later attempt says counts
		all[i].Holder, all[i].Task, all[i].QueueTTL = fmt.Sprint("h", i), "task", 2*time.Minute
		all[i].Meta, all[i].Value = map[string]string{"n": fmt.Sprint(i)}, []byte{byte(i)}
	}
	const ended = 40
	if _, err := db.Exec("UPDATE distlock_queue SET ends = 1 WHERE number = (SELECT MIN(number) + ? FROM distlock_queue)", ended); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE distlock_claim SET earliest = 1"); err != nil {
		t.Fatal(err)
	}
	for i, res := range attemptAll(t, s, db, all) {
		c := res.Blocker
		if res.Granted || c.Fence != fence || c.Holder != "holder" || string(c.Value) != "value" || res.Used != driver.Whole {
			t.Errorf("attempt %d: %+v", i, res)
		}
		ahead := i
		if i == ended {
			ahead = len(all) - 1 // it has a new entry
		} else if i > ended {
			ahead--
		}
		if behind := len(all) - 1 - ahead; res.Ahead != min(ahead, 17) || ahead > 16 && res.Behind > min(behind, 17) ||
			res.Behind < min(behind, 17)-1 || (res.Retry > 0) != (ahead < 17) {
			t.Errorf("attempt %d: ahead %d, behind %d, retry %v; want %d, %d", i, res.Ahead, res.Behind, res.Retry, ahead, behind)
		}
	}
	shown, err := s.Show(t.Context(), "k")
	if err != nil || len(shown) != len(all)+1 {
		t.Fatal(len(shown), err)
	}
	for at, c := range shown[1:] {
		i := at
		if at == len(all)-1 {
			i = ended
		} else if at >= ended {
			i++
		}
		if r := all[i]; c.Owner != driver.Tag(r.Owner) || c.Holder != r.Holder || c.Task != r.Task || c.Meta["n"] != fmt.Sprint(i) ||
			string(c.Value) != string(r.Value) || c.Left < r.QueueTTL-30*time.Second {
			t.Errorf("entry %d: %+v, want that of attempt %d", at, c, i)
		}
	}
	// Attempts that do not queue are answered, and add nothing.
	looks := make([]driver.Request, 40)
	for i := range looks {
		looks[i] = exclusive("k")
	}
	for i, res := range attemptAll(t, s, db, looks) {
		if res.Granted || res.Ahead != 17 || res.Behind != 0 || res.Retry != 0 || res.Blocker.Fence != fence {
			t.Errorf("attempt %d without a queue: %+v", i, res)
		}
	}
	// New owners join at the end. Each has an answer as if it had come after those before it.
	joins := make([]driver.Request, 40)
	for i := range joins {
		joins[i] = queueing(exclusive("k"))
	}
	for i, res := range attemptAll(t, s, db, joins) {
		if res.Granted || res.Ahead != 17 || res.Behind != 0 || res.Retry != 0 {
			t.Errorf("attempt %d of a new owner: %+v", i, res)
		}
	}
	const right = "SELECT CONCAT_WS(' ', COUNT(*), COUNT(DISTINCT q.number), MAX(c.entries), MAX(c.tail) = MAX(q.number), MIN(c.earliest <= q.ends))" +
		" FROM distlock_queue q, distlock_claim c"
	if got, want := value(t, db, right), fmt.Sprint(len(all)+len(joins), len(all)+len(joins), len(all)+len(joins), 1, 1); got != want {
		t.Errorf("entries, numbers, the count of entries, the tail, the first end: %s, want %s", got, want)
	}
	// Entries of one statement end at the same moment.
	if n := value(t, db, "SELECT MAX(n) FROM (SELECT COUNT(*) n FROM distlock_queue GROUP BY ends) e"); len(n) < 2 {
		t.Errorf("%s attempts were made together, want at least 10", n)
	}
}

// In a short queue the answers have a time to attempt again, and new owners have their positions.
// The holder gets its claim again.
func TestAcquire_togetherNear(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	holder := exclusive("k")
	fence := grant(t, s, holder).Fence
	all := []driver.Request{holder}
	for i := range 12 {
		r := exclusive("k")
		if i%2 == 0 {
			r = queueing(r)
			refuse(t, s, r)
		}
		all = append(all, r)
	}
	for i, res := range attemptAll(t, s, db, all) {
		want := i / 2
		if i%2 == 0 {
			want = 6
		}
		switch {
		case i == 0 && (!res.Granted || res.Fresh || res.Fence != fence):
			t.Errorf("%+v, want the claim again", res)
		case i > 0 && (res.Granted || res.Ahead != want || res.Retry <= 0 || res.Retry > time.Minute):
			t.Errorf("attempt %d: %+v, want %d ahead, and a time to attempt again", i, res, want)
		}
	}
	if n := value(t, db, "SELECT COUNT(*) FROM distlock_queue"); n != "6" {
		t.Errorf("%s entries, want 6", n)
	}
}

// A release comes after an attempt that its caller has left, if the attempt is made together with
// others: it would add a queue entry.
func TestRelease_afterTogether(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	grant(t, s, exclusive("k"))
	r := queueing(exclusive("k"))
	made := s.Sending(r)
	released := make(chan error, 1)
	go func() { released <- s.Release(context.Background(), r.ID) }()
	select {
	case err := <-released:
		t.Fatalf("the release did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	refuse(t, s, r)
	made()
	if err := <-released; err != nil {
		t.Errorf("%v, want that it removed the entry", err)
	}
}

// attemptAll makes attempts that wait for their turn, and returns their results.
func attemptAll(t *testing.T, s driver.Store, db *sql.DB, all []driver.Request) []driver.Result {
	t.Helper()
	unlock := lockRow(t, db, "k")
	defer unlock()
	results := make([]driver.Result, len(all))
	var wg sync.WaitGroup
	for range 2 { // those that have their turn
		wg.Go(func() { _, _ = s.Acquire(t.Context(), exclusive("k")) })
	}
	waiting(t, db, 2)
	for i, r := range all {
		wg.Go(func() {
			var err error
			if results[i], err = s.Acquire(t.Context(), r); err != nil {
				t.Errorf("attempt %d: %v", i, err)
			}
		})
	}
	time.Sleep(100 * time.Millisecond) // until all wait for their turn
	unlock()
	wg.Wait()
	return results
}

// Attempts that wait for their turn while nobody has the key any more let the head of its queue in.
func TestAcquire_togetherPromotes(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	first := grant(t, s, exclusive("k")).Fence
	all := make([]driver.Request, 40)
	for i := range all {
		all[i] = queueing(exclusive("k"))
		refuse(t, s, all[i])
	}
	if _, err := db.Exec("UPDATE distlock_claim SET ends = 1"); err != nil {
		t.Fatal(err)
	}
	wake := s.Watch(t.Context(), all[0].ID)
	for i, res := range attemptAll(t, s, db, all[20:]) {
		if c := res.Blocker; res.Granted || c.Waiting || c.Owner != driver.Tag(all[0].Owner) {
			t.Errorf("attempt %d: %+v, want the claim of the head as the blocker", i, res)
		}
	}
	granted(t, wake, first)
}

// A caller that leaves while its attempt waits for its turn keeps nobody from theirs.
func TestAcquire_leavesBeforeItPasses(t *testing.T) {
	t.Parallel()
	s, db := fresh(t)
	grant(t, s, exclusive("k"))
	unlock := lockRow(t, db, "k")
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 30 {
		of := t.Context()
		if i%2 == 0 {
			of = ctx
		}
		wg.Go(func() {
			if res, err := s.Acquire(of, queueing(exclusive("k"))); res.Granted || of != ctx && err != nil || of == ctx && err == nil {
				t.Errorf("granted %v, %v", res.Granted, err)
			}
		})
	}
	<-ctx.Done()
	time.Sleep(50 * time.Millisecond)
	unlock()
	wg.Wait()
	if n := value(t, db, "SELECT COUNT(*) FROM distlock_queue"); n < "15" || n > "17" {
		t.Errorf("%s entries, want those of 15 callers, and of 2 at most that left during their call", n)
	}
}
