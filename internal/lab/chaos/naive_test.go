package chaos_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/store/mem"
)

const (
	ttl      = 2 * time.Second
	margin   = 200 * time.Millisecond
	queueTTL = time.Second
	poll     = 300 * time.Millisecond
	patience = 20 * time.Second
)

// A bug is a mistake of a naive client.
type bug string

const (
	none             bug = ""
	trustFromReply   bug = "trust is counted from the reply"
	staleBreak       bug = "a late release goes by the key"
	unknownIsGranted bug = "an unanswered acquire counts as a grant"
	unknownIsRenewed bug = "an unanswered renewal counts as one"
	noLoss           bug = "a loss is not reported"
	noPoll           bug = "a waiter retries only after a wake-up"
	notHeldIsUntyped bug = "a release that was too late is some error"
)

// A naive client locks with the bare contract of package driver, over its own link.
type naive struct {
	name    string
	kind    string // mutex, rw, slots
	bug     bug
	link    driver.Store
	rec     *history.Recorder
	reg     *history.Register
	rng     *rand.Rand
	tenures int
}

// run lets clients lock for a while over links with faults, and then for a while over links without
// faults, and returns their history. Each call meets a fault by chance.
func run(t *testing.T, seed uint64, kind string, b bug, chance map[chaos.Kind]float64) *history.History {
	t.Helper()
	var out *history.History
	synctest.Test(t, func(t *testing.T) {
		store, rec, reg := mem.New(), history.New(), &history.Register{Name: "r"}
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 5 {
			name := fmt.Sprintf("c%d", i)
			link := chaos.New(store, &chaos.Options{
				Name: name,
				Plan: chaos.Plan{
					Seed: seed, Chance: chance, Delay: 3 * time.Second,
					Latency: 5 * time.Millisecond, Calm: 40 * time.Second,
				},
				Observe: func(f chaos.Fault) { rec.Fault(f.Client, f.Kind.String(), f.From, f.To) },
			})
			defer link.Close()
			n := &naive{
				name: name, kind: kind, bug: b, link: link, rec: rec, reg: reg,
				rng: rand.New(rand.NewPCG(seed, uint64(i))),
			}
			wg.Go(func() {
				for time.Since(began) < time.Minute {
					n.once()
				}
			})
		}
		wg.Wait()
		time.Sleep(2 * ttl)
		out = rec.History()
	})
	return out
}

func (n *naive) random(d time.Duration) time.Duration { return time.Duration(n.rng.Int64N(int64(d))) }

// once runs one tenure: acquire, work, release.
func (n *naive) once() {
	time.Sleep(n.random(200 * time.Millisecond))
	n.tenures++
	r := driver.Request{
		ID:     driver.ID{Key: "k", Owner: fmt.Sprintf("%s-%d", n.name, n.tenures)},
		Weight: driver.Whole, Limit: driver.Whole, TTL: ttl, QueueTTL: queueTTL,
	}
	switch {
	case n.kind == "slots":
		r.Weight, r.Limit = 1, 2
	case n.kind == "rw" && n.rng.IntN(3) > 0:
		r.Weight = 1
	}
	h := n.rec.Acquire(history.Want{Client: n.name, Key: r.Key, Weight: r.Weight, Limit: r.Limit, TTL: ttl})
	if until, ok := n.acquire(h, r); ok {
		n.hold(h, r, until)
	}
}

// acquire retries until it is granted the claim. When its patience ends, it withdraws.
func (n *naive) acquire(h *history.Hold, r driver.Request) (until time.Time, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	wake := driver.Watch(ctx, n.link, r.ID)
	for ctx.Err() == nil {
		began := time.Now()
		res, err := n.try(ctx, r)
		if n.bug == trustFromReply {
			began = time.Now()
		}
		until := began.Add(ttl - margin)
		known := err == nil || errors.Is(err, driver.ErrUnavailable)
		if n.bug == unknownIsGranted && !known {
			res.Granted, res.Fence = true, 1
		}
		if res.Granted && time.Now().Before(until) {
			h.Granted(res.Fence, until)
			return until, true
		}
		wait := poll
		if res.Retry > 0 { // a claim that blocks the request may end sooner
			wait = min(wait, res.Retry)
		}
		pause := time.After(wait)
		switch {
		case res.Granted: // no trust in the grant is left: retry
			continue
		case !known: // retry as the same owner
		case err == nil:
			h.Waiting()
			if n.bug == noPoll {
				pause = nil
			}
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-pause:
		}
	}
	if n.release(nil, r.ID) {
		h.Ended(history.Refused)
	} else {
		h.Ended(history.Unknown)
	}
	return until, false
}

func (n *naive) try(ctx context.Context, r driver.Request) (driver.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, ttl)
	defer cancel()
	return n.link.Acquire(ctx, r)
}

