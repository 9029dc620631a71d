package keeper

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
)

// keepMany keeps n claims, all requested within d.
func (s *harness) keepMany(n int, d time.Duration, terms Terms, l Listener) []*Hold {
	s.Helper()
	holds := make([]*Hold, n)
	start := s.now()
	for i := range holds {
		if i%(n/50) == 0 {
			s.at(start + d*time.Duration(i)/time.Duration(n))
		}
		holds[i] = s.Keep(id(fmt.Sprint(terms.TTL, start, i)), terms, s.now(), l)
	}
	return holds
}

// sizes returns how many holds the calls renewed at most and on average.
func (s *harness) sizes() (most int, mean float64) {
	all, calls := 0, s.made()
	for _, c := range calls {
		all += len(c.rs)
		most = max(most, len(c.rs))
	}
	return most, float64(all) / float64(len(calls))
}

func TestKeeper_renews_many_in_one_round_trip(t *testing.T) {
	const n = 10_000
	for _, c := range []struct {
		ttl  time.Duration
		a    answer
		mean float64
	}{
		{30 * time.Second, fine, 400},
		{3 * time.Second, slow(100*time.Millisecond, nil), 350},
	} {
		inBubble(t, c.a, func(s *harness) {
			holds := s.keepMany(n, time.Second, Terms{TTL: c.ttl}, quiet{})
			s.at(3 * c.ttl)
			for i, h := range holds {
				if !h.Trusted(0) {
					s.Fatalf("hold %d was lost", i)
				}
			}
			most, mean := s.sizes()
			s.Logf("TTL %v: %d calls in 3 TTLs, %.0f holds each, at most %d", c.ttl, len(s.made()), mean, most)
			if most > 500 || mean < c.mean {
				s.Errorf("at most %d and on average %.0f, want at most 500 and at least %.0f", most, mean, c.mean)
			}
			last := map[string]time.Duration{}
			for _, call := range s.made() {
				for _, r := range call.rs {
					if before, ok := last[r.Key]; ok {
						between(s.T, "pause before a renewal", call.sent-before, c.ttl*3/10-c.ttl/12, c.ttl*11/30)
					}
					last[r.Key] = call.sent
				}
				if s.Failed() {
					break
				}
			}
		})
	}
}

func TestKeeper_tries_many_again_in_one_round_trip(t *testing.T) {
	inBubble(t, down, func(s *harness) {
		w := &recorder{clock: s.clock}
		holds := s.keepMany(2000, time.Second, Terms{TTL: ttl}, w)
		s.at(2 * ttl)
		for i, h := range holds {
			if h.Trusted(0) {
				s.Fatalf("hold %d is trusted", i)
			}
		}
		lost := 0
		for _, n := range w.all() {
			if n.lost != nil {
				lost++
			}
		}
		if _, mean := s.sizes(); lost != 2000 || mean < 300 {
			s.Errorf("%d losses, %.0f holds in a call", lost, mean)
		}
	})
}

func TestKeeper_does_not_mix_TTLs_far_apart(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		w := &recorder{clock: s.clock}
		for d := time.Second; d < 10*time.Minute; d += d / 3 {
			s.keepMany(50, 0, Terms{TTL: d}, w)
		}
		s.at(time.Minute)
		mixed := 0
		for _, c := range s.made() {
			least, most := c.rs[0].TTL, c.rs[0].TTL
			for _, r := range c.rs {
				least, most = min(least, r.TTL), max(most, r.TTL)
			}
			if c.limit != least/4 || most >= 2*least {
				s.Fatalf("a call for TTLs of %v to %v has a limit of %v", least, most, c.limit)
			}
			if most > least {
				mixed++
			}
		}
		if _, mean := s.sizes(); mean < 40 || mixed == 0 {
			s.Errorf("%.0f holds in a call, %d of %d calls are mixed", mean, mixed, len(s.made()))
		}
	})
}

func TestKeeper_gathers_nothing_that_is_under_way(t *testing.T) {
	inBubble(t, nil, func(s *harness) {
		until := make(chan struct{})
		defer close(until)
		s.answer = func(context.Context, int) error { <-until; return errDown }
		s.keep(Terms{TTL: 10 * time.Second}) // its renewal hangs; its trust ends at 9 s
		s.at(5 * time.Second)
		if s.underWay() != 1 {
			s.Fatal("no renewal is under way")
		}
		s.answer = fine
		b := s.Keep(id("b"), Terms{TTL: 24 * time.Second}, 0, &recorder{clock: s.clock}) // due at 7.2 s to 8.8 s
		s.at(8900 * time.Millisecond)
		if len(s.made()) != 2 || len(s.made()[1].rs) != 1 || !b.Trusted(0) {
			s.Errorf("calls %+v", s.made())
		}
	})
}

func TestKeeper_gathers_each_by_its_own_TTL(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		w := &recorder{clock: s.clock}
		s.keep(Terms{TTL: ttl})
		for i := range 100 { // each is due at once, and 2 h before that would have been early enough
			s.at(time.Duration(i) * time.Second)
			s.Keep(id(fmt.Sprint(i)), Terms{TTL: 24 * time.Hour}, s.now()-9*time.Hour, w)
		}
		last, n := time.Duration(0), 0
		for _, c := range s.made() {
			if slices.ContainsFunc(c.rs, func(r driver.Renewal) bool { return r.Key == "a" }) {
				if pause := c.sent - last; pause < 3*ttl/10-ttl/12 {
					s.Fatalf("renewed after %v: far too early for a TTL of %v", pause, ttl)
				}
				last, n = c.sent, n+1
			}
		}
		if n < 9 {
			s.Errorf("renewed %d times in 100 s", n)
		}
	})
}

