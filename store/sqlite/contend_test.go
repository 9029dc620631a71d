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

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/sqlite"
)

// contendRole prints that it is ready, and reads a time in µs since 1970. It increments a counter
// under the lock until then, and prints how often.
func contendRole(args []string) int {
	n, err := contend(args[0], args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(n)
	return 0
}

func contend(path, counter string) (n int, err error) {
	ctx := context.Background()
	started := mark(counter)
	s, err := sqlite.Open(ctx, path, nil)
	for errors.Is(err, driver.ErrUnavailable) { // other processes open it: see patient
		fmt.Fprintln(os.Stderr, err)
		s, err = sqlite.Open(ctx, path, nil)
	}
	if err := errors.Join(started, err, mark(counter)); err != nil {
		return 0, err
	}
	defer s.Close()
	l, err := distlock.New(s)
	if err != nil {
		return 0, err
	}
	fmt.Println("ready")
	// All processes end at one time: a process that went on alone would have the key more often.
	var until int64
	if _, err := fmt.Scan(&until); err != nil {
		return 0, err
	}
	for end := time.UnixMicro(until); n == 0 || time.Now().Before(end); {
		err := l.Do(ctx, "counter", func(ctx context.Context) error {
			err := addOne(counter, distlock.FromContext(ctx).Fence())
			if err == nil {
				n++
			}
			return err
		})
		// A busy machine: see patient. Nothing was added if the lock was not acquired.
		busy := errors.Is(err, distlock.ErrUnavailable) || errors.Is(err, distlock.ErrUnknown)
		if err != nil && (!busy || !errors.Is(err, distlock.ErrNotAcquired)) {
			return n, err
		}
	}
	return n, nil
}

// mark shows the test that a process has made a step: see line.
func mark(counter string) error {
	f, err := os.OpenFile(counter+".steps", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(".")
	return errors.Join(err, f.Close())
}

// line returns the next line of a process. The processes share one machine and one lock, and on a
// busy machine the line may take any time. So line fails only if no process has made a step and the
// counter has not changed for 30 s.
func line(t *testing.T, h *testenv.HelperProcess, counter string) string {
	t.Helper()
	for last := ""; ; {
		text, err := h.LineWithin(30 * time.Second)
		if err == nil {
			return text
		}
		steps, _ := os.ReadFile(counter + ".steps") // the first process creates it
		n, readErr := os.ReadFile(counter)
		now := fmt.Sprintf("%d steps, counter %s", len(steps), n)
		if !errors.Is(err, os.ErrDeadlineExceeded) || readErr != nil || now == last {
			t.Fatalf("no line after %s: %v", now, errors.Join(err, readErr))
		}
		last = now
	}
}

// compete lets processes contend for one key, and returns how often each had it.
func compete(t *testing.T, processes int, d time.Duration) []int {
	t.Helper()
	dir := t.TempDir()
	counter := filepath.Join(dir, "counter")
	if err := os.WriteFile(counter, []byte("0 0"), 0o600); err != nil {
		t.Fatal(err)
	}
	var all []*testenv.HelperProcess
	for range processes {
		all = append(all, testenv.Helper(t, "contend",
			filepath.Join(dir, "locks.db"), counter))
	}
	for _, h := range all {
		line(t, h, counter)
	}
	until := strconv.FormatInt(time.Now().Add(d).UnixMicro(), 10)
	for _, h := range all {
		h.Say(until)
	}
	var grants []int
	sum := 0
	for _, h := range all {
		n, err := strconv.Atoi(line(t, h, counter))
		if err != nil {
			t.Fatal(err)
		}
		grants, sum = append(grants, n), sum+n
	}
	text, err := os.ReadFile(counter)
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := strings.Cut(string(text), " "); n != strconv.Itoa(sum) {
		t.Errorf("the counter is %s after %d additions", n, sum)
	}
	return grants
}

// jain returns Jain's fairness index: 1 if all numbers are the same, and 1/n if one has all.
func jain(all []int) float64 {
	var sum, squares float64
	for _, n := range all {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	return sum * sum / (float64(len(all)) * squares)
}

// Four processes contend for one key all the time: no addition is lost, and no process starves.
func TestProcesses_fair(t *testing.T) {
	t.Parallel()
	grants := compete(t, 4, 4*time.Second) // a scheduler stall of a second costs a process a quarter
	if j := jain(grants); j < 0.95 {
		t.Errorf("Jain's index of %v is %.3f, want at least 0.95", grants, j)
	} else {
		t.Logf("grants %v, Jain's index %.3f", grants, j)
	}
}

// Fifty processes lose no addition either, and each gets the key.
func TestProcesses_fifty(t *testing.T) {
	t.Parallel()
	grants := compete(t, 50, 3*time.Second)
	for i, n := range grants {
		if n == 0 {
			t.Errorf("process %d never had the key: %v", i, grants)
		}
	}
	t.Logf("grants %v, Jain's index %.3f", grants, jain(grants))
}
