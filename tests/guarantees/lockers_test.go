package guarantees_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
)

var lockerCount = flag.Int("lockers", 64, "number of Lockers that wait for one name in TestHerd_lockers")

// Many Lockers wait for one name, each with a queue entry of its own. All are served in the order
// of the queue: nobody loses its entry and starts again. An entry lives for 3 s after each attempt,
// so there is no verdict about the order if a busy machine attempts more rarely.
func TestHerd_lockers(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		url := "sqlite:" + t.TempDir() + "/locks.db"
		herd(t, &site{url: url}, locker(t, openURL(t, url)))
	})
	onEach(t, []string{"redis", "postgres", "mariadb", "etcd"}, func(t *testing.T, s *site) {
		herd(t, s, locker(t, s.store(t)))
	})
}

func herd(t *testing.T, s *site, holder *distlock.Locker) {
	n := *lockerCount
	store := openURL(t, s.url)
	held := persist(t, holder, "key")
	var stalled atomic.Bool
	var mu sync.Mutex
	var served []string
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 6*soon+time.Duration(n)*20*time.Millisecond)
	defer cancel()
	// Few of them begin at the same time: the first attempts of all together may take longer than a
	// call on a busy machine.
	begin := make(chan struct{}, 16)
	for i := range n {
		name := fmt.Sprint("process ", i)
		begin <- struct{}{}
		began := sync.OnceFunc(func() { <-begin })
		var last time.Time // of one runner: its attempts follow each other
		l := locker(t, store, distlock.Holder(name), distlock.Observe(func(_ context.Context, e distlock.Event) {
			if e.Type != distlock.EventAttempted {
				return
			}
			began()
			if now := time.Now(); !last.IsZero() && now.Sub(last) > 2500*time.Millisecond || e.Err != nil {
				stalled.Store(true)
			} else {
				last = now
			}
		}))
		wg.Go(func() {
			lease, err := l.Lock(ctx, "key")
			began()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			mu.Lock()
			served = append(served, name)
			mu.Unlock()
			if err := lease.Unlock(ctx); err != nil {
				t.Errorf("%s: Unlock: %v", name, err)
			}
		})
	}
	var order []string
	eventually(t, "all wait", func() error {
		order = nil
		for _, c := range queue(t, holder, "key") {
			order = append(order, c.Holder)
		}
		if len(order) < n {
			return fmt.Errorf("%d wait", len(order))
		}
		return nil
	})
	began, used := time.Now(), processorTime(s)
	unlock(t, held)
	wg.Wait()
	took, used := time.Since(began), processorTime(s)-used
	late := 0
	for i, name := range served {
		if i < len(order) && order[i] != name {
			late++
		}
	}
	t.Logf("%d Lockers: %v and %v of processors for each grant, %d out of order", n,
		(took / time.Duration(n)).Round(time.Microsecond), (used / time.Duration(n)).Round(time.Microsecond), late)
	switch {
	case t.Failed():
	case len(served) != n || len(slices.Compact(slices.Sorted(slices.Values(served)))) != n:
		t.Errorf("%d of %d were served", len(served), n)
	case late > 0 && stalled.Load():
		t.Log("no verdict about the order, since the machine was slow")
	case late > 0:
		t.Errorf("%d of %d were not served in the order of the queue", late, n)
	}
}

// processorTime returns the processor time of this process and of the servers so far, or 0 if it is
// not known.
func processorTime(s *site) (sum time.Duration) {
	roots := map[int]bool{os.Getpid(): true}
	for _, srv := range s.servers() {
		roots[srv.PID()] = true
	}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		f := strings.Fields(rest)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(f[1])
		if !roots[pid] && (parent == os.Getpid() || !roots[parent]) {
			continue
		}
		for _, field := range f[11:13] { // in ticks of 10 ms: user and system
			ticks, _ := strconv.Atoi(field)
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum
}
