package sqlite_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/sqlite"
)

// slot returns a request for one of n slots of a key.
func slot(key string, n int64, ttl time.Duration) driver.Request {
	r := exclusive(key, ttl)
	r.Weight, r.Limit, r.QueueTTL = 1, n, 0
	return r
}

// enqueue adds waiters to the queue of a key that is held.
func enqueue(t *testing.T, s *sqlite.Store, key string, n int, ttl time.Duration) (all []driver.Request) {
	t.Helper()
	for range n {
		w := exclusive(key, time.Minute)
		w.QueueTTL = ttl
		if res, err := s.Acquire(t.Context(), w); err != nil || res.Granted {
			t.Fatalf("%+v, %v", res, err)
		}
		all = append(all, w)
	}
	return all
}

// No statement on the claims and queue entries of a key reads all of them, except those that show
// or wake all. So a call takes as long with 10 waiters or holders as with 10,000.
func TestStore_plans(t *testing.T) {
	t.Parallel()
	s := opened(t, filepath.Join(t.TempDir(), "locks.db"), nil)
	plans, err := s.Plans()
	if err != nil {
		t.Fatal(err)
	}
	for name, search := range map[string]string{
		"find":     "entry_owner (key=? AND owner=?)",
		"oldest":   "PRIMARY KEY (key=? AND waiting=?)",
		"ahead":    "PRIMARY KEY (key=? AND waiting=? AND number<?)",
		"behind":   "(key=? AND waiting=? AND number>?)",
		"firstEnd": "entry_ends (key=? AND waiting=?)",
		"lastEnd":  "entry_ends (key=? AND waiting=?)",
		"remove":   "PRIMARY KEY (key=? AND waiting=? AND number=?)",
		"expire":   "entry_ends (key=? AND waiting=? AND ends<?)",
	} {
		plan := plans[name]
		if !strings.Contains(plan, search) || strings.Contains(plan, "SCAN entry") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s: %s", name, plan)
		}
	}
}

// In a long queue with gaps the position of an owner is exact up to 17, and never too high.
func TestStore_position(t *testing.T) {
	t.Parallel()
	s := opened(t, filepath.Join(t.TempDir(), "locks.db"), &sqlite.Options{Polling: true})
	holder := exclusive("k", time.Minute)
	grant(t, s, holder)
	all := enqueue(t, s, "k", 80, time.Minute)
	var ws []driver.Request
	for i, w := range all {
		if i%3 != 1 && i != 0 && i < 75 {
			ws = append(ws, w)
			continue
		}
		if err := s.Release(t.Context(), w.ID); err != nil {
			t.Fatal(err)
		}
	}
	fits := func(what string, i, got, want int) {
		t.Helper()
		if got > want || got < min(want, 17) {
			t.Errorf("waiter %d of %d: %d %s, want %d", i, len(ws), got, what, want)
		}
	}
	for i, w := range ws {
		res, err := s.Acquire(t.Context(), w)
		if err != nil || res.Granted {
			t.Fatalf("%+v, %v", res, err)
		}
		fits("ahead", i, res.Ahead, i)
		fits("behind", i, res.Behind, len(ws)-1-i)
		if known := res.Retry > 0; known != (i < 17) {
			t.Errorf("waiter %d: retry after %v", i, res.Retry)
		}
	}
	if behind, err := s.Renew(t.Context(), driver.Renewal{ID: holder.ID, TTL: time.Minute}); err != nil || behind != len(ws) {
		t.Errorf("%d behind the holder, want %d: %v", behind, len(ws), err)
	}
}

// A call that removes ended claims counts the others right, even if it reports that its own claim
// is not held.
func TestStore_expired_entries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	synctest.Test(t, func(t *testing.T) {
		s := on(t, path, sqlite.Machine{Boot: "b"})
		defer s.Close()
		first, second, other := slot("k", 3, time.Minute), slot("k", 3, time.Second), slot("k", 3, time.Second)
		for _, r := range []driver.Request{first, second, other} {
			grant(t, s, r)
		}
		time.Sleep(2 * time.Second)
		got := s.RenewAll(t.Context(), []driver.Renewal{{ID: second.ID, TTL: time.Minute}, {ID: first.ID, TTL: time.Minute}})
		if got[0].Err == nil || got[1].Err != nil {
			t.Errorf("%+v", got)
		}
		res, err := s.Acquire(t.Context(), slot("k", 3, time.Second))
		if err != nil || !res.Granted || res.Used != 2 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// A sweep removes the claims and queue entries of a key too.
func TestStore_swept_entries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	synctest.Test(t, func(t *testing.T) {
		s := on(t, path, sqlite.Machine{Boot: "b"})
		defer s.Close()
		for range 3 {
			grant(t, s, slot("k", 3, time.Second))
		}
		enqueue(t, s, "k", 3, time.Second)
		time.Sleep(time.Hour)
		grant(t, s, exclusive("other", time.Second))
		if n := s.Rows(); n != 1 {
			t.Errorf("%d rows are in the file, want only the other key", n)
		}
	})
}

// A reboot frees all claims and queue entries. In a file for remote holders, it keeps them all, in
// order.
func TestStore_reboot_entries(t *testing.T) {
	for _, remote := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "locks.db")
		synctest.Test(t, func(t *testing.T) {
			s := boots(t, path, "one", time.Hour, sqlite.Options{Remote: remote})
			for range 3 {
				grant(t, s, slot("k", 3, time.Minute))
			}
			enqueue(t, s, "k", 20, time.Minute)
			before, err := s.Show(t.Context(), "k")
			if err != nil || len(before) != 23 {
				t.Fatalf("%+v, %v", before, err)
			}
			s.Close()
			s = boots(t, path, "two", 0, sqlite.Options{})
			defer s.Close()
			if !remote {
				if n := s.Rows(); n != 1 {
					t.Errorf("after the reboot %d rows are in the file, want only the key", n)
				}
				return
			}
			after, err := s.Show(t.Context(), "k")
			if err != nil || len(after) != len(before) {
				t.Fatalf("%+v, %v", after, err)
			}
			for i, c := range after {
				if c.Owner != before[i].Owner || c.Fence != before[i].Fence || c.Waiting != before[i].Waiting {
					t.Errorf("%d is %+v, was %+v", i, c, before[i])
				}
			}
			res, err := s.Acquire(t.Context(), slot("k", 3, time.Minute))
			if err != nil || res.Granted || res.Used != 3 || res.Ahead != 20 {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

// The reason of a broken claim stays for an hour at most, and that of a record not at all: a key
// must not stay for as long as they would have lived.
func TestStore_Break_forgets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	s := opened(t, path, nil)
	long, record := exclusive("long", 1000*time.Hour), exclusive("record", time.Minute)
	for _, r := range []driver.Request{long, record} {
		if res, err := s.Acquire(t.Context(), r); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
	}
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: record.ID, TTL: 1000 * time.Hour, Keep: true}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []driver.Request{long, record} {
		if broken, err := s.Break(t.Context(), r.Key, 0, "test"); err != nil || len(broken) != 1 {
			t.Fatal(broken, err)
		}
	}
	var broken *driver.BrokenError
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: long.ID, TTL: time.Hour}); !errors.As(err, &broken) || broken.Reason != "test" {
		t.Errorf("a renewal of the broken claim: %v, want the reason", err)
	}
	if n := s.Ends(s.Now() + time.Hour); n != 0 {
		t.Errorf("%d keys have something that ends in more than an hour", n)
	}
}
