package sqlite_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/sqlite"
)

var roles = testenv.Roles{
	"count": countRole, "grab": grabRole, "contend": contendRole, "watch": watchRole,
	"leave": leaveRole, "boot": bootRole, "keep": keepRole,
}

func exclusive(key string, ttl time.Duration) driver.Request {
	return driver.Request{
		ID: driver.ID{Key: key, Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole,
		TTL: ttl, QueueTTL: 5 * time.Second,
	}
}

// lock waits for a claim as the library does: it watches, calls Acquire, and also polls.
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

// countRole increments the number in a file, again and again, under a lock. The file also has the
// last fence, which must rise.
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
			err = patient(func() error { return s.Release(context.Background(), r.ID) })
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
	for range processes { // they also race to create the file
		all = append(all, testenv.Helper(t, "count", filepath.Join(dir, "locks.db"),
			counter, strconv.Itoa(rounds)))
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

// patient calls f until the store is available, for a minute at most. Under load other processes
// may keep the file for longer than a call waits. Nothing was changed then, and patient calls f
// again.
func patient(f func() error) error {
	for end := time.Now().Add(time.Minute); ; {
		if err := f(); !errors.Is(err, driver.ErrUnavailable) || time.Now().After(end) {
			return err
		}
	}
}

// keepRole keeps the file to itself until it is killed.
func keepRole(args []string) int {
	s, err := sqlite.Open(context.Background(), args[0], nil)
	if err == nil {
		err = s.Run("begin immediate")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("has it")
	select {}
}

// grabRole acquires and releases claims on its own keys and on a shared key, and prints each
// result, until it is killed.
func grabRole(args []string) int {
	var s *sqlite.Store
	err := patient(func() (err error) { s, err = sqlite.Open(context.Background(), args[0], nil); return err })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	report := func(state string, id driver.ID) { fmt.Println(state, id.Key, id.Owner) }
	take := func(r driver.Request) bool {
		var res driver.Result
		err := patient(func() (err error) { res, err = s.Acquire(context.Background(), r); return err })
		if err != nil || !res.Granted && r.Key != shared {
			panic(fmt.Sprint(r.Key, res, err))
		}
		if res.Granted {
			report("held", r.ID)
		}
		return res.Granted
	}
	release := func(id driver.ID) {
		report("releasing", id)
		if err := patient(func() error { return s.Release(context.Background(), id) }); err != nil {
			panic(err)
		}
		report("released", id)
	}
	for i := 0; ; i += 2 {
		all := exclusive(shared, time.Hour)
		all.QueueTTL = 0
		has := take(all)
		take(exclusive("own/"+args[1]+"/"+strconv.Itoa(i), time.Hour))
		r := exclusive("own/"+args[1]+"/"+strconv.Itoa(i+1), time.Hour)
		take(r)
		release(r.ID)
		if has {
			release(all.ID)
		}
	}
}

// watchRole watches a key, and prints that it does, until it is woken or killed.
func watchRole(args []string) int {
	s, err := sqlite.Open(context.Background(), args[0], nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	wake := s.Watch(context.Background(), exclusive("k", time.Minute).ID)
	fmt.Println("watching")
	<-wake
	return 0
}

// shared is the key that all processes want.
const shared = "shared"

// A report is the last state of a key that a process printed.
type report struct{ state, owner string }

// listen reads the reports of a process for a while, kills it, and reads the remaining reports:
// they are in a pipe, so none is lost. last is the key of the last report.
func listen(h *testenv.HelperProcess, d time.Duration) (reports map[string]report, last string) {
	reports = map[string]report{}
	note := func(limit time.Duration) bool {
		line, err := h.LineWithin(limit)
		if err == nil {
			f := strings.Fields(line)
			last = f[1]
			reports[last] = report{f[0], f[2]}
		}
		return err == nil
	}
	note(30 * time.Second)
	for end := time.Now().Add(d); time.Now().Before(end) && note(time.Until(end)); {
	}
	h.Kill()
	for note(10 * time.Second) {
	}
	return reports, last
}

// Processes are killed at any instant. A claim that a process reported as held is still held, by
// that process alone. A claim that it reported as released is free.
func TestProcesses_killed(t *testing.T) {
	t.Parallel()
	const rounds, writers = 26, 4
	path := filepath.Join(t.TempDir(), "locks.db")
	s := opened(t, path, nil)
	held, keys := 0, 0
	for round := range rounds {
		prefix := fmt.Sprintf("%d-", round)
		reports, lasts := killAll(t, path, prefix, writers)
		claims := claimsIn(t, s)
		holders := 0
		for key, r := range reports {
			// if it was released, another may hold it now
			if strings.HasPrefix(key, shared) && r.state == "held" {
				key, holders = shared, holders+1
			}
			verify(t, claims[key], key, r)
		}
		if holders > 1 {
			t.Errorf("%d held the shared key", holders)
		}
		held, keys = held+holders, keys+len(reports)
		slices.Sort(lasts)
		for _, key := range slices.Compact(lasts) { // later calls respect these claims
			r := exclusive(key, time.Minute)
			r.QueueTTL = 0
			if res, err := s.Acquire(t.Context(), r); err != nil || res.Granted == (len(claims[key]) > 0) {
				t.Errorf("%s has %+v, and another got %+v, %v", key, claims[key], res, err)
			}
		}
		if _, err := s.Break(t.Context(), shared, 0, "the next round"); err != nil {
			t.Fatal(err)
		}
	}
	if held == 0 {
		t.Error("no process was killed while it held the shared key: the test has shown nothing")
	}
	t.Logf("%d processes killed, %d keys checked, the shared key was held %d times",
		rounds*writers, keys, held)
}

// killAll starts processes and kills each at a random instant. It returns their last reports, those
// about the shared key under a name for each process, and the last key of each process.
func killAll(t *testing.T, path, prefix string, writers int) (all map[string]report, lasts []string) {
	t.Helper()
	all = map[string]report{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range writers {
		h := testenv.Helper(t, "grab", path, prefix+strconv.Itoa(i))
		wg.Go(func() {
			reports, last := listen(h, time.Duration(mathrand.IntN(10000))*time.Microsecond)
			mu.Lock()
			defer mu.Unlock()
			lasts = append(lasts, last)
			for key, r := range reports {
				if key == shared {
					key += prefix + strconv.Itoa(i)
				}
				all[key] = r
			}
		})
	}
	wg.Wait()
	return all, lasts
}

// claimsIn returns the claims in the file, by key.
func claimsIn(t *testing.T, s *sqlite.Store) map[string][]driver.Claim {
	t.Helper()
	all := map[string][]driver.Claim{}
	for c, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all[c.Key] = append(all[c.Key], c)
	}
	return all
}

// verify compares the claims in the file with the last report of a process.
func verify(t *testing.T, claims []driver.Claim, key string, r report) {
	t.Helper()
	if holds := len(claims) == 1 &&
		claims[0].Owner == driver.Tag(r.owner); r.state == "held" && !holds {
		t.Errorf("the claim on %s was lost: %+v", key, claims)
	}
	if r.state == "released" && len(claims) > 0 {
		t.Errorf("the claim on %s came back: %+v", key, claims)
	}
}
