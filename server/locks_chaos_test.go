package server_test

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/internal/message"
)

// faulty is the way to two servers on one store. Requests come late or twice, answers come up to
// 20 s late or never, and each call goes to one of the servers.
type faulty struct {
	mu      sync.Mutex
	random  *rand.Rand
	servers []http.RoundTripper
	running *sync.WaitGroup
}

func (f *faulty) n(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

// upTo returns a random duration. Most are short.
func (f *faulty) upTo(d time.Duration) time.Duration {
	if f.n(4) > 0 {
		d /= 1000
	}
	return time.Duration(f.n(int(d)))
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	send := func(ctx context.Context) (*http.Response, error) {
		again := r.Clone(ctx)
		again.Body = io.NopCloser(bytes.NewReader(body))
		return f.servers[f.n(len(f.servers))].RoundTrip(again)
	}
	if f.n(5) == 0 { // a proxy delivers it again, when its caller may be gone
		f.running.Go(func() {
			time.Sleep(f.upTo(40 * time.Second))
			if answer, err := send(context.Background()); err == nil {
				_ = answer.Body.Close()
			}
		})
	}
	// A server sees late, or never, that its caller has gone.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	f.running.Go(func() {
		select {
		case <-r.Context().Done():
			time.Sleep(f.upTo(30 * time.Second))
			cancel()
		case <-ctx.Done():
		}
	})
	type result struct {
		answer *http.Response
		err    error
	}
	done := make(chan result, 1)
	f.running.Go(func() {
		defer cancel()
		time.Sleep(f.upTo(10 * time.Second))
		answer, err := send(ctx) //nolint:bodyclose // the client closes it
		time.Sleep(f.upTo(20 * time.Second))
		if f.n(8) == 0 {
			err = errors.New("the connection was lost")
		}
		done <- result{answer, err}
	})
	select {
	case res := <-done:
		return res.answer, res.err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// A holder is what all clients of the test agree on: who is at work under the lock.
type holder struct {
	t      *testing.T
	mu     sync.Mutex
	busy   bool
	fence  uint64
	grants int
}

// work is at work until a time, if that has not passed.
func (h *holder) work(fence uint64, until time.Time) {
	if time.Until(until) <= 0 {
		return
	}
	h.mu.Lock()
	if h.busy || fence <= h.fence {
		h.t.Errorf("two holders: fence %d after %d", fence, h.fence)
	}
	h.busy, h.fence = true, fence
	h.grants++
	h.mu.Unlock()
	time.Sleep(time.Until(until))
	h.mu.Lock()
	h.busy = false
	h.mu.Unlock()
}

// use acquires the lock one time as a client should, works under it, and releases it.
func use(ctx context.Context, c api.LocksClient, f *faulty, h *holder, owner string) {
	m := &api.LocksAcquireRequest{
		Name: "key", Owner: owner, Ttl: seconds(float64(2 + f.n(30))), Wait: seconds(float64(f.n(40))),
	}
	defer func() { // whatever happened: the outcome may be unknown
		call, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, _ = c.Release(call, &api.LocksReleaseRequest{Name: "key", Owner: owner})
	}()
	for range 5 {
		sent := time.Now()
		call, cancel := context.WithTimeout(ctx, time.Duration(3+f.n(35))*time.Second)
		out, err := c.Acquire(call, m)
		cancel()
		switch {
		case err != nil && message.ReasonOf(err) != nil && message.ReasonOf(err).GetKind() != api.Reason_KIND_UNKNOWN:
			h.t.Error(err)
			return
		case err != nil, out.GetAgain():
			continue // with the same owner
		case !out.GetGranted():
			return
		}
		until := sent.Add(out.GetWaited().AsDuration() + out.GetValidFor().AsDuration())
		if most := time.Now().Add(time.Duration(f.n(int(10 * time.Second)))); f.n(2) == 0 && most.Before(until) {
			until = most // it has finished before its trust ends
		}
		h.work(out.GetFence(), until)
		return
	}
}

// Clients that count their trust as the page says never work at the same time, whatever happens to
// their requests and answers.
func TestLocks_chaos(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 5
	}
	grants := 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			var running sync.WaitGroup
			f := &faulty{random: rand.New(rand.NewPCG(seed, 1)), running: &running}
			s := &answers{alter(), func() error { // its answers take up to 4 s
				time.Sleep(f.upTo(4 * time.Second))
				return nil
			}}
			for range 2 {
				_, _, d := people(t, s)
				f.servers = append(f.servers, d)
			}
			c := api.NewLocksClient(&http.Client{Transport: f}, "http://localhost")
			h, end := &holder{t: t}, time.Now().Add(10*time.Minute)
			var clients sync.WaitGroup
			for range 4 {
				clients.Go(func() {
					for time.Now().Before(end) {
						use(context.WithoutCancel(t.Context()), c, f, h, cryptorand.Text())
					}
				})
			}
			clients.Wait()
			running.Wait()
			grants += h.grants
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
	t.Logf("%d grants", grants)
	if grants < int(seeds)*20 {
		t.Errorf("%d grants of %d seeds: nothing was tested", grants, seeds)
	}
}
