package keeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sleeper returns the clock of a machine whose total time asleep is asleep, and whose time of day
// moves with every sleep.
func sleeper(asleep func() time.Duration) *Clock {
	c := NewClock()
	c.asleep = asleep
	c.first = c.read()
	c.moved = func(time.Time) time.Duration { return asleep() - c.first }
	return c
}

func TestClock_reads_zero_and_counts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		if c.Now() != 0 || c.Awake() != 0 {
			t.Errorf("a new clock reads %v and %v", c.Now(), c.Awake())
		}
		time.Sleep(time.Hour)
		if c.Now() != time.Hour || c.Awake() != time.Hour {
			t.Errorf("after an hour it reads %v and %v", c.Now(), c.Awake())
		}
	})
}

func TestClock_counts_the_time_asleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slept := 20 * time.Hour // before the clock was made
		c := sleeper(func() time.Duration { return slept })
		if c.Now() != 0 {
			t.Errorf("a new clock reads %v", c.Now())
		}
		time.Sleep(time.Second)
		slept += time.Hour
		if c.Now() != time.Hour+time.Second || c.Awake() != time.Second {
			t.Errorf("asleep for an hour, it reads %v and %v", c.Now(), c.Awake())
		}
		slept += time.Minute
		if c.Now() != time.Hour+time.Minute+time.Second {
			t.Errorf("asleep again, it reads %v", c.Now())
		}
	})
}

func TestClock_believes_no_sleep_below_the_grain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slept := time.Duration(0)
		c := sleeper(func() time.Duration { return slept })
		slept = grain
		if c.Now() != 0 {
			t.Errorf("it reads %v", c.Now())
		}
		// Short sleeps add up: the part that is not counted stays below every margin.
		for range 1000 {
			slept += rand.N(grain)
			if miss := slept - c.Now(); miss < 0 || miss > grain+grain/2 || miss >= Margin(100*time.Millisecond) {
				t.Fatalf("asleep for %v, it reads %v", slept, c.Now())
			}
		}
	})
}

// A thread that is stopped between the two readings makes one reading too long, but not all.
func TestClock_does_not_believe_one_reading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := sleeper(func() time.Duration {
			if n++; n%5 != 0 {
				return time.Minute
			}
			return 0
		})
		c.first = 0
		c.moved = func(time.Time) time.Duration { return time.Duration(n) * time.Second }
		for range 100 {
			if c.Now() != 0 {
				t.Fatalf("after %d readings it reads %v", n, c.Now())
			}
		}
	})
}

func TestClock_never_goes_back(t *testing.T) {
	slept := time.Duration(0)
	c := sleeper(func() time.Duration { return slept - rand.N(time.Second) })
	last := c.Now()
	for range 10_000 {
		slept += rand.N(100 * time.Millisecond)
		now := c.Now()
		if now < last {
			t.Fatalf("%v after %v", now, last)
		}
		last = now
	}
}

// A system that does not return its clocks counts as one that never sleeps.
func TestClock_without_the_time_asleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := sleeper(func() time.Duration { return -time.Since(start) }) // one of the two reads zero
		time.Sleep(time.Hour)
		if c.Now() != time.Hour {
			t.Errorf("after an hour it reads %v", c.Now())
		}
	})
}

func TestClock_ignores_a_time_of_day_that_is_set(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var moved, slept time.Duration
		c := sleeper(func() time.Duration { return slept })
		c.moved = func(time.Time) time.Duration { return moved }
		for _, moved = range []time.Duration{time.Hour, -time.Hour, 0} {
			if c.Now() != 0 {
				t.Errorf("set by %v, it reads %v", moved, c.Now())
			}
		}
		moved, slept = -2*time.Hour, time.Minute // set back, and then asleep
		if c.Now() != time.Minute {
			t.Errorf("it reads %v", c.Now())
		}
	})
}

// The clock does not read the time asleep while the machine is awake.
func TestClock_time_of_day(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		reads := 0
		c.asleep = func() time.Duration { reads++; return 0 }
		for range 100 {
			time.Sleep(time.Hour)
			c.Now()
		}
		if reads != 0 {
			t.Errorf("the time asleep was read %d times", reads)
		}
		c.moved = func(time.Time) time.Duration { return time.Hour } // set once
		for range 100 {
			c.Now()
		}
		if reads == 0 || reads > 10 {
			t.Errorf("the time asleep was read %d times after the time of day was set", reads)
		}
	})
}

func TestClock_of_this_machine(t *testing.T) {
	start := time.Now()
	c := NewClock()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				now, awake := c.Now(), c.Awake()
				if now < 0 || awake < 0 || now > time.Since(start)+time.Since(start)/10+time.Second {
					t.Errorf("it reads %v and %v, %v after it was made", now, awake, time.Since(start))
					return
				}
			}
		})
	}
	wg.Wait()
}

// suspendable returns a harness whose machine can be suspended.
func suspendable(t *testing.T, a answer) (*harness, func(time.Duration)) {
	var mu sync.Mutex
	var slept time.Duration
	clock := sleeper(func() time.Duration { mu.Lock(); defer mu.Unlock(); return slept })
	return newHarness(t, clock, a), func(d time.Duration) { mu.Lock(); defer mu.Unlock(); slept += d }
}

