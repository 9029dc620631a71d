package redis_test

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
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

// longest is how many requests a hand-over may cost the store.
const longest = 6

// Ten thousand goroutines of one process wait for one key. They have one place in the store's line, and all of them get it.
func TestHerd_goroutines(t *testing.T) {
	const waiters = 10_000
	srv := testenv.Redis(t)
	holder, l := locker(t, open(t, srv.Addr)), locker(t, open(t, srv.Addr))
	held := lock(t, holder, "key")
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
			for was := slowest.Load(); took > was && !slowest.CompareAndSwap(was, took); was = slowest.Load() {
			}
		})
	}
	for began := time.Now(); waiting.Load() < waiters; time.Sleep(time.Millisecond) {
		if time.Since(began) > 3*soon {
			t.Fatalf("%d wait", waiting.Load())
		}
	}
	grown := rss(os.Getpid()) - base
	if n := len(line(t, l, "key")); n != 1 {
		t.Errorf("%d places in the store's line, want one for the process", n)
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
	if each := float64(sent) / waiters; each > longest {
		t.Errorf("%.2f requests for each hand-over, want %d at most", each, longest)
	}
	if grown > 80<<10 && !raceDetector {
		t.Errorf("%d waiters take %d MB", waiters, grown>>10)
	}
	t.Logf("%d goroutines: all granted in %v, the last after %v; %d requests (%.3f for each hand-over), %d commands inside scripts; %d MB more (%.1f KB each)",
		waiters, took.Round(time.Millisecond), time.Duration(slowest.Load()).Round(time.Millisecond), sent, float64(sent)/waiters, run, grown>>10, float64(grown)/waiters)
}

// Twenty processes with 50 waiters each, all on one key.
func TestHerd_processes(t *testing.T) {
	const processes, each = 20, 50
	srv := testenv.Redis(t)
	holder := locker(t, open(t, srv.Addr))
	held := lock(t, holder, "key")
	var crowd []*testenv.HelperProcess
	for range processes {
		crowd = append(crowd, testenv.Helper(t, "crowd", srv.Addr, strconv.Itoa(each)))
	}
	for _, h := range crowd {
		if line := h.Line(); line != "waiting" {
			t.Fatalf("a process says %q", line)
		}
	}
	for began := time.Now(); len(line(t, holder, "key")) < processes; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > soon {
			t.Fatalf("%d places in line", len(line(t, holder, "key")))
		}
	}
	do(t, srv, "CONFIG", "RESETSTAT")
	began := time.Now()
	unlock(t, held)
	var granted, turns, most int
	for _, h := range crowd {
		var n, handed, kb int
		if _, err := fmt.Sscanf(h.Line(), "granted %d handed %d rss %d", &n, &handed, &kb); err != nil {
			t.Fatal(err)
		}
		granted += n
		turns += n - handed
		most = max(most, kb)
	}
	took := time.Since(began)
	sent, run := requests(t, srv)
	if granted != processes*each {
		t.Errorf("%d of %d were granted", granted, processes*each)
	}
	if per := float64(sent) / float64(turns); per > longest {
		t.Errorf("%.2f requests for each hand-over between processes, want %d at most", per, longest)
	}
	t.Logf("%d processes x %d: all granted in %v; %d hand-overs between processes, %.2f requests for each (%.3f for each grant), %d commands inside scripts; largest process %d MB",
		processes, each, took.Round(time.Millisecond), turns, float64(sent)/float64(turns), float64(sent)/float64(granted), run, most>>10)
}

// playCrowd waits for the key many times at once, and gives it back as soon as it has it.
func playCrowd(args []string) int {
	ctx := context.Background()
	s, err := rueidisstore.Open(ctx, testenv.URL("redis", args[0]))
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return fail(err)
	}
	var waiting, granted, handed atomic.Int64
	l, err := distlock.New(s, distlock.Observe(func(_ context.Context, e distlock.Event) {
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

// line returns who waits in the store for a name.
func line(t testing.TB, l *distlock.Locker, name string) []distlock.Claim {
	t.Helper()
	why, err := l.Why(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return why.Waiters
}

// requests returns how many commands clients sent since the last reset, and how many the scripts ran.
func requests(t testing.TB, srv *testenv.RedisServer) (sent, run int) {
	t.Helper()
	for name, n := range calls(t, srv) {
		switch name {
		case "evalsha", "eval", "subscribe", "unsubscribe", "hello", "client|setinfo":
			sent += n
		case "config|resetstat", "info", "ping": // a client pings by itself every second, however little happens
		default:
			run += n
		}
	}
	return sent, run
}

// calls returns how often the server ran each command since its start or the last reset.
func calls(t testing.TB, srv *testenv.RedisServer) map[string]int {
	t.Helper()
	text, _ := do(t, srv, "INFO", "commandstats").(string)
	all := map[string]int{}
	for in := bufio.NewScanner(strings.NewReader(text)); in.Scan(); {
		name, rest, ok := strings.Cut(strings.TrimPrefix(in.Text(), "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		count, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = n
	}
	return all
}

// rss is the memory of a process in KB, where it can be seen.
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
