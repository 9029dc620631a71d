package sqlite_test

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/sqlite"
)

// boots returns the file on a machine that has been up for some time, in virtual time.
func boots(t *testing.T, path, boot string, up time.Duration, opt sqlite.Options) *sqlite.Store {
	t.Helper()
	began := time.Now()
	opt.Polling = true
	s, err := sqlite.OpenOn(path, &opt, sqlite.Machine{
		Boot: boot, Elapsed: func() time.Duration { return up + time.Since(began) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// left returns how long the claims on a key live, and fails unless there are so many.
func left(t *testing.T, s *sqlite.Store, key string, n int) (all []time.Duration) {
	t.Helper()
	claims, err := s.Show(t.Context(), key)
	if err != nil || len(claims) != n {
		t.Fatalf("%s: %+v, %v, want %d claims and entries", key, claims, err, n)
	}
	for _, c := range claims {
		if c.Held < 0 {
			t.Errorf("%s: held for %v", key, c.Held)
		}
		all = append(all, c.Left)
	}
	return all
}

// In a file for remote holders, claims and queue entries of an earlier boot get their whole TTL
// again, records keep the rest of their life, and an ended claim stays ended. Programs without the
// option obey.
func TestStore_remote_reboot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := boots(t, path, "one", 1000*time.Hour, sqlite.Options{Remote: true})
		held, ended, kept := exclusive("held", time.Minute), exclusive("ended", time.Second), exclusive("kept", time.Minute)
		first := grant(t, s, held)
		grant(t, s, ended)
		grant(t, s, kept)
		if _, err := s.Renew(ctx, driver.Renewal{ID: kept.ID, TTL: 3 * time.Hour, Keep: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		if _, err := s.Renew(ctx, driver.Renewal{ID: held.ID, TTL: 2 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		waiter := exclusive("held", time.Minute)
		waiter.QueueTTL = 5 * time.Second
		if res, err := s.Acquire(ctx, waiter); err != nil || res.Granted {
			t.Fatalf("%+v, %v", res, err)
		}
		s.Close()
		time.Sleep(time.Hour) // longer than every TTL: the host was down

		s = boots(t, path, "two", 10*time.Second, sqlite.Options{})
		if all := left(t, s, "held", 2); all[0] != 2*time.Minute || all[1] != 5*time.Second {
			t.Errorf("after the reboot %v are left, want the whole TTLs", all)
		}
		left(t, s, "ended", 0)
		if rest := left(t, s, "kept", 1)[0]; rest < 119*time.Minute || rest > 120*time.Minute {
			t.Errorf("the record has %v left, want two hours", rest)
		}
		finds(t, s, "ok: every result is on disk")
		rival := exclusive("held", time.Minute)
		rival.QueueTTL = 0
		if res, err := s.Acquire(ctx, rival); err != nil || res.Granted || res.Ahead != 1 {
			t.Errorf("a rival: %+v, %v", res, err)
		}
		if behind, err := s.Renew(ctx, driver.Renewal{ID: held.ID, TTL: 2 * time.Minute}); err != nil || behind != 1 {
			t.Errorf("the holder: %d, %v", behind, err)
		}
		if _, err := s.Renew(ctx, driver.Renewal{ID: ended.ID, TTL: time.Minute}); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("the ended claim: %v", err)
		}
		s.Close()

		time.Sleep(time.Minute)
		s = boots(t, path, "two", 70*time.Second, sqlite.Options{}) // the same boot
		if all := left(t, s, "held", 1); all[0] != time.Minute {
			t.Errorf("after a restart of the process %v are left, want a minute", all)
		}
		time.Sleep(time.Minute)
		if next := grant(t, s, exclusive("held", time.Minute)); next < first+driver.Span {
			t.Errorf("fence %d after %d", next, first)
		}
		s.Close()
		time.Sleep(3 * time.Hour)
		s = boots(t, path, "three", time.Second, sqlite.Options{})
		defer s.Close()
		left(t, s, "held", 1)
		left(t, s, "kept", 0)
	})
}

// A file becomes one for remote holders when a program opens it so. Claims of an earlier boot count
// as those of remote holders then.
func TestStore_remote_later(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	synctest.Test(t, func(t *testing.T) {
		s := boots(t, path, "one", time.Hour, sqlite.Options{})
		grant(t, s, exclusive("k", time.Minute))
		s.Close()
		s = boots(t, path, "two", 0, sqlite.Options{Remote: true})
		left(t, s, "k", 1)
		s.Close()
		s = boots(t, path, "three", 0, sqlite.Options{})
		defer s.Close()
		left(t, s, "k", 1)
	})
}

// A row that cannot be read does not keep a file for remote holders from being opened.
func TestStore_remote_unreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	synctest.Test(t, func(t *testing.T) {
		s := boots(t, path, "one", time.Hour, sqlite.Options{Remote: true})
		grant(t, s, exclusive("k", time.Minute))
		grant(t, s, exclusive("bad", time.Minute))
		if err := s.Run("update key set state = x'ff' where key = x'626164'"); err != nil {
			t.Fatal(err)
		}
		s.Close()
		s = boots(t, path, "two", 0, sqlite.Options{})
		defer s.Close()
		left(t, s, "k", 1)
		if res, err := s.Acquire(t.Context(), exclusive("bad", time.Minute)); err == nil {
			t.Errorf("a row that cannot be read: %+v", res)
		}
	})
}
