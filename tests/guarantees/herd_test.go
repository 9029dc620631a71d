package guarantees_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/workload"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

// mostRequests is the largest number of requests for one hand-off.
const mostRequests = 6

// Ten thousand goroutines of one process wait for one key. The process has one queue entry in the
// store, and all goroutines get the lock.
func TestHerd_goroutines(t *testing.T) {
	const waiters = 10_000
	srv := testenv.Redis(t)
	holder, l := locker(t, openURL(t, srv.URL)), locker(t, openURL(t, srv.URL))
	held := persist(t, holder, "key")
	base := rss(os.Getpid())
	var waiting, granted atomic.Int64
	var slowest atomic.Int64
	var wg sync.WaitGroup
	var released atomic.Int64
	for range waiters {
		wg.Go(func() {
			lease, err := l.Lock(t.Context(), "key", distlock.Observe(func(_ context.Context, e distlock.Event) {
				if e.Type == distlock.EventWaiting {
					waiting.Add(1)
				}
			}))
			if err != nil {
				t.Error(err)
				return
			}
			granted.Add(1)
			if err := lease.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			took := time.Now().UnixNano() - released.Load()
			was := slowest.Load()
			for took > was && !slowest.CompareAndSwap(was, took) {
				was = slowest.Load()
			}
		})
	}
	eventually(t, "all goroutines wait", func() error {
		if n := waiting.Load(); n < waiters {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	grown := rss(os.Getpid()) - base
	if n := len(queue(t, l, "key")); n != 1 {
		t.Errorf("%d queue entries in the store, want one for the process", n)
	}
	do(t, srv, "CONFIG", "RESETSTAT")
	began := time.Now()
	released.Store(began.UnixNano())
	unlock(t, held)
	wg.Wait()
	took := time.Since(began)
	sent, run := requests(t, srv)
	if granted.Load() != waiters {
		t.Errorf("%d of %d were granted", granted.Load(), waiters)
	}
	if each := float64(sent) / waiters; each > mostRequests {
		t.Errorf("%.2f requests for each hand-off, want at most %d", each, mostRequests)
	}
	if grown > 80<<10 && !raceDetector {
		t.Errorf("%d waiters take %d MB", waiters, grown>>10)
	}
	t.Logf("%d goroutines: all granted in %v, the last after %v; %d requests (%.3f for each hand-off), %d commands inside scripts; %d MB more (%.1f KB each)",
		waiters, took.Round(time.Millisecond), time.Duration(slowest.Load()).Round(time.Millisecond),
		sent, float64(sent)/waiters, run, grown>>10, float64(grown)/waiters)
}

// Twenty processes with 50 waiters each wait for one key. All are served.
func TestHerd_processes(t *testing.T) {
	const processes, each = 20, 50
	srv := testenv.Redis(t)
	holder := locker(t, openURL(t, srv.URL))
	held := persist(t, holder, "key")
	var helpers []*testenv.HelperProcess
	for range processes {
		helpers = append(helpers, testenv.Helper(t, "waiters", srv.URL, strconv.Itoa(each)))
	}
	for _, h := range helpers {
		if line := h.Line(); line != "waiting" {
			t.Fatalf("a process printed %q", line)
		}
	}
	eventually(t, "all processes wait", func() error {
		if n := len(queue(t, holder, "key")); n < processes {
			return fmt.Errorf("%d queue entries", n)
		}
		return nil
	})
	do(t, srv, "CONFIG", "RESETSTAT")
	began := time.Now()
	unlock(t, held)
	var granted, handOffs, most int
	for _, h := range helpers {
		var n, handed, kb int
		if _, err := fmt.Sscanf(h.Line(), "granted %d handed %d rss %d", &n, &handed, &kb); err != nil {
			t.Fatal(err)
		}
		granted += n
		handOffs += n - handed
		most = max(most, kb)
	}
	took := time.Since(began)
	sent, run := requests(t, srv)
	if granted != processes*each {
		t.Errorf("%d of %d were granted", granted, processes*each)
	}
	if per := float64(sent) / float64(handOffs); per > mostRequests {
		t.Errorf("%.2f requests for each hand-off between processes, want at most %d", per, mostRequests)
	}
	t.Logf("%d processes x %d: all granted in %v; %d hand-offs between processes, %.2f requests for each (%.3f for each grant), %d commands inside scripts; largest process %d MB",
		processes, each, took.Round(time.Millisecond), handOffs, float64(sent)/float64(handOffs),
		float64(sent)/float64(granted), run, most>>10)
}

// Two processes with many goroutines each lock one name at the same time. All are served, one by
// one.
func TestHerd(t *testing.T) {
	t.Parallel()
	const each = 250
	onLinks(t, []string{"replicated", "redlock", "postgres", "mariadb", "advisory", "etcd", "remote"}, func(t *testing.T, s *site) {
		rec := history.New()
		ctx, cancel := context.WithTimeout(t.Context(), 6*soon)
		defer cancel()
		var served, inside atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for i := range 2 {
			name := fmt.Sprint("process ", i)
			l := locker(t, s.store(t), distlock.TTL(longest))
			for range each {
				wg.Go(func() {
					var lease *distlock.Lease
					var h *history.Hold
					for lease == nil {
						h = rec.Acquire(history.Want{Client: name, Key: "key", TTL: longest})
						var err error
						lease, err = l.Lock(ctx, "key", distlock.Observe(func(_ context.Context, e distlock.Event) {
							if e.Type == distlock.EventWaiting {
								h.Waiting()
							}
						}))
						if err == nil {
							break
						}
						h.Ended(workload.Outcome(err))
						if !troubled(err) || ctx.Err() != nil { // a busy node may not answer in time
							t.Errorf("Lock: %v", err)
							return
						}
					}
					h.Granted(lease.Fence(), lease.Until())
					if inside.Add(1) != 1 && lease.Err() == nil {
						t.Error("two at once")
					}
					served.Add(1)
					inside.Add(-1)
					call := h.Release()
					call.End(workload.Outcome(lease.Unlock(context.Background())))
				})
			}
		}
		wg.Wait()
		t.Logf("%d served in %v", served.Load(), time.Since(began).Round(time.Millisecond))
		if v := history.Check(rec.History(), history.Rules{Tolerance: 500 * time.Millisecond,
			Min: history.Minimums{Grants: 2 * each, ContendedWaits: each}}); v.Err() != nil {
			t.Error(v.Err())
		}
	})
}

// playWaiters is a process with many goroutines that wait for the key and release it at once.
func playWaiters(args []string) int {
	ctx := context.Background()
	s, err := open.Open(ctx, args[0])
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return fail(err)
	}
	var waiting, granted, handed atomic.Int64
	l, err := distlock.New(s.Store, distlock.Observe(func(_ context.Context, e distlock.Event) {
		switch {
		case e.Type == distlock.EventWaiting:
			if waiting.Add(1) == int64(n) {
				fmt.Println("waiting")
			}
		case e.Type == distlock.EventGranted && e.Handed:
			handed.Add(1)
		}
	}))
	if err != nil {
		return fail(err)
	}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if lease, err := l.Lock(ctx, "key"); err != nil {
				fail(err)
			} else if err := lease.Unlock(ctx); err != nil {
				fail(err)
			} else {
				granted.Add(1)
			}
		})
	}
	wg.Wait()
	fmt.Printf("granted %d handed %d rss %d\n", granted.Load(), handed.Load(), rss(os.Getpid()))
	return 0
}

