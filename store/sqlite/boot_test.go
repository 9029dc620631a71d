package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/sqlite"
)

// bootRole opens a file with a boot identifier, acquires a claim and keeps the file open until it
// is killed.
func bootRole(args []string) int {
	var s *sqlite.Store
	err := patient(func() (err error) {
		s, err = sqlite.OpenOn(args[0], &sqlite.Options{Polling: true}, sqlite.Machine{Boot: args[1]})
		return err
	})
	if err == nil {
		err = patient(func() error { _, err := s.Acquire(context.Background(), exclusive(args[2], time.Hour)); return err })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("held")
	select {}
}

func held(t *testing.T, h *testenv.HelperProcess) {
	t.Helper()
	if line, err := h.LineWithin(time.Minute); err != nil || line != "held" {
		t.Fatalf("%q, %v: %s", line, err, h.Log())
	}
}

// A container may have its own boot identifier while the host's boot continues.
func TestOpen_boot_of_a_container(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	h := testenv.Helper(t, "boot", path, "outside", "k")
	held(t, h)
	s, err := sqlite.OpenOn(path, nil, sqlite.Machine{Boot: "inside", Limit: 50 * time.Millisecond})
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, driver.ErrUnavailable) ||
		!strings.Contains(err.Error(), "needs a file of its own") {
		t.Errorf("opened, with a holder that lives: %v", err)
	}
	s = on(t, path, sqlite.Machine{Boot: "outside"})
	if claims := claimsIn(t, s)["k"]; len(claims) != 1 {
		t.Errorf("the holder lost its claim: %+v", claims)
	}
	s.Close()

	h.Kill() // as in a reboot, the log stays
	s = on(t, path, sqlite.Machine{Boot: "inside"})
	if claims := claimsIn(t, s)["k"]; len(claims) > 0 {
		t.Errorf("a claim survived the reboot: %+v", claims)
	}
	if info, err := s.Inspect(t.Context()); err != nil ||
		strings.Contains(fmt.Sprint(info.Findings), "journal mode") {
		t.Errorf("after a reboot: %+v, %v", info, err)
	}
}

// After a reboot many processes open the file at once. One of them frees all old claims, and none
// of them frees a new claim of another.
func TestOpen_boot_many(t *testing.T) {
	t.Parallel()
	const processes = 6
	path := filepath.Join(t.TempDir(), "locks.db")
	s := on(t, path, sqlite.Machine{Boot: "first"})
	grant(t, s, exclusive("old", time.Hour))
	s.Close()
	var all []*testenv.HelperProcess
	for i := range processes {
		all = append(all, testenv.Helper(t, "boot", path, "second", strconv.Itoa(i)))
	}
	for _, h := range all {
		held(t, h)
	}
	claims := claimsIn(t, on(t, path, sqlite.Machine{Boot: "second"}))
	if len(claims) != processes || len(claims["old"]) > 0 {
		t.Errorf("%d processes hold %+v", processes, claims)
	}
}
