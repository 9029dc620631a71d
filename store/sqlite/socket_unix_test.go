//go:build unix

package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

func sockets(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path + "-wake")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A process that opens its own socket removes the sockets of killed processes, and no others.
func TestStore_stale_sockets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	alive := testenv.Helper(t, "watch", path)
	alive.Line()
	kept := sockets(t, path)
	for range 3 {
		h := testenv.Helper(t, "watch", path)
		h.Line()
		h.Kill()
	}
	if left := sockets(t, path); len(left) < 2 {
		t.Fatalf("a process that is killed leaves its socket, but there are %v", left)
	}
	s := opened(t, path, nil)
	if s.Watch(t.Context(), exclusive("k", time.Minute).ID) == nil {
		t.Fatal("no socket")
	}
	left := sockets(t, path)
	if len(left) != 2 || !slices.Contains(left, kept[0]) {
		t.Errorf("there are %v, want one more than %v", left, kept)
	}
	// The live process still gets hints.
	grant(t, s, exclusive("k", time.Minute))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left := sockets(t, path); !slices.Equal(left, kept) {
		t.Errorf("after Close there are %v, want %v", left, kept)
	}
}

// After root has waited once, the owner of the file can still be woken in the folder.
func TestStore_Watch_root(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		testenv.Missing(t, "root", "run the tests as root")
	}
	const owner = 12345
	path := filepath.Join(t.TempDir(), "locks.db")
	s := opened(t, path, nil)
	if err := os.Chown(path, owner, owner); err != nil {
		t.Fatal(err)
	}
	if s.Watch(t.Context(), exclusive("k", time.Minute).ID) == nil {
		t.Fatal("no socket")
	}
	info, err := os.Stat(path + "-wake")
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != owner || st.Gid != owner {
		t.Errorf("the folder belongs to %d:%d", st.Uid, st.Gid)
	}
}

// A renewal does not wait behind many acquires.
func TestStore_renewals_first(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	s, other := opened(t, path, nil), opened(t, path, nil)
	held := exclusive("held", 40*time.Second)
	grant(t, s, held)
	if err := other.Run("begin immediate"); err != nil { // no call gets past the file lock
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	arrive := func(name string, f func() error) {
		before := s.Queued()
		wg.Go(func() {
			if err := f(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		if name != "ahead" { // it has the connection
			for s.Queued() == before {
				time.Sleep(time.Millisecond)
			}
		}
	}
	acquire := func(key string) func() error {
		return func() error { _, err := s.Acquire(t.Context(), exclusive(key, 40*time.Second)); return err }
	}
	arrive("ahead", acquire("ahead"))
	for !s.Taken() {
		time.Sleep(time.Millisecond)
	}
	for i := range 5 {
		arrive("acquire", acquire(fmt.Sprint("new", i)))
	}
	arrive("renew", func() error {
		_, err := s.Renew(t.Context(), driver.Renewal{ID: held.ID, TTL: 40 * time.Second})
		return err
	})
	if err := other.Run("rollback"); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	claims := claimsIn(t, s)
	if len(claims) != 7 {
		t.Fatalf("there are %+v, want 7 claims", claims)
	}
	renewed := 40*time.Second - claims["held"][0].Left // ago
	for key, all := range claims {
		if key != "held" && key != "ahead" && all[0].Held > renewed {
			t.Errorf("the renewal came %v after %s", all[0].Held-renewed, key)
		}
	}
}