// queue returns the queue entries of a name in the store.
func queue(t testing.TB, l *distlock.Locker, name string) []distlock.Claim {
	t.Helper()
	why, err := l.Status(t.Context(), distlock.KindLock, name)
	if err != nil {
		t.Fatal(err)
	}
	return why.Waiters
}

// requests returns the number of commands that clients sent since the last reset, and the number of
// commands that the scripts ran.
func requests(t testing.TB, srv *testenv.RedisServer) (sent, run int) {
	t.Helper()
	for name, n := range calls(t, srv) {
		switch name {
		case "evalsha", "eval", "subscribe", "unsubscribe", "hello", "client|setinfo":
			sent += n
		case "config|resetstat", "info", "ping": // an idle client also pings every second
		default:
			run += n
		}
	}
	return sent, run
}

// calls returns the number of calls of each command since the start or the last reset.
func calls(t testing.TB, srv *testenv.RedisServer) map[string]int {
	t.Helper()
	text, _ := do(t, srv, "INFO", "commandstats").(string)
	all := map[string]int{}
	for in := bufio.NewScanner(strings.NewReader(text)); in.Scan(); {
		name, fields, ok := strings.Cut(strings.TrimPrefix(in.Text(), "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		count, _, _ := strings.Cut(fields, ",")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = n
	}
	return all
}

// rss returns the memory of a process in KB, or 0 if it is not known.
func rss(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for in := bufio.NewScanner(strings.NewReader(string(text))); in.Scan(); {
		if kb, ok := strings.CutPrefix(in.Text(), "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(kb)[0])
			return n
		}
	}
	return 0
}
