package testenv

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// A missingError is a server program that this machine does not have.
type missingError struct {
	program string
	install string // the command that installs it
}

func (e *missingError) Error() string {
	return fmt.Sprintf("no %s on this machine; to get it: %s", e.program, e.install)
}

// Missing ends the test because a program, other than a server of this package, is not on this
// machine. It skips the test, or fails it if the servers are required.
func Missing(t testing.TB, program, install string) {
	t.Helper()
	check(t, &missingError{program: program, install: install})
}

// check ends the test if err is not nil. It skips the test if a program is missing and the servers
// are not required, and fails it otherwise.
func check(t testing.TB, err error) {
	t.Helper()
	var missing *missingError
	switch {
	case err == nil:
	case errors.As(err, &missing) && !required():
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	default:
		t.Fatalf("testenv: %v", err)
	}
}

// Required reports whether a missing program is a failure: in CI, and wherever the servers are
// required.
func Required() bool { return required() }

// required reports whether a missing server program is a failure.
func required() bool {
	switch os.Getenv("DISTLOCK_REQUIRE_SERVERS") {
	case "1", "true":
		return true
	case "0", "false":
		return false
	}
	return os.Getenv("CI") == "true"
}

// The folders outside PATH where packages install server programs. Debian keeps PostgreSQL out of
// PATH, where only wrappers of it may be, so its folders come first. PgBouncer is in sbin, which
// the PATH of ordinary users may lack.
var (
	beforePath = []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
	}
	afterPath = []string{"/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"}
)

// find returns the path of a program, or a missingError.
func find(program, install string) (string, error) {
	var folders []string
	if only, ok := os.LookupEnv("DISTLOCK_TEST_PATH"); ok {
		folders = filepath.SplitList(only)
	} else {
		for _, pattern := range beforePath {
			match, _ := filepath.Glob(pattern)
			folders = append(folders, match...)
		}
		slices.SortFunc(folders, byVersion)
		folders = slices.Concat(folders, filepath.SplitList(os.Getenv("PATH")), afterPath)
	}
	for _, folder := range folders {
		if folder == "" {
			continue
		}
		// LookPath of a name with a slash searches no other folder, and handles .exe.
		if path, err := exec.LookPath(filepath.Join(folder, program)); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", &missingError{program, install}
}

// byVersion sorts the folder with the higher version first: 15 before 9.6.
func byVersion(a, b string) int { return cmp.Compare(version(b), version(a)) }

var versionPattern = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// version returns the first number in a path, or 0.
func version(path string) float64 {
	v, _ := strconv.ParseFloat(versionPattern.FindString(path), 64)
	return v
}
