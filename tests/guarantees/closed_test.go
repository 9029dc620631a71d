package guarantees_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
)

// The server closes the connections of a holder, as in a restart, a failover or after a time
// without use. The holder's Unlock still succeeds, and the next lock does not have to wait for the
// TTL.
func TestConnectionClosed(t *testing.T) {
	t.Parallel()
	onEach(t, []string{"redis", "redlock", "postgres", "mariadb"}, func(t *testing.T, s *site) {
		holder, next := locker(t, s.store(t)), locker(t, s.store(t))
		for _, pause := range []time.Duration{0, 5 * time.Millisecond, 100 * time.Millisecond,
			time.Second} {
			name := fmt.Sprint("after ", pause)
			lease := persist(t, holder, name)
			s.closeAll(t)
			time.Sleep(pause)
			if err := lease.Unlock(t.Context()); err != nil {
				t.Errorf("%s: Unlock: %v", name, err)
			}
			after := persist(t, next, name) // in less than the TTL
			if err := after.Unlock(t.Context()); err != nil {
				t.Errorf("%s: Unlock of the next holder: %v", name, err)
			}
		}
	})
}

// The server dies while a function runs under its lock, and does not come back. Do does not report
// that the function did not run.
func TestDo_serverDies(t *testing.T) {
	t.Parallel()
	onEach(t, []string{"redis", "redlock", "postgres", "mariadb", "advisory", "remote"}, func(t *testing.T, s *site) {
		l, ran := locker(t, s.store(t)), false
		err := l.Do(t.Context(), "key", func(context.Context) error {
			ran = true
			for _, srv := range s.servers() {
				srv.Kill()
			}
			return nil
		})
		if !ran || errors.Is(err, distlock.ErrNotAcquired) ||
			err != nil && !errors.Is(err, distlock.ErrLost) {
			t.Errorf("ran %v, error %v", ran, err)
		}
	})
}

// closeAll makes the servers close the connections of all clients.
func (s *site) closeAll(t *testing.T) {
	t.Helper()
	for _, r := range s.redis {
		do(t, r, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
	for _, p := range s.pg {
		query(t, p, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'")
	}
}

// The server hangs: it keeps its connections and answers no request. Calls still return soon after
// the end of their context.
func TestBound_serverHangs(t *testing.T) {
	t.Parallel()
	onEach(t, []string{"redis", "redlock", "postgres", "mariadb", "advisory", "remote"}, func(t *testing.T, s *site) {
		l := locker(t, s.store(t))
		persist(t, l, "warm")
		for _, srv := range s.servers() {
			srv.Pause()
		}
		const bound = 90 * time.Millisecond
		var late []time.Duration
		watch := testenv.NewStopwatch(t)
		for i := range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			began := watch.Elapsed()
			var err error
			switch name := fmt.Sprint("key", i); i % 3 {
			case 0:
				_, err = l.TryLock(ctx, name)
			case 1:
				_, err = l.Lock(ctx, name)
			default:
				_, err = l.Lock(t.Context(), name, distlock.MaxWait(bound))
			}
			late = append(late, watch.Elapsed()-began-bound)
			cancel()
			if !errors.Is(err, distlock.ErrNotAcquired) || errors.Is(err, distlock.ErrHeld) {
				t.Error(err)
			}
		}
		slices.Sort(late)
		if most := late[len(late)-1]; most > 500*time.Millisecond {
			t.Errorf("a call returned %v after the end of its context", most)
		}
		t.Logf("after the end of ctx: p50 %v, p98 %v, max %v", late[len(late)/2], late[len(late)-2],
			late[len(late)-1])
		for _, srv := range s.servers() {
			srv.Resume()
		}
	})
}

// Unlock near the end of MinHold succeeds on a healthy majority, and the name is free when MinHold
// has passed.
func TestMinHold_end(t *testing.T) {
	t.Parallel()
	onEach(t, []string{"redlock"}, func(t *testing.T, s *site) {
		l := locker(t, s.store(t), distlock.TTL(2*longest/5))
		other := locker(t, s.store(t), distlock.TTL(2*longest/5))
		const minHold = 100 * time.Millisecond
		tried := 0
		for i := 0; tried < 20; i++ {
			name := fmt.Sprint("key", i)
			lease := persist(t, l, name, distlock.MinHold(minHold))
			time.Sleep(minHold - 3*time.Millisecond)
			enough := lease.Remaining() > longest/5 // after a scheduler stall Unlock has no time to repeat a call
			if err := lease.Unlock(t.Context()); err != nil && enough {
				t.Errorf("Unlock: %v", err)
			}
			if enough {
				tried++
			}
			if err := persist(t, other, name).Unlock(t.Context()); err != nil {
				t.Errorf("Unlock of the next holder: %v", err)
			}
		}
	})
}
