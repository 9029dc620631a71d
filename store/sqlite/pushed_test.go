package sqlite_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/sqlite"
)

// queued queues an owner behind a holder, and returns its watch.
func queued(t *testing.T, s *sqlite.Store, owner string, weight, limit int64) <-chan driver.Wake {
	t.Helper()
	r := driver.Request{
		ID: driver.ID{Key: "key", Owner: owner}, Weight: weight, Limit: limit, TTL: time.Hour, QueueTTL: time.Minute,
	}
	wake := s.Watch(t.Context(), r.ID)
	if res, err := s.Acquire(t.Context(), r); err != nil || res.Granted {
		t.Fatalf("%s is not queued: %+v, %v", owner, res, err)
	}
	return wake
}

func hold(t *testing.T, s *sqlite.Store, owner string) driver.Result {
	t.Helper()
	res, err := s.Acquire(t.Context(), driver.Request{
		ID: driver.ID{Key: "key", Owner: owner}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Hour,
	})
	if err != nil || !res.Granted {
		t.Fatalf("%s: %+v, %v", owner, res, err)
	}
	return res
}

// A release, and a break, grant the head of the queue its claim if this process watches for it, and
// the message has the grant. The claim lives for the rest of the queue entry.
func TestStore_pushed(t *testing.T) {
	for name, end := range map[string]func(*sqlite.Store) error{
		"release": func(s *sqlite.Store) error { return s.Release(t.Context(), driver.ID{Key: "key", Owner: "holder"}) },
		"break": func(s *sqlite.Store) error {
			_, err := s.Break(t.Context(), "key", 0, "test")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, filepath.Join(t.TempDir(), "locks.db"), nil)
			was := hold(t, s, "holder")
			first, second := queued(t, s, "first", 1, 3), queued(t, s, "second", 2, 3)
			third := queued(t, s, "third", 1, 3)
			if err := end(s); err != nil {
				t.Fatal(err)
			}
			a, b := <-first, <-second
			if !a.Granted || !b.Granted || a.Fence < was.Fence+driver.Span || b.Fence <= a.Fence || b.Behind != 1 {
				t.Errorf("after fence %d: %+v, %+v", was.Fence, a, b)
			}
			select {
			case w := <-third:
				t.Errorf("a waiter without capacity got %+v", w)
			default:
			}
			claims, err := s.Show(t.Context(), "key")
			if err != nil || len(claims) != 3 || claims[0].Waiting || claims[1].Waiting || !claims[2].Waiting {
				t.Fatalf("%+v, %v", claims, err)
			}
			for i, fence := range []uint64{a.Fence, b.Fence} {
				if c := claims[i]; c.Fence != fence || c.Left > time.Minute || c.Held > time.Second {
					t.Errorf("claim %d: %+v, want fence %d", i, c, fence)
				}
			}
			res, err := s.Acquire(t.Context(), driver.Request{
				ID: driver.ID{Key: "key", Owner: "first"}, Weight: 1, Limit: 3, TTL: time.Hour,
			})
			if err != nil || !res.Granted || res.Fresh || res.Fence != a.Fence {
				t.Errorf("the attempt of its owner: %+v, %v", res, err)
			}
		})
	}
}

// A waiter of another process is woken, and so is one that is watched for with another key only.
func TestStore_pushed_others(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	here, there := opened(t, path, nil), opened(t, path, nil)
	hold(t, here, "holder")
	wake := queued(t, there, "waiter", driver.Whole, driver.Whole)
	other := here.Watch(t.Context(), driver.ID{Key: "other key", Owner: "waiter"})
	if err := here.Release(t.Context(), driver.ID{Key: "key", Owner: "holder"}); err != nil {
		t.Fatal(err)
	}
	claims, err := here.Show(t.Context(), "key")
	if err != nil || len(claims) != 1 || !claims[0].Waiting {
		t.Fatalf("%+v, %v", claims, err)
	}
	if w := <-wake; w != (driver.Wake{}) {
		t.Errorf("a waiter of another process got %+v", w)
	}
	select {
	case w := <-other:
		if w.Granted {
			t.Errorf("a watch of another key got %+v", w)
		}
	default:
	}
	if err := here.Release(t.Context(), driver.ID{Key: "key", Owner: "holder"}); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("the second release: %v", err)
	}
}
