package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ttl is the TTL of most tests, and trust is ttl minus its margin.
const (
	ttl   = 30 * time.Second
	trust = 29 * time.Second
)

var errDown = errors.New("the store is down")

// An answer is the store's reaction to the n-th call, counted from 0.
type answer func(ctx context.Context, n int) error

func fine(context.Context, int) error { return nil }
func down(context.Context, int) error { return errDown }

// silent is a store that never answers.
func silent(ctx context.Context, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

// slow answers after d, unless it is cut short.
func slow(d time.Duration, err error) answer {
	return func(ctx context.Context, _ int) error {
		select {
		case <-time.After(d):
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// first gives the answers one after the other, and repeats the last.
func first(answers ...answer) answer {
	return func(ctx context.Context, n int) error {
		return answers[min(n, len(answers)-1)](ctx, n)
	}
}

// A call is one call of the store.
type call struct {
	sent, took time.Duration
	limit      time.Duration // how long it may take; 0: no limit
	rs         []driver.Renewal
}

// A harness is a keeper with a store whose answers the test chooses. It fails the test if a hold
// has two renewals under way.
type harness struct {
	*testing.T
	*Keeper
	answer answer

	lock     sync.Mutex
	calls    []call
	inFlight map[driver.ID]bool
}

// inBubble runs f in a synctest bubble and closes the keeper afterwards.
func inBubble(t *testing.T, a answer, f func(s *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, NewClock(), a)
		defer s.Close()
		f(s)
	})
}

func newHarness(t *testing.T, clock *Clock, a answer) *harness {
	s := &harness{T: t, answer: a, inFlight: map[driver.ID]bool{}}
	s.Keeper = New(clock, s.renewAll)
	return s
}

func (s *harness) renewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	c := call{sent: s.now(), rs: rs}
	if end, ok := ctx.Deadline(); ok {
		c.limit = time.Until(end)
	}
	s.lock.Lock()
	n := len(s.calls)
	s.calls = append(s.calls, c)
	for _, r := range rs {
		if s.inFlight[r.ID] {
			s.Errorf("%v: a second renewal of %s is under way", c.sent, r.Key)
		}
		s.inFlight[r.ID] = true
	}
	s.lock.Unlock()
	err := s.answer(ctx, n)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.calls[n].took = s.now() - c.sent
	out := make([]driver.Renewed, len(rs))
	for i, r := range rs {
		delete(s.inFlight, r.ID)
		out[i] = driver.Renewed{Behind: 7, Err: err}
	}
	return out
}

func (s *harness) now() time.Duration { return s.clock.Now() }

// at sleeps until the time is d, and lets the other goroutines finish their work of that instant.
func (s *harness) at(d time.Duration) {
	s.Helper()
	if d < s.now() {
		s.Fatalf("it is %v: too late for %v", s.now(), d)
	}
	time.Sleep(d - s.now())
	synctest.Wait()
}

// made returns the calls so far.
func (s *harness) made() []call {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.calls)
}

// sent returns when the calls so far were sent.
func (s *harness) sent() []time.Duration {
	s.lock.Lock()
	defer s.lock.Unlock()
	var out []time.Duration
	for _, c := range s.calls {
		out = append(out, c.sent)
	}
	return out
}

// underWay returns how many claims are being renewed.
func (s *harness) underWay() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return len(s.inFlight)
}

// keep keeps a claim that was requested just now.
func (s *harness) keep(terms Terms) (*Hold, *recorder) {
	s.Helper()
	w := &recorder{clock: s.clock}
	h := s.Keep(id("a"), terms, s.now(), w)
	if h == nil {
		s.Fatal("no trust to begin with")
	}
	return h, w
}

func id(key string) driver.ID { return driver.ID{Key: key, Owner: key + "'s owner"} }

// A recorder is a listener that records its calls, and calls do with each.
type recorder struct {
	clock *Clock

	mu      sync.Mutex
	records []record
	do      func(record)
}

// A record is one call of the listener: a renewal or a loss.
type record struct {
	at   time.Duration
	r    Renewal
	lost error
}

func (w *recorder) Renewed(r Renewal) {
	w.add(record{at: w.clock.Now(), r: r})
}

func (w *recorder) Lost(cause error) {
	w.add(record{at: w.clock.Now(), lost: cause})
}

func (w *recorder) add(n record) {
	w.mu.Lock()
	w.records = append(w.records, n)
	do := w.do
	w.mu.Unlock()
	if do != nil {
		do(n)
	}
}

// onCall sets the function that is called with each record from now on.
func (w *recorder) onCall(do func(record)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.do = do
}