func TestHold_suspended_sees_the_loss_in_its_first_look(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, suspend := suspendable(t, fine)
		defer s.Close()
		h, w := s.keep(Terms{TTL: ttl})
		s.at(time.Second)
		suspend(trust - time.Second - 1)
		if !h.Trusted(0) || h.Lose() {
			t.Error("lost before its trust had ended")
		}
		suspend(grain + 1)
		if h.Trusted(0) {
			t.Error("trusted after the machine slept for longer than that")
		}
		if !h.Lose() {
			t.Error("not lost")
		}
		if _, cause := w.end(t); !errors.Is(cause, ErrExpired) {
			t.Error(cause)
		}
	})
}

func TestKeeper_notices_a_suspension_by_itself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, suspend := suspendable(t, fine)
		defer s.Close()
		_, w := s.keep(Terms{TTL: 24 * time.Hour})
		s.at(100 * time.Millisecond)
		suspend(25 * time.Hour)
		time.Sleep(checkEvery)
		synctest.Wait()
		if at, cause := w.end(t); !errors.Is(cause, ErrExpired) {
			t.Errorf("lost at %v by %v", at, cause)
		}
	})
}

func TestKeeper_renews_at_once_after_a_short_suspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, suspend := suspendable(t, fine)
		defer s.Close()
		h, _ := s.keep(Terms{TTL: ttl})
		s.at(time.Second)
		suspend(20 * time.Second)
		time.Sleep(checkEvery)
		synctest.Wait()
		if len(s.made()) != 1 || !h.Trusted(trust-checkEvery-1) {
			t.Errorf("%d renewals, %v left", len(s.made()), h.Left())
		}
	})
}

// The timer stood still while the machine was suspended. A hold that begins before the timer fires
// must not wait for it.
func TestKeeper_renews_what_begins_after_a_suspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, suspend := suspendable(t, fine)
		defer s.Close()
		s.keep(Terms{TTL: 24 * time.Hour})
		s.at(100 * time.Millisecond)
		suspend(time.Minute)
		h := s.Keep(id("b"), Terms{TTL: 300 * time.Millisecond}, s.now(), quiet{})
		s.at(s.now() + 350*time.Millisecond)
		if len(s.made()) == 0 || !h.Trusted(0) {
			t.Errorf("%d renewals, %v left", len(s.made()), h.Left())
		}
	})
}

// Trust has ended, and nothing has recorded the loss yet.
func TestHold_suspended_is_not_brought_back(t *testing.T) {
	for _, c := range []struct {
		name  string
		terms Terms
		back  func(*harness, *Hold)
	}{
		{"by nothing", Terms{TTL: ttl, Fixed: true}, func(*harness, *Hold) {}},
		{"by Again", Terms{TTL: ttl, Fixed: true}, func(s *harness, h *Hold) { h.Again(s.now()) }},
		{"by HandOff", Terms{TTL: ttl, MaxHold: trust}, func(_ *harness, h *Hold) { h.HandOff(time.Hour) }},
		{"by Extend", Terms{TTL: ttl, Fixed: true}, func(s *harness, h *Hold) { _ = h.Extend(s.Context(), time.Hour) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, suspend := suspendable(t, fine)
			defer s.Close()
			h, w := s.keep(c.terms)
			s.at(trust - 100*time.Millisecond)
			suspend(200 * time.Millisecond)
			if h.Trusted(0) {
				t.Errorf("%s: trusted for too long", c.name)
			}
			c.back(s, h)
			if h.Trusted(0) {
				t.Errorf("%s: a lost hold came back", c.name)
			}
			s.at(s.now() + checkEvery)
			w.end(t)
		})
	}
}

func TestHold_suspended_is_not_brought_back_by_a_good_answer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, suspend := suspendable(t, nil)
		defer s.Close()
		h, w := s.keep(Terms{TTL: ttl})
		s.answer = func(context.Context, int) error {
			time.Sleep(5 * time.Second)
			suspend(20 * time.Second) // the old trust ends in the sleep; the trust of the renewal would not
			if h.Trusted(0) {
				t.Error("trusted for too long")
			}
			return nil
		}
		s.at(17 * time.Second)
		if h.Trusted(0) {
			t.Error("a lost hold came back")
		}
		if _, cause := w.end(t); !errors.Is(cause, ErrExpired) {
			t.Errorf("lost by %v", cause)
		}
	})
}

// A renewal may succeed between the two readings that Lose compares.
func TestHold_Lose_looks_twice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, suspend := suspendable(t, silent)
		defer s.Close()
		h, w := s.keep(Terms{TTL: ttl})
		s.at(20 * time.Second)
		moved := s.clock.moved
		s.clock.moved = func(now time.Time) time.Duration {
			s.clock.moved = moved
			h.Again(s.now())
			suspend(10 * time.Second)
			return moved(now)
		}
		if h.Lose() || !h.Trusted(0) || len(w.all()) != 1 {
			t.Errorf("lost with %v left, listener got %v", h.Left(), w.summary())
		}
	})
}
