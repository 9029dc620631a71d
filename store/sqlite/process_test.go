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

var roles = testenv.Roles{"count": countRole, "grab": grabRole, "contend": contendRole, "watch": watchRole, "leave": leaveRole, "boot": bootRole, "keep": keepRole}

func exclusive(key string, ttl time.Duration) driver.Request {
	return driver.Request{
		ID: driver.ID{Key: key, Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl, QueueTTL: 5 * time.Second,
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

// patient calls f until the store is there, for a minute at most. Under load others may keep the file for longer than a call
// waits: then nothing was changed, and the caller asks again.
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

// grabRole takes and gives back claims on its own keys and on one that all want, and writes down what it was told, until it is killed.
func grabRole(args []string) int {
	var s *sqlite.Store
	err := patient(func() (err error) { s, err = sqlite.Open(context.Background(), args[0], nil); return err })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	say := func(word string, id driver.ID) { fmt.Println(word, id.Key, id.Owner) }
	take := func(r driver.Request) bool {
		var res driver.Result
		err := patient(func() (err error) { res, err = s.Acquire(context.Background(), r); return err })
		if err != nil || !res.Granted && r.Key != wanted {
			panic(fmt.Sprint(r.Key, res, err))
		}
		if res.Granted {
			say("held", r.ID)
		}
		return res.Granted
	}
	give := func(id driver.ID) {
		say("giving", id)
		if err := patient(func() error { return s.Release(context.Background(), id) }); err != nil {
			panic(err)
		}
		say("gave", id)
	}
	for i := 0; ; i += 2 {
		all := exclusive(wanted, time.Hour)
		all.QueueTTL = 0
		has := take(all)
		take(exclusive("own/"+args[1]+"/"+strconv.Itoa(i), time.Hour))
		r := exclusive("own/"+args[1]+"/"+strconv.Itoa(i+1), time.Hour)
		take(r)
		give(r.ID)
		if has {
			give(all.ID)
		}
	}
}

// watchRole watches a key, and says so, until it is killed.
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

// wanted is the key that all want.
const wanted = "wanted"

// A word is the last that a process said of a key.
type word struct{ said, owner string }

// listen reads what a process says for a while, kills it, and reads the rest: it writes to a pipe, so that what it
// said before it died is known. The key of its last word is the last that it had to do with.
func listen(h *testenv.HelperProcess, d time.Duration) (words map[string]word, last string) {
	words = map[string]word{}
	note := func(limit time.Duration) bool {
		line, err := h.LineWithin(limit)
		if err == nil {
			f := strings.Fields(line)
			last = f[1]
			words[last] = word{f[0], f[2]}
		}
		return err == nil
	}
	note(30 * time.Second)
	for end := time.Now().Add(d); time.Now().Before(end) && note(time.Until(end)); {
	}
	h.Kill()
	for note(10 * time.Second) {
	}
	return words, last
}

// Processes are killed at any instant. What they were told they hold is still held, by them alone; what they gave back is free.
func TestProcesses_killed(t *testing.T) {
	t.Parallel()
	const rounds, writers = 26, 4
	path := filepath.Join(t.TempDir(), "locks.db")
	s := opened(t, path, nil)
	held, keys := 0, 0
	for round := range rounds {
		prefix := fmt.Sprintf("%d-", round)
		words, lasts := slay(t, path, prefix, writers)
		claims := claimsIn(t, s)
		holders := 0
		for key, w := range words {
			if strings.HasPrefix(key, wanted) && w.said == "held" { // of the others' it may be by now
				key, holders = wanted, holders+1
			}
			judge(t, claims[key], key, w)
		}
		if holders > 1 {
			t.Errorf("%d held the one key that all want", holders)
		}
		held, keys = held+holders, keys+len(words)
		slices.Sort(lasts)
		for _, key := range slices.Compact(lasts) { // what stands there is heeded, too
			r := exclusive(key, time.Minute)
			r.QueueTTL = 0
			if res, err := s.Acquire(t.Context(), r); err != nil || res.Granted == (len(claims[key]) > 0) {
				t.Errorf("%s has %+v, and another got %+v, %v", key, claims[key], res, err)
			}
		}
		if _, err := s.Break(t.Context(), wanted, 0, "the next round"); err != nil {
			t.Fatal(err)
		}
	}
	if held == 0 {
		t.Error("nobody was killed with the key that all want: nothing was shown")
	}
	t.Logf("%d processes killed, %d keys looked at, %d times with the one that all want", rounds*writers, keys, held)
}

// slay lets processes write and kills each at some instant. It returns their last words, those about the key that all want under
// a name for each process, and the last key of each.
func slay(t *testing.T, path, prefix string, writers int) (all map[string]word, lasts []string) {
	t.Helper()
	all = map[string]word{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range writers {
		h := testenv.Helper(t, "grab", path, prefix+strconv.Itoa(i))
		wg.Go(func() {
			words, last := listen(h, time.Duration(mathrand.IntN(10000))*time.Microsecond)
			mu.Lock()
			defer mu.Unlock()
			lasts = append(lasts, last)
			for key, w := range words {
				if key == wanted {
					key += prefix + strconv.Itoa(i)
				}
				all[key] = w
			}
		})
	}
	wg.Wait()
	return all, lasts
}

// claimsIn are the claims in the file, by key.
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

// judge compares what is in the file with what a process was told.
func judge(t *testing.T, claims []driver.Claim, key string, w word) {
	t.Helper()
	if holds := len(claims) == 1 && claims[0].Owner == driver.Tag(w.owner); w.said == "held" && !holds {
		t.Errorf("the claim on %s was lost: %+v", key, claims)
	}
	if w.said == "gave" && len(claims) > 0 {
		t.Errorf("the claim on %s came back: %+v", key, claims)
	}
}
