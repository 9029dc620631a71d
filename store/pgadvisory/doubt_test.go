package pgadvisory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
)

const (
	takeShared = "pg_try_advisory_lock_shared"
	freeShared = "pg_advisory_unlock_shared"
)

// spoiled puts failing functions before those of the server, for clients that use the returned URL.
// Each one works as the server's, and fails in the call that fail names, before or after its
// effect; 0: in none. A lock on its gate delays it.
func spoiled(t *testing.T, url string) (through string, fail func(name string, call int, after bool)) {
	t.Helper()
	run := func(sql string) {
		t.Helper()
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	run("create schema spoiled")
	fail = func(name string, call int, after bool) {
		t.Helper()
		// No rollback undoes a sequence: it also counts failed calls.
		run(fmt.Sprintf(`create sequence spoiled.calls_of_%[1]s; create table spoiled.gate_of_%[1]s ();
			create function spoiled.%[1]s(number bigint) returns boolean language plpgsql as $$
			declare done boolean; fails boolean := nextval('spoiled.calls_of_%[1]s') = %[2]d;
			begin
				perform from spoiled.gate_of_%[1]s;
				if fails and not %[3]t then raise 'spoiled before'; end if;
				done := pg_catalog.%[1]s(number);
				if fails then raise 'spoiled after'; end if;
				return done;
			end $$`, name, call, after))
	}
	return url + "&search_path=spoiled,pg_catalog", fail
}

// moments are the moments of failure: before and after the effect of the statement.
var moments = map[string]bool{"before": false, "after": true}

// TestStore_join_fails lets a reader fail to join another on its connection, before or after its
// lock. The other one keeps its lock, failed readers can try again, and no lock is left behind.
func TestStore_join_fails(t *testing.T) {
	for name, after := range moments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg, url := server(t)
			through, fail := spoiled(t, url)
			fail(takeShared, 2, after)
			s, rival := opened(t, through+"&lock_conns=1&lock_waits=-1"), opened(t, url)
			first, second := shared("key", time.Minute), shared("key", time.Minute)
			take(t, s, first)
			if _, err := s.Acquire(t.Context(), second); !errors.Is(err, driver.ErrUnavailable) {
				t.Fatal("Acquire:", err)
			}
			stillHeld(t, s, rival, first.ID)
			take(t, s, second)
			stillHeld(t, s, rival, second.ID)
			free(t, s, first.ID)
			stillHeld(t, s, rival, second.ID)
			free(t, s, second.ID)
			soon(t, 5*time.Second, func() error { return unlocked(locks(t, pg, url)) })
			take(t, s, exclusive("key", time.Minute))
		})
	}
}

// TestStore_free_fails lets one of two readers on a connection fail to release its lock. The other
// one keeps its lock, and no lock is left behind.
func TestStore_free_fails(t *testing.T) {
	for name, after := range moments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg, url := server(t)
			through, fail := spoiled(t, url)
			fail(freeShared, 1, after)
			s, rival := opened(t, through+"&lock_conns=1&lock_waits=-1"), opened(t, url)
			first, second := shared("key", time.Minute), shared("key", time.Minute)
			take(t, s, first)
			take(t, s, second)
			free(t, s, first.ID)
			stillHeld(t, s, rival, second.ID)
			if err := s.Release(t.Context(), first.ID); !errors.Is(err, driver.ErrNotHeld) {
				t.Error("Release again:", err)
			}
			free(t, s, second.ID)
			soon(t, 5*time.Second, func() error { return unlocked(locks(t, pg, url)) })
			take(t, s, exclusive("key", time.Minute))
		})
	}
}

// TestStore_free_fails_alone lets the only reader on a connection fail to release its lock: the
// store tries again, and its owner does not notice.
func TestStore_free_fails_alone(t *testing.T) {
	for name, after := range moments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg, url := server(t)
			through, fail := spoiled(t, url)
			fail(freeShared, 1, after)
			s := opened(t, through)
			r := shared("key", time.Minute)
			take(t, s, r)
			free(t, s, r.ID)
			if err := unlocked(locks(t, pg, url)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStore_doubt_is_settled_alone lets a reader attempt a lock while an uncertain one is freed:
// the attempt waits, and sends nothing that the unlock could undo.
func TestStore_doubt_is_settled_alone(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	through, fail := spoiled(t, url)
	fail(takeShared, 1, false)
	fail(freeShared, 0, false)
	s := opened(t, through+"&lock_conns=1&lock_waits=-1")
	gate, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close(context.Background())
	if _, err := gate.Exec(t.Context(), "begin; lock spoiled.gate_of_"+freeShared); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := s.Acquire(context.Background(), shared("key", time.Minute))
		failed <- err
	}()
	soon(t, 5*time.Second, func() error {
		rows, err := pg.Query(t.Context(),
			"select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = '"+database(url)+"'")
		if err == nil && len(rows) != 1 {
			err = fmt.Errorf("%d wait at the gate", len(rows))
		}
		return err
	})
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Acquire(short, shared("key", time.Minute)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("Acquire meanwhile:", err)
	}
	if _, err := gate.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, driver.ErrUnavailable) {
		t.Error("Acquire:", err)
	}
	take(t, s, exclusive("key", time.Minute)) // it would find a reader
}

// stillHeld checks that a claim can be renewed and that a rival is refused.
func stillHeld(t *testing.T, s, rival driver.Store, id driver.ID) {
	t.Helper()
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: id, TTL: time.Minute}); err != nil {
		t.Error("Renew:", err)
	}
	refused(t, rival, exclusive(id.Key, time.Minute))
}

func unlocked(locks int) error {
	if locks > 0 {
		return fmt.Errorf("%d locks are left behind", locks)
	}
	return nil
}