func (w *recorder) all() []record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.records)
}

// summary returns the calls as words: "renewed", "at risk", "failed" again, "recovered", "lost".
func (w *recorder) summary() []string {
	var out []string
	for _, n := range w.all() {
		switch {
		case n.lost != nil:
			out = append(out, "lost")
		case n.r.Err != nil && !n.r.Risk:
			out = append(out, "at risk")
		case n.r.Err != nil:
			out = append(out, "failed")
		case n.r.Risk:
			out = append(out, "recovered")
		default:
			out = append(out, "renewed")
		}
	}
	return out
}

// end returns when the loss was reported, and its cause. It fails the test unless the loss was
// reported once, as the last call.
func (w *recorder) end(t *testing.T) (time.Duration, error) {
	t.Helper()
	all := w.all()
	for i, n := range all {
		if (n.lost != nil) != (i == len(all)-1) {
			t.Fatalf("listener got %v: want one loss, at the end", w.summary())
		}
	}
	if len(all) == 0 {
		t.Fatal("no loss was reported")
	}
	return all[len(all)-1].at, all[len(all)-1].lost
}

// between fails the test unless low <= d <= high.
func between(t *testing.T, what string, d, low, high time.Duration) {
	t.Helper()
	if d < low || d > high {
		t.Errorf("%s: %v, want %v to %v", what, d, low, high)
	}
}

func TestKeeper_renews_after_about_a_third(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 20 {
		inBubble(t, fine, func(s *harness) {
			h, w := s.keep(Terms{TTL: ttl})
			s.at(10 * ttl)
			last := time.Duration(0)
			for _, sent := range s.sent() {
				between(s.T, "pause before a renewal", sent-last, 3*ttl/10, 11*ttl/30)
				seen[sent-last] = true
				last = sent
			}
			if n := len(s.sent()); n < 27 || n > 34 {
				s.Errorf("%d renewals in ten TTLs", n)
			}
			if !h.Trusted(0) || slices.Contains(w.summary(), "lost") {
				s.Error("the hold is lost though every renewal succeeded")
			}
		})
	}
	if len(seen) < 500 {
		t.Errorf("%d different pauses in 600: renewals are not jittered", len(seen))
	}
}

func TestKeeper_requests_the_TTL_and_the_delay(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl, Delay: 7 * time.Second})
		between(s.T, "trust", h.Left(), trust, trust)
		s.at(ttl / 2)
		got := s.made()[0].rs
		if len(got) != 1 || got[0].TTL != ttl+7*time.Second || got[0].ID != id("a") || got[0].Keep || got[0].Value != nil {
			s.Errorf("sent %+v", got)
		}
		if r := w.all()[0].r; r.Behind != 7 || r.Err != nil || r.Took != 0 || r.Left != trust-s.sent()[0] {
			s.Errorf("listener got %+v", r)
		}
	})
}

func TestKeeper_tries_again_at_a_twentieth_while_there_is_trust(t *testing.T) {
	inBubble(t, down, func(s *harness) {
		_, w := s.keep(Terms{TTL: ttl})
		s.at(3 * ttl)
		sent := s.sent()
		between(s.T, "first try", sent[0], 3*ttl/10, 11*ttl/30)
		for i := 1; i < len(sent); i++ {
			between(s.T, "pause after a failure", sent[i]-sent[i-1], ttl*9/200, ttl*11/200)
		}
		between(s.T, "last try", sent[len(sent)-1], trust-ttl*11/200, trust)
		if len(sent) < 11 || len(sent) > 16 {
			s.Errorf("%d tries", len(sent))
		}
		got := w.summary()
		if got[0] != "at risk" || got[1] != "failed" || len(got) != len(sent)+1 {
			s.Errorf("listener got %v", got)
		}
		if at, cause := w.end(s.T); at != trust || !errors.Is(cause, ErrExpired) {
			s.Errorf("lost at %v by %v", at, cause)
		}
	})
}

func TestKeeper_limits_a_try_to_a_quarter(t *testing.T) {
	inBubble(t, silent, func(s *harness) {
		_, w := s.keep(Terms{TTL: ttl})
		s.at(2 * ttl)
		if len(s.made()) < 2 {
			s.Fatalf("%d tries", len(s.made()))
		}
		for _, c := range s.made() {
			if c.limit != ttl/4 {
				s.Errorf("the limit of a try is %v", c.limit)
			}
			between(s.T, "a try took", c.took, min(ttl/4, trust-c.sent), ttl/4)
		}
		between(s.T, "second try", s.sent()[1]-s.sent()[0], ttl/4+ttl*9/200, ttl/4+ttl*11/200)
		if at, _ := w.end(s.T); at != trust {
			s.Errorf("lost at %v", at)
		}
	})
}

