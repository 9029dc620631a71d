package mysql_test

import (
	"errors"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// A statement without a procedure grants nothing while another process has a claim or waits, also
// if this process knows nothing of it.
func TestStore_direct_refused(t *testing.T) {
	t.Parallel()
	url := testenv.MariaDB(t, testenv.Shared()).Database(t)
	other, db := made(t, url, nil), database(t, url)
	for name, occupy := range map[string]func(key string){
		"held":   func(key string) { grant(t, other, exclusive(key)) },
		"shared": func(key string) { grant(t, other, shared(key)) },
		"awaited": func(key string) {
			grant(t, other, shared(key))
			refuse(t, other, queueing(exclusive(key)))
			// The claim ends by its TTL, and its row is removed: only the waiter is left.
			if _, err := db.Exec("UPDATE distlock_claim SET ends = 1 WHERE lock_key = ? AND slot > ''", []byte(key)); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec("CALL distlock_sweep('', 1000)"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, seen := range []bool{false, true} {
			s := made(t, url, nil)
			key := name
			if seen {
				key += ", seen before"
				r := exclusive(key)
				grant(t, s, r)
				release(t, s, r)
			}
			occupy(key)
			if res, err := s.Acquire(t.Context(), exclusive(key)); err != nil || res.Granted {
				t.Errorf("%s: granted %v, %v", key, res.Granted, err)
			}
		}
	}
}

// A release grants the claim to a waiter of another process, also if the releasing process does not
// know of the waiter. The waiter is notified of the grant, and the claim ends with its queue entry.
func TestStore_direct_release(t *testing.T) {
	t.Parallel()
	url := testenv.MariaDB(t, testenv.Shared()).Database(t)
	s, other := made(t, url, nil), made(t, url, nil)
	for _, weight := range []int64{driver.Whole, 1} {
		a, w := exclusive("k"), queueing(exclusive("k"))
		w.Weight, w.QueueTTL = weight, 30*time.Second
		first := grant(t, s, a)
		wake := other.Watch(t.Context(), w.ID)
		refuse(t, other, w)
		release(t, s, a)
		granted(t, wake, first.Fence)
		all, err := other.Show(t.Context(), "k")
		if err != nil || len(all) != 1 || all[0].Waiting || all[0].Left > w.QueueTTL {
			t.Errorf("%+v, %v, want a claim that ends with the queue entry", all, err)
		}
		if res := grant(t, other, w); res.Fresh || res.Fence < first.Fence+driver.Span {
			t.Errorf("%+v", res)
		}
		release(t, other, w)
	}
}

// A holder whose claim another process broke learns of it, and its release ends nothing.
func TestStore_direct_broken(t *testing.T) {
	t.Parallel()
	url := testenv.MariaDB(t, testenv.Shared()).Database(t)
	s, other := made(t, url, nil), made(t, url, nil)
	a := exclusive("k")
	grant(t, s, a)
	if all, err := other.Break(t.Context(), "k", 0, "stuck"); err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if err := s.Release(t.Context(), a.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Release: %v, want ErrNotHeld", err)
	}
	next := exclusive("k")
	grant(t, other, next)
	var broken *driver.BrokenError
	for i, r := range s.RenewAll(t.Context(), []driver.Renewal{{ID: a.ID, TTL: time.Minute}, {ID: next.ID, TTL: time.Minute}}) {
		if i == 0 && (!errors.As(r.Err, &broken) || broken.Reason != "stuck") || i == 1 && r.Err != nil {
			t.Errorf("renewal %d: %v", i, r.Err)
		}
	}
}

// granted waits for a pushed grant with a fence above another.
func granted(t *testing.T, wake <-chan driver.Wake, above uint64) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case w := <-wake:
			if !w.Granted {
				continue
			}
			if w.Fence < above+driver.Span {
				t.Errorf("fence %d after %d", w.Fence, above)
			}
			return
		case <-limit:
			t.Fatal("no grant was pushed")
		}
	}
}
