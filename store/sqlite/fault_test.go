package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/sqlite"
)

func grant(t *testing.T, s *sqlite.Store, r driver.Request) uint64 {
	t.Helper()
	res, err := s.Acquire(t.Context(), r)
	if err != nil || !res.Granted {
		t.Fatalf("%+v, %v", res, err)
	}
	return res.Fence
}

func TestStore_reboot(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	r := exclusive("k", time.Hour)
	s := on(t, path, sqlite.Machine{Boot: "first"})
	// A fence ahead of the clock shows that the last fence is in the file.
	r.Floor = uint64(time.Now().Add(30 * time.Minute).UnixMicro())
	fence := grant(t, s, r)
	s.Close()

	s = on(t, path, sqlite.Machine{Boot: "first"})
	if res, err := s.Acquire(t.Context(), exclusive("k", time.Hour)); err != nil || res.Granted {
		t.Fatalf("a restart of the process freed the key: %+v, %v", res, err)
	}
	s.Close()

	s = on(t, path, sqlite.Machine{Boot: "second"})
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: time.Hour}); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("a claim survived the reboot: %v", err)
	}
	if next := grant(t, s, exclusive("k", time.Hour)); next < fence+driver.Span {
		t.Errorf("fence %d after %d", next, fence)
	}
	if info, err := s.Inspect(t.Context()); err != nil || info.Age > time.Minute {
		t.Errorf("after a reboot: %+v, %v", info, err)
	}
}

// Only the clock of the host counts: two processes that opened the file at different times of day
// agree.
func TestStore_time_of_day(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	elapsed := func() time.Duration { return time.Hour }
	synctest.Test(t, func(t *testing.T) {
		s := on(t, path, sqlite.Machine{Boot: "b", Elapsed: elapsed})
		defer s.Close()
		grant(t, s, exclusive("k", 30*time.Second))
		time.Sleep(time.Hour) // the time of day moves, and the clock of the host does not
		other := on(t, path, sqlite.Machine{Boot: "b", Elapsed: elapsed})
		defer other.Close()
		if res, err := other.Acquire(t.Context(), exclusive("k", time.Second)); err != nil ||
			res.Granted {
			t.Errorf("a jump of the time of day freed the key: %+v, %v", res, err)
		}
	})
}

func TestStore_swept_fences_stay_below(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	synctest.Test(t, func(t *testing.T) {
		s := on(t, path, sqlite.Machine{Boot: "b"})
		defer s.Close()
		r := exclusive("k", time.Second)
		fence := grant(t, s, r)
		time.Sleep(time.Hour)
		grant(t, s, exclusive("other", time.Second))
		if n := s.Rows(); n != 1 {
			t.Fatalf("%d keys are in the file, want only the other one", n)
		}
		if err := s.Run("update key set fence = fence + 1000000000000000 where key = x''"); err != nil {
			t.Fatal(err)
		}
		if next := grant(t, s, exclusive("k", time.Second)); next < fence+1e15 {
			t.Errorf("fence %d is not above what was swept", next)
		}
	})
}

func TestOpen_refuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		make       func(path string) error
		machine    sqlite.Machine
	}{
		{"a network file system", "network file system (NFS)", nil, sqlite.Machine{Magic: 0x6969}},
		{"FUSE", "network file system (FUSE)", nil, sqlite.Machine{Magic: 0x65735546}},
		{"a symbolic link", "symbolic link",
			func(p string) error { return os.Symlink(p+"-elsewhere", p) }, sqlite.Machine{}},
		{
			"a second name", "hard links",
			func(p string) error { return errors.Join(later("select 1")(p), os.Link(p, p+"-second")) },
			sqlite.Machine{},
		},
		{"a folder", "not a regular file",
			func(p string) error { return os.Mkdir(p, 0o700) }, sqlite.Machine{}},
		{
			"a file for all", "chmod go-rwx",
			func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o644)) },
			sqlite.Machine{},
		},
		{"a read-only file", "read-only",
			func(p string) error { return os.WriteFile(p, nil, 0o400) }, sqlite.Machine{}},
		{
			"something else", "not a database",
			func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("x", 8192)), 0o600) },
			sqlite.Machine{},
		},
		{"a newer layout", "layout 99", later("pragma user_version = 99"), sqlite.Machine{}},
		{"an older layout", "from before the first release",
			later("pragma user_version = 2"), sqlite.Machine{}},
		{"another's database", "another application",
			later("pragma application_id = 7"), sqlite.Machine{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "locks.db")
			if tt.make != nil {
				if err := tt.make(path); err != nil {
					t.Fatal(err)
				}
			}
			s, err := sqlite.OpenOn(path, nil, tt.machine)
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// A process that died while it created the file left a draft, which is a second name. Other
// processes can still open the file.
func TestOpen_draft_left(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	draft := filepath.Join(filepath.Dir(path), ".locks.db-ABCDEFGHIJKL")
	if err := errors.Join(os.WriteFile(draft, nil, 0o600), os.Link(draft, path)); err != nil {
		t.Fatal(err)
	}
	opened(t, path, nil)
	if _, err := os.Lstat(draft); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the draft is left: %v", err)
	}
}

// later creates a file and then changes it.
func later(q string) func(string) error {
	return func(path string) error {
		s, err := sqlite.OpenOn(path, nil, sqlite.Machine{})
		if err != nil {
			return err
		}
		return errors.Join(s.Run(q), s.Close())
	}
}