// A hold that is due half a renewal interval later does not join the batch.
func TestKeeper_gathers_only_what_is_due_soon(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		s.keep(Terms{TTL: ttl})
		s.at(ttl / 6)
		s.Keep(id("b"), Terms{TTL: ttl}, s.now(), quiet{})
		s.at(ttl / 2)
		for _, c := range s.made() {
			if len(c.rs) != 1 {
				s.Errorf("renewed together at %v", c.sent)
			}
		}
	})
}

func TestKeeper_gathers_past_what_is_about_to_end(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		w := &recorder{clock: s.clock}
		s.keepMany(1000, 0, Terms{TTL: ttl}, w)
		for i := range 1000 { // one ends every 3 ms while the others fall due
			s.Keep(id(fmt.Sprint("fixed", i)), Terms{TTL: 9*time.Second + 3*time.Millisecond*time.Duration(i), Fixed: true}, 0, w)
		}
		s.at(ttl)
		if _, mean := s.sizes(); mean < 300 {
			s.Errorf("%.0f holds in a call", mean)
		}
	})
}

// A hold may end after its batch was made and before the batch is sent. It must not shorten the
// time limit of the other holds.
func TestKeeper_renews_together_with_a_provisional_one_that_ended(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		stays, ends := new(Hold), new(Hold)
		for i, h := range []*Hold{stays, ends} {
			s.KeepProvisional(h, id(fmt.Sprint(i)), Terms{TTL: ttl}, s.now(), 3*time.Second, quiet{})
		}
		s.mu.Lock()
		s.drop(stays)
		s.drop(ends)
		batches := s.batches([]*Hold{stays, ends}, s.now())
		s.mu.Unlock()
		want := stays.Left() / 3
		go func() { _ = ends.Stop(s.Context()) }()
		synctest.Wait()
		batches[0].run()
		if got := s.made(); len(got) != 1 || got[0].limit != want {
			s.Errorf("calls %+v, want a limit of %v", got, want)
		}
	})
}

// A provisional hold leaves its renewal little time. It must not take that time from holds that are
// renewed at the same moment: a slow store answers those in time.
func TestKeeper_renews_apart_from_provisional_ones(t *testing.T) {
	inBubble(t, slow(2*time.Second, nil), func(s *harness) {
		old, w := s.keep(Terms{TTL: ttl})
		for i := range 100 { // a contended key: each holder works for a second
			s.at(time.Duration(i) * time.Second)
			h := new(Hold)
			s.KeepProvisional(h, id(fmt.Sprint(i)), Terms{TTL: ttl}, s.now(), 3*time.Second, quiet{})
			go func() {
				time.Sleep(time.Second)
				_ = h.Stop(s.Context())
			}()
		}
		s.at(101 * time.Second)
		for _, r := range w.all() {
			if r.lost != nil || r.r.Err != nil {
				s.Errorf("after %v: lost %v, renewal %v", r.at, r.lost, r.r.Err)
			}
		}
		if err := old.Cause(); err != nil {
			s.Errorf("the hold has ended: %v", err)
		}
	})
}

// goroutines counts the goroutines of the program. runtime.NumGoroutine also counts one that the
// garbage collector may start meanwhile.
func goroutines() int {
	stacks := make([]byte, 4<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("\n\ngoroutine ")) + 1
}

func TestKeeper_has_no_goroutine_of_its_own(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		before := goroutines()
		holds := s.keepMany(10_000, time.Second, Terms{TTL: ttl}, quiet{})
		s.at(25 * time.Second)
		if after := goroutines(); after > before {
			s.Errorf("%d goroutines, %d before the first of %d holds", after, before, len(holds))
		}
	})
	inBubble(t, silent, func(s *harness) {
		before := goroutines()
		s.keepMany(10_000, time.Second, Terms{TTL: ttl}, quiet{})
		s.at(12 * time.Second) // all are being renewed
		if n, after := s.underWay(), goroutines()-before; n != 10_000 || after > 2*n/batchSize {
			s.Errorf("%d goroutines renew %d holds", after, n)
		}
	})
}

func TestKeeper_memory_of_a_hold(t *testing.T) {
	const n = 4000
	ids := make([]driver.ID, n)
	for i := range ids {
		ids[i] = id(fmt.Sprint(i))
	}
	synctest.Test(t, func(t *testing.T) {
		k := New(NewClock(), func(_ context.Context, rs []driver.Renewal) []driver.Renewed { return make([]driver.Renewed, len(rs)) })
		w := quiet{}
		used := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := used()
		holds := make([]*Hold, n)
		for i := range holds {
			holds[i] = k.Keep(ids[i], Terms{TTL: ttl}, k.clock.Now(), w)
		}
		time.Sleep(3 * ttl)
		synctest.Wait()
		each := (used() - before) / n
		t.Logf("%d bytes a hold", each)
		if each > 512 {
			t.Errorf("%d bytes a hold", each)
		}
		for _, h := range holds {
			_ = h.Stop(t.Context())
		}
		clear(holds)
		if left := used() - before; left > 100*n {
			t.Errorf("%d bytes are left of %d holds that were stopped", left, n)
		}
		k.Close()
		runtime.KeepAlive(holds)
	})
}

// quiet is a listener that ignores all calls.
type quiet struct{}

func (quiet) Renewed(Renewal) {}
func (quiet) Lost(error)      {}
