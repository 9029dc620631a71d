package sqlite_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/sqlite"
)

// finds fails the test unless the store reports a finding "level: words".
func finds(t *testing.T, s *sqlite.Store, want string) {
	t.Helper()
	info, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	level, words, _ := strings.Cut(want, ": ")
	if !slices.ContainsFunc(info.Findings, func(f driver.Finding) bool {
		return f.Level.String() == level && strings.Contains(f.What, words) &&
			(f.Means == "") == (f.Level == driver.LevelOK) && (f.Cure == "") == (f.Means == "")
	}) {
		t.Errorf("no finding is %q: %+v", want, info.Findings)
	}
}

func TestStore_Inspect(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opt     *sqlite.Options
		machine sqlite.Machine
		meddle  func(path string) error
		want    string
	}{
		"synchronous=FULL": {&sqlite.Options{Full: true}, sqlite.Machine{Boot: "b"}, nil,
			"ok: every result is on disk"},
		"synchronous=NORMAL": {nil, sqlite.Machine{Boot: "b"}, nil,
			"ok: a power failure may forget the last claims, which the reboot frees"},
		"no boots, NORMAL": {nil, sqlite.Machine{}, nil,
			"warning: a power failure may forget the last claims (synchronous=NORMAL)"},
		"no boots": {nil, sqlite.Machine{}, nil,
			"warning: this system has no boot identifier"},
		"local": {nil, sqlite.Machine{Boot: "b", Magic: 0x58465342}, nil,
			"ok: the file system is local (xfs)"},
		"unknown file system": {nil, sqlite.Machine{Boot: "b", Magic: 0x1234}, nil,
			"unknown: locks.db, of type 0x1234, is not known"},
		"remote": {&sqlite.Options{Remote: true}, sqlite.Machine{Boot: "b"}, nil,
			"ok: holders may be on other hosts"},
		"remote is FULL": {&sqlite.Options{Remote: true}, sqlite.Machine{Boot: "b"}, nil,
			"ok: every result is on disk"},
		"file mode": {
			nil, sqlite.Machine{Boot: "b"},
			func(path string) error { return os.Chmod(path, 0o664) },
			"danger: others may open the file (mode 0664)",
		},
		"folder mode": {
			nil, sqlite.Machine{Boot: "b"},
			func(path string) error { return os.Chmod(filepath.Dir(path), 0o777) },
			"danger: others may write to the folder (mode 0777)",
		},
		"own file":   {nil, sqlite.Machine{Boot: "b"}, nil, "ok: only its user may open the file"},
		"own folder": {nil, sqlite.Machine{Boot: "b"}, nil, "ok: others cannot replace the file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" && tt.meddle != nil {
				t.Skip("this system has no modes of files")
			}
			path := filepath.Join(t.TempDir(), "own", "locks.db")
			s, err := sqlite.OpenOn(path, tt.opt, tt.machine)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if tt.meddle != nil {
				if err := tt.meddle(path); err != nil {
					t.Fatal(err)
				}
			}
			finds(t, s, tt.want)
			finds(t, s, "ok: the file is "+s.Path())
		})
	}
}