func TestOpen_rights(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new", "folder")
	s := opened(t, filepath.Join(folder, "a?b#c %41.db"), nil)
	s.Watch(t.Context(), driver.ID{Key: "k", Owner: "o"})
	grant(t, s, exclusive("k", time.Minute))
	for path, want := range map[string]os.FileMode{
		folder: 0o700, s.Path(): 0o600, s.Path() + "-wal": 0o600, s.Path() +
			"-shm": 0o600, s.Path() + "-wake": 0o700,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info, err, want)
		}
	}
	info, err := s.Inspect(t.Context())
	if err != nil || info.Identity == "sqlite:" || info.Age <= 0 {
		t.Errorf("%+v, %v", info, err)
	}
	for _, f := range info.Findings {
		if f.Level != driver.LevelOK {
			t.Errorf("%+v", f)
		}
	}
}

// A store whose open file was removed must use the file that is at the path now, for every call.
func TestStore_file_replaced(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		call func(s *sqlite.Store, id driver.ID) error
		want error
	}{
		{"renew", func(s *sqlite.Store, id driver.ID) error {
			_, err := s.Renew(t.Context(), driver.Renewal{ID: id, TTL: time.Minute})
			return err
		}, driver.ErrNotHeld},
		{"release by one statement",
			func(s *sqlite.Store, id driver.ID) error { return s.Release(t.Context(), id) }, driver.ErrNotHeld},
		{"release", func(s *sqlite.Store, id driver.ID) error {
			s.Forget(id)
			return s.Release(t.Context(), id)
		}, driver.ErrNotHeld},
		{"show", func(s *sqlite.Store, id driver.ID) error {
			claims, err := s.Show(t.Context(), id.Key)
			if len(claims) > 0 {
				return fmt.Errorf("it still shows %+v", claims)
			}
			return err
		}, nil},
		{"acquire", func(s *sqlite.Store, id driver.ID) error {
			res, err := s.Acquire(t.Context(), exclusive(id.Key, time.Minute))
			if err == nil && !res.Granted {
				return errors.New("it is still held")
			}
			return err
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := opened(t, filepath.Join(t.TempDir(), "locks.db"), nil)
			r := exclusive("k", time.Minute)
			grant(t, s, r)
			for _, end := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(s.Path() + end); err != nil {
					t.Fatal(err)
				}
			}
			if err := tt.call(s, r.ID); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if claims := claimsIn(t, opened(t, s.Path(), nil)); (len(claims) > 0) != (tt.name == "acquire") {
				t.Errorf("the new file has %+v", claims)
			}
		})
	}
}

// The new file cannot be read with the log of the removed file, so the store must close that log.
func TestStore_file_removed_without_its_log(t *testing.T) {
	t.Parallel()
	s := opened(t, filepath.Join(t.TempDir(), "locks.db"), nil)
	r := exclusive("k", time.Minute)
	grant(t, s, r)
	if err := os.Remove(s.Path()); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("released in a file that no other process sees: %v", err)
	}
	grant(t, opened(t, s.Path(), nil), exclusive("k", time.Minute))
}

// If another process keeps the file, the store is unavailable: the call reports nothing about the
// key.
func TestStore_busy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	s, other := opened(t, path, nil), opened(t, path, nil)
	r := exclusive("k", 400*time.Millisecond)
	if err := other.Run("begin immediate"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := s.Acquire(t.Context(), r); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("gave up after %v", took)
	}
	if err := other.Run("rollback"); err != nil {
		t.Fatal(err)
	}
	grant(t, s, exclusive("k", time.Minute))
}

func TestOpenURL_folder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	for _, text := range []string{"sqlite:", "sqlite:?synchronous=full"} {
		s, err := sqlite.OpenURL(t.Context(), text)
		if err != nil {
			t.Fatal(text, err)
		}
		if want := filepath.Join(dir, "state", "distlock", "locks.db"); s.Path() != want {
			t.Errorf("%s: %s, want %s", text, s.Path(), want)
		}
		_ = s.Close()
	}
	// A typo must not make a second store.
	missing := filepath.Join(dir, "typo", "folder")
	_, err := sqlite.OpenURL(t.Context(), "sqlite:"+filepath.ToSlash(missing)+"/locks.db")
	if err == nil || !strings.Contains(err.Error(), "there is no folder "+missing) {
		t.Errorf("a folder that is missing: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(missing)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "relative")
	t.Setenv("USERPROFILE", "relative")
	if _, err := sqlite.OpenURL(t.Context(), "sqlite:"); err == nil ||
		!strings.Contains(err.Error(), "not an absolute path") {
		t.Errorf("a relative home: %v", err)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sqlite:": "", "sqlite:locks.db": "locks.db", "sqlite:///var/lib/l.db": "/var/lib/l.db",
		"sqlite:a%20b.db": "a b.db",
	} {
		if path, _, err := sqlite.Parse(text); err != nil || path != want {
			t.Errorf("%s: %q, %v", text, path, err)
		}
	}
	if _, opt, err := sqlite.Parse("sqlite:l.db?synchronous=full"); err != nil || !opt.Full || opt.Remote {
		t.Errorf("%+v, %v", opt, err)
	}
	for _, query := range []string{"holders=remote", "holders=remote&synchronous=full"} {
		if _, opt, err := sqlite.Parse("sqlite:l.db?" + query); err != nil || !opt.Remote {
			t.Errorf("%s: %+v, %v", query, opt, err)
		}
	}
	for _, text := range []string{
		"sqlite://var/lib/l.db", "sqlite:l.db?sync=full", "sqlite:l.db?synchronous=off", "redis:x", "sqlite:%zz",
		"sqlite:l.db?holders=local", "sqlite:l.db?holders=remote&holders=remote", "sqlite:l.db?holders=remote&synchronous=normal",
	} {
		if path, _, err := sqlite.Parse(text); err == nil {
			t.Errorf("%s: %q", text, path)
		}
	}
}
