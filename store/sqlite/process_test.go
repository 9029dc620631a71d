package sqlite_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
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

var roles = testenv.Roles{"count": countRole, "grab": grabRole, "contend": contendRole}

func exclusive(key string, ttl time.Duration) driver.Request {
	return driver.Request{
		ID: driver.ID{Key: key, Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl, Place: 5 * time.Second,
	}
}

// lock waits for a claim as the library does: it watches, asks, and polls behind.
func lock(s *sqlite.Store, r driver.Request) (driver.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	wake := s.Watch(ctx, r.ID)
	for {
		res, err := s.Acquire(ctx, r)
		switch {
		case err != nil && !errors.Is(err, driver.ErrUnavailable):
			return res, err
		case res.Granted:
			return res, nil
		case ctx.Err() != nil:
			return res, errors.Join(err, ctx.Err())
		}
		pause := time.Second
		if res.Retry > 0 {
			pause = min(pause, res.Retry)
		}
		select {
		case <-wake:
		case <-time.After(pause):
		}
	}
}

// countRole adds one to the number in a file, again and again, under a lock. The file has the last fence as well: it
// must rise.
func countRole(args []string) int {
	s, err := sqlite.Open(context.Background(), args[0], nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	n, _ := strconv.Atoi(args[2])
	for range n {
		r := exclusive("counter", 20*time.Second)
		res, err := lock(s, r)
		if err == nil {
			err = addOne(args[1], res.Fence)
		}
		if err == nil {
			err = s.Release(context.Background(), r.ID)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func addOne(path string, fence uint64) error {
	var n int
	var last uint64
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(string(text), &n, &last); err != nil {
		return err
	}
	if fence < last+driver.Span {
		return fmt.Errorf("fence %d after %d", fence, last)
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%d %d", n+1, fence), 0o600)
}

func TestProcesses_count(t *testing.T) {
	t.Parallel()
	const processes, rounds = 8, 50
	dir := t.TempDir()
	counter := filepath.Join(dir, "counter")
	if err := os.WriteFile(counter, []byte("0 0"), 0o600); err != nil {
		t.Fatal(err)
	}
	var all []*testenv.HelperProcess
	for range processes { // they race for making the file, too
		all = append(all, testenv.Helper(t, "count", filepath.Join(dir, "locks.db"), counter, strconv.Itoa(rounds)))
	}
	for _, h := range all {
		if code := h.Wait(); code != 0 {
			t.Errorf("a process ended with %d: %s", code, h.Log())
		}
	}
	text, err := os.ReadFile(counter)
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := strings.Cut(string(text), " "); n != strconv.Itoa(processes*rounds) {
		t.Errorf("the counter is %s, not %d", n, processes*rounds)
	}
	left, err := os.ReadDir(filepath.Join(dir, "locks.db-wake"))
	if err != nil || len(left) > 0 {
		t.Errorf("sockets are left: %v, %v", left, err)
	}
}

// grabRole takes and gives back claims on its own keys and one that all want, and writes down what it was told, until it is killed.
func grabRole(args []string) int {
	s, err := sqlite.Open(context.Background(), args[0], nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	for i := 0; ; i++ {
		r := exclusive("own/"+args[1]+"/"+strconv.Itoa(i), time.Hour)
		res, err := s.Acquire(ctx, r)
		if err != nil || !res.Granted {
			fmt.Fprintln(os.Stderr, i, res, err)
			return 1
		}
		fmt.Println("held", r.Key, r.Owner, res.Fence)
		if i%2 == 1 {
			fmt.Println("giving", r.Key, r.Owner, res.Fence)
			if err := s.Release(ctx, r.ID); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			fmt.Println("gave", r.Key, r.Owner, res.Fence)
		}
	}
}

func TestProcesses_killed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	s := opened(t, path, nil)
	for round := range 20 {
		h := testenv.Helper(t, "grab", path, strconv.Itoa(round))
		word := map[string]string{} // the last that was said of each key
		owner := map[string]string{}
		note := func(line string) {
			f := strings.Fields(line)
			word[f[1]], owner[f[1]] = f[0], f[2]
		}
		note(h.Line())
		// It writes to a pipe that we read until the end: what it said before it died is known.
		end := time.Now().Add(time.Duration(mathrand.IntN(20)) * time.Millisecond)
		for time.Now().Before(end) {
			note(h.Line())
		}
		h.Kill()
		for {
			line, err := h.LineWithin(10 * time.Second)
			if err != nil {
				break
			}
			note(line)
		}
		for key, w := range word {
			claims, err := s.Show(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			held := len(claims) == 1 && claims[0].Owner == driver.Tag(owner[key])
			if w == "held" && !held {
				t.Errorf("round %d: the claim on %s was lost: %+v", round, key, claims)
			}
			if w == "gave" && len(claims) > 0 {
				t.Errorf("round %d: the claim on %s came back: %+v", round, key, claims)
			}
			if res, err := s.Acquire(t.Context(), exclusive(key, time.Minute)); err != nil || held && res.Granted {
				t.Errorf("round %d: %s is held twice: %+v, %v", round, key, res, err)
			}
		}
	}
}