func TestKeeper_reports_risk_recovery_and_loss_in_order(t *testing.T) {
	answers := first(down, down, fine, fine, down, fine, down, down, func(context.Context, int) error { return driver.ErrNotHeld })
	inBubble(t, answers, func(s *harness) {
		_, w := s.keep(Terms{TTL: ttl})
		s.at(3 * ttl)
		want := []string{"at risk", "failed", "recovered", "renewed", "at risk", "recovered", "at risk", "failed", "failed", "lost"}
		if got := w.summary(); !slices.Equal(got, want) {
			s.Errorf("listener got %v, want %v", got, want)
		}
		for _, n := range w.all() {
			if n.lost == nil && n.r.Left <= 0 {
				s.Errorf("%v left at %v", n.r.Left, n.at)
			}
		}
	})
}

func TestKeeper_loses_at_once_what_the_store_does_not_hold(t *testing.T) {
	broken := &driver.BrokenError{Reason: "maintenance"}
	for _, cause := range []error{driver.ErrNotHeld, broken, fmt.Errorf("node 3: %w", driver.ErrNotHeld)} {
		inBubble(t, func(context.Context, int) error { return cause }, func(s *harness) {
			h, w := s.keep(Terms{TTL: ttl})
			s.at(3 * ttl)
			at, got := w.end(s.T)
			if at != s.sent()[0] || !errors.Is(got, cause) || len(s.sent()) != 1 {
				s.Errorf("lost at %v by %v after %d tries", at, got, len(s.sent()))
			}
			var b *driver.BrokenError
			if errors.As(cause, &b) && (!errors.As(got, &b) || b.Reason != "maintenance") {
				s.Errorf("the reason is gone: %v", got)
			}
			if h.Trusted(0) || !h.Lose() || !errors.Is(h.Stop(s.Context()), cause) {
				s.Error("a lost hold is trusted, or its cause forgotten")
			}
		})
	}
}

func TestKeeper_Keep_too_late(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		s.at(trust)
		if s.Keep(id("a"), Terms{TTL: ttl}, 0, &recorder{clock: s.clock}) != nil {
			s.Error("kept without trust")
		}
		h := s.Keep(id("b"), Terms{TTL: ttl}, 1, &recorder{clock: s.clock})
		if h == nil || h.Left() != 1 {
			s.Error("not kept, with a nanosecond of trust")
		}
	})
}

func TestKeeper_Close(t *testing.T) {
	inBubble(t, silent, func(s *harness) {
		a, w := s.keep(Terms{TTL: ttl})
		s.at(11 * ttl / 30)
		if s.underWay() != 1 {
			s.Fatal("no renewal is under way")
		}
		b := s.Keep(id("b"), Terms{TTL: time.Minute}, s.now(), w)
		before := s.now()
		s.Close()
		if s.underWay() != 0 || s.now() != before {
			s.Error("a renewal is under way, or was waited for")
		}
		for _, h := range []*Hold{a, b} {
			if h.Trusted(0) || !errors.Is(h.Stop(s.Context()), ErrStopped) || !errors.Is(h.Extend(s.Context(), ttl), ErrStopped) {
				s.Error("a hold outlives its keeper")
			}
			h.Again(s.now())
			h.HandOff(time.Minute)
			if h.Trusted(0) {
				s.Error("a hold came back")
			}
		}
		if s.Keep(id("c"), Terms{TTL: ttl}, s.now(), w) != nil {
			s.Error("a closed keeper keeps")
		}
		s.Close()
		s.at(10 * ttl)
		if len(s.made()) != 1 || len(w.all()) != 0 || len(s.queue) != 0 {
			s.Errorf("after Close: %d calls, listener got %v, %d in the queue", len(s.made()), w.summary(), len(s.queue))
		}
	})
}

// Stop of a timer returns true only if the timer was running.
func TestKeeper_Close_leaves_no_timer(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		s.keep(Terms{TTL: ttl})
		s.Close()
		if s.timer.Stop() {
			s.Error("the timer was running")
		}
	})
}

func TestKeeper_sleeps_when_nothing_is_held(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, _ := s.keep(Terms{TTL: ttl})
		if err := h.Stop(s.Context()); err != nil {
			s.Fatal(err)
		}
		s.at(checkEvery + 1)
		if s.timer.Stop() {
			s.Error("the keeper looks at nothing")
		}
	})
}
