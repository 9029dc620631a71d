package remote

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
)

// A fake is a server for a batcher: its answer to n is -n, and that to 0 an error.
type fake struct {
	batcher[int, int]
	mu    sync.Mutex
	took  time.Duration
	sent  [][]int // messages, in order
	ended int     // messages whose ctx ended first
}

var errZero = errors.New("zero")

func newFake(took time.Duration) *fake {
	f := &fake{took: took}
	f.one = func(ctx context.Context, n int) (int, error) {
		as, errs := f.answer(ctx, []int{n})
		return as[0], errs[0]
	}
	f.all, f.most, f.size = f.answer, 8, func(n int) int { return max(n, 1) }
	return f
}

func (f *fake) answer(ctx context.Context, ns []int) ([]int, []error) {
	f.mu.Lock()
	f.sent = append(f.sent, slices.Clone(ns))
	f.mu.Unlock()
	as, errs := make([]int, len(ns)), make([]error, len(ns))
	select {
	case <-time.After(f.took):
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ended++
		return as, slices.Repeat([]error{ctx.Err()}, len(ns))
	}
	for i, n := range ns {
		if as[i] = -n; n == 0 {
			errs[i] = errZero
		}
	}
	return as, errs
}

// messages returns what was sent, and how many messages ended with their ctx.
func (f *fake) messages() (sent [][]int, ended int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sent), f.ended
}

// start makes calls in this order, without waiting for their ends.
func (f *fake) start(t *testing.T, ctx context.Context, ends *sync.WaitGroup, ns ...int) {
	for _, n := range ns {
		ends.Go(func() {
			a, err := f.do(ctx, n)
			if (ctx.Err() == nil) && (a != -n || errors.Is(err, errZero) != (n == 0) || n != 0 && err != nil) {
				t.Errorf("%d: %d, %v", n, a, err)
			}
		})
		synctest.Wait()
	}
}

// Few calls are sent one by one, and those that come while they are under way are sent together.
// Each gets its own answer.
func TestBatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Millisecond)
		var ends sync.WaitGroup
		f.start(t, t.Context(), &ends, 1, 2, 3, 4, 5, 6, 0, 7)
		if sent, _ := f.messages(); len(sent) != minTrips {
			t.Errorf("sent at once: %v", sent)
		}
		ends.Wait()
		f.start(t, t.Context(), &ends, 8)
		ends.Wait()
		sent, _ := f.messages()
		if want := [][]int{{1}, {2}, {3}, {4}, {5, 6, 0, 7}, {8}}; !slices.EqualFunc(sent, want, slices.Equal) {
			t.Errorf("sent %v, want %v", sent, want)
		}
		f.flying.Wait()
	})
}

// A message has at most so many calls, and so many bytes; a call that is larger goes alone.
func TestBatcher_sizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Millisecond)
		var ends sync.WaitGroup
		f.start(t, t.Context(), &ends, 1, 1, 1, 1, maxBytes+1, maxBytes/2, maxBytes/2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2)
		ends.Wait()
		want := [][]int{{2, 2}, {2, 2, 2, 2, 2, 2, 2, 2}, {maxBytes / 2, maxBytes / 2}, {maxBytes + 1}}
		sent, _ := f.messages()
		got := sent[minTrips:]
		slices.SortFunc(got, slices.Compare) // they were sent at one time
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("sent %v, want %v", got, want)
		}
		f.flying.Wait()
	})
}

// Slow calls hold no other one back for long. A distant server gets more messages at the same time.
func TestBatcher_slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Second)
		var ends sync.WaitGroup
		began := time.Now()
		f.start(t, t.Context(), &ends, 1, 2, 3, 4, 5, 6)
		time.Sleep(maxHeld)
		synctest.Wait()
		before, _ := f.messages()
		if len(before) != minTrips+1 || time.Since(began) != maxHeld {
			t.Errorf("after %v: sent %v", time.Since(began), before)
		}
		ends.Wait()
		f.start(t, t.Context(), &ends, make([]int, maxTrips+1)...)
		if sent, _ := f.messages(); len(sent)-len(before) != maxTrips {
			t.Errorf("%d messages under way, want %d", len(sent)-len(before), maxTrips)
		}
		ends.Wait()
		f.flying.Wait()
	})
}