// hold works and renews until the work is done or trust ends.
func (n *naive) hold(h *history.Hold, r driver.Request, until time.Time) {
	lost, lose := context.WithCancel(context.Background())
	defer lose()
	timer := time.AfterFunc(time.Until(until), func() {
		if n.bug != noLoss {
			h.Lost()
		}
		lose()
	})
	defer timer.Stop()

	if r.Weight == r.Limit {
		h.Update(n.reg, func() { time.Sleep(n.random(10 * time.Millisecond)) })
	}
	done := time.Now().Add(n.random(ttl))
	if n.bug == unknownIsRenewed { // the bug shows only after several renewals in a row
		done = done.Add(3 * ttl)
	} else if n.rng.IntN(4) == 0 { // it does not renew, and works as long as it may
		<-lost.Done()
	}
	for time.Now().Before(done) && lost.Err() == nil {
		sleep(lost, min(ttl/3, time.Until(done)))
		until = n.renew(lost, h, r.ID, until, timer)
	}
	if r.Weight == r.Limit {
		h.Update(n.reg, func() { time.Sleep(n.random(10 * time.Millisecond)) })
	}
	if n.bug == staleBreak && lost.Err() != nil {
		driver.Break(context.Background(), n.link, r.Key, 0, "a bug")
		return
	}
	n.release(h, r.ID)
}

// renew extends the claim and returns the new end of trust.
func (n *naive) renew(lost context.Context, h *history.Hold, id driver.ID, until time.Time, timer *time.Timer) time.Time {
	if lost.Err() != nil {
		return until
	}
	ctx, cancel := context.WithTimeout(lost, ttl/4)
	defer cancel()
	call, began := h.Renew(), time.Now()
	_, err := n.link.Renew(ctx, driver.Renewal{ID: id, TTL: ttl})
	if n.bug == trustFromReply {
		began = time.Now()
	}
	outcome := history.Answer(err)
	good := outcome == history.Done || n.bug == unknownIsRenewed && outcome == history.Unknown
	if !good || !time.Now().Before(until) {
		call.End(outcome)
		return until
	}
	until = began.Add(ttl - margin)
	timer.Reset(time.Until(until))
	call.Extended(until)
	return until
}

// release releases a claim or a queue entry, and reports whether it certainly succeeded. Nothing is
// recorded if h is nil.
func (n *naive) release(h *history.Hold, id driver.ID) bool {
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), ttl/2)
		var call *history.Call
		if h != nil {
			call = h.Release()
		}
		outcome := history.Answer(n.link.Release(ctx, id))
		cancel()
		if n.bug == notHeldIsUntyped && outcome == history.NotHeld {
			outcome = history.Untyped
		}
		if call != nil {
			call.End(outcome)
		}
		if outcome == history.Done || outcome == history.NotHeld {
			return true
		}
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// naiveRules are the rules that a correct naive client keeps. It retries every poll, a waiter in
// front of it may have left its queue entry behind, and a call may take a TTL to fail.
var naiveRules = history.Rules{
	Stuck:    patience + 5*time.Second,
	HandOver: 2*queueTTL + poll,
	Takeover: margin + 2*queueTTL + poll,
	Heal:     ttl + 2*queueTTL + poll,
	Min:      history.Minimums{Grants: 20, ContendedWaits: 10, FaultsOverHold: 1},
}

var seeds = flag.Uint64("seeds", 40, "how many histories of each kind TestNaive checks")

func TestNaive(t *testing.T) {
	for _, kind := range []string{"mutex", "rw", "slots"} {
		t.Run(kind, func(t *testing.T) {
			var total history.Verdict
			for seed := range *seeds {
				v, err := history.Verify(run(t, seed, kind, none, all(0.03)), naiveRules, history.Search{Timeout: time.Minute})
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				total.Grants += v.Grants
				total.Waits += v.Waits
				total.FaultsOverHold += v.FaultsOverHold
				total.Unknown += v.Unknown
			}
			t.Logf("%d grants, %d waits, %d faults over a hold, %d unknown outcomes",
				total.Grants, total.Waits, total.FaultsOverHold, total.Unknown)
		})
	}
}

func TestNaive_bugs_are_flagged(t *testing.T) {
	slow := map[chaos.Kind]float64{chaos.ReplyLate: 0.4}
	deaf := map[chaos.Kind]float64{chaos.RequestLost: 0.5}
	search := history.Search{Timeout: 2 * time.Second} // the model may take long for a broken history
	for _, c := range []struct {
		bug    bug
		kind   string
		chance map[chaos.Kind]float64
		want   []history.Invariant // each in some run
	}{
		{trustFromReply, "mutex", slow, []history.Invariant{history.I3, history.Model}},
		{staleBreak, "mutex", all(0.06), []history.Invariant{history.I3, history.I9, history.Model}},
		{staleBreak, "slots", all(0.06), []history.Invariant{history.I3, history.I9, history.Model}},
		{unknownIsGranted, "mutex", all(0.06), []history.Invariant{history.I2, history.I3, history.Model}},
		{unknownIsGranted, "rw", all(0.06), []history.Invariant{history.I2, history.I3, history.Model}},
		{unknownIsRenewed, "mutex", deaf, []history.Invariant{history.I3, history.Model}},
		{noLoss, "mutex", all(0.06), []history.Invariant{history.I4}},
		{noPoll, "mutex", all(0.06), []history.Invariant{history.I6}},
		{notHeldIsUntyped, "mutex", all(0.06), []history.Invariant{history.I10}},
	} {
		t.Run(c.kind+"/"+string(c.bug), func(t *testing.T) {
			found := map[history.Invariant]int{}
			for seed := range uint64(20) {
				v, _ := history.Verify(run(t, seed, c.kind, c.bug, c.chance), naiveRules, search)
				for i := range v.Count {
					found[i]++
				}
			}
			t.Logf("of 20 histories: %v", found)
			for _, i := range c.want {
				if found[i] == 0 {
					t.Errorf("not flagged by %s", i)
				}
			}
		})
	}
}