// A call that is held back is not sent if its caller leaves. One that was sent with others goes on
// for them, and ends if all have left. A release waits for an attempt that it undoes, and for no
// other.
func TestBatcher_leave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(4 * time.Millisecond)
		var ends sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		f.start(t, t.Context(), &ends, 1, 2, 3, 4)
		f.start(t, ctx, &ends, 5)
		cancel()
		ctx, cancel = context.WithCancel(t.Context())
		f.start(t, ctx, &ends, 6)
		f.start(t, t.Context(), &ends, 7)
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		if sent, _ := f.messages(); len(sent) != minTrips+1 || !slices.Equal(sent[minTrips], []int{6, 7}) {
			t.Fatalf("sent %v", sent)
		}
		cancel()
		synctest.Wait()
		f.settle(t.Context(), func(n int) bool { return n == 7 })
		if took := time.Since(began); took != 5*time.Millisecond {
			t.Errorf("a release that undoes nothing waits until %v", took)
		}
		f.settle(t.Context(), func(n int) bool { return n == 6 })
		if took := time.Since(began); took != 8*time.Millisecond {
			t.Errorf("a release overtakes its attempt, after %v", took)
		}
		if _, ended := f.messages(); ended > 0 {
			t.Errorf("%d messages ended early", ended)
		}
		ends.Wait()
		f.flying.Wait()
		f = newFake(time.Hour)
		ctx, cancel = context.WithCancel(t.Context())
		f.start(t, ctx, &ends, 1, 2, 3, 4, 5, 6)
		time.Sleep(maxHeld)
		synctest.Wait()
		cancel()
		ends.Wait()
		f.flying.Wait()
		if _, ended := f.messages(); ended != minTrips+1 || len(f.left) > 0 {
			t.Errorf("%d messages ended with their callers; left: %d", ended, len(f.left))
		}
	})
}

// A release waits for a while, and not as long as an attempt without an answer may take.
func TestBatcher_settle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Hour)
		var ends sync.WaitGroup
		others, stop := context.WithCancel(t.Context())
		f.start(t, others, &ends, 1, 2, 3, 4)
		ctx, cancel := context.WithCancel(t.Context())
		f.start(t, ctx, &ends, 5)
		f.start(t, others, &ends, 6)
		time.Sleep(maxHeld)
		synctest.Wait()
		cancel()
		synctest.Wait()
		began := time.Now()
		f.settle(t.Context(), func(n int) bool { return n == 5 })
		if took := time.Since(began); took != settleLimit {
			t.Errorf("%v", took)
		}
		stop()
		ends.Wait()
		f.flying.Wait()
	})
}

// An answer that is missing, or of which a part is missing, leaves the outcome unknown.
func TestSplit(t *testing.T) {
	one := func(m *api.Attempted) (*api.AcquireResponse, *api.Reason) { return m.GetAnswer(), m.GetReason() }
	full := &api.Attempted{Answer: &api.AcquireResponse{}}
	refused := &api.Attempted{Reason: &api.Reason{Kind: api.Reason_KIND_DENIED}}
	_, errs := split(3, []*api.Attempted{full, refused, {}}, nil, one)
	if errs[0] != nil || !errors.Is(errs[1], ErrDenied) || errs[2] == nil || errors.Is(errs[2], ErrDenied) {
		t.Errorf("got %v", errs)
	}
	for _, ms := range [][]*api.Attempted{nil, {full}, {full, full, full}} {
		if as, errs := split(2, ms, nil, one); errs[0] == nil || errs[1] == nil || as[0] != nil {
			t.Errorf("%d answers to 2 calls: %v, %v", len(ms), as, errs)
		}
	}
}
