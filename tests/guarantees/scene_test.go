package guarantees_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/workload"
	"github.com/distlock/distlock/internal/testenv"
)

// A scene records the calls of the processes of a test on one key, for the history checker. While
// they hold the lock, the processes update a register that compares fences.
type scene struct {
	t   testing.TB
	key string
	rec *history.Recorder
	reg history.Register
}

func newScene(t testing.TB) *scene { return newSceneOf(t, "key") }

func newSceneOf(t testing.TB, key string) *scene {
	s := &scene{t: t, key: key, rec: history.New(), reg: history.Register{Name: key}}
	const least = 25 * time.Millisecond
	t.Cleanup(testenv.Stalls(least, func(from, to time.Time) {
		// Other goroutines may stop a little earlier and continue a little later.
		for _, client := range []string{"a", "b"} {
			s.rec.Fault(client, history.Pause, from.Add(-least), to.Add(least))
		}
	}))
	return s
}

// A grant is one lease in a scene.
type grant struct {
	*distlock.Lease
	hold     *history.Hold
	err      error
	at       time.Time     // when Lock returned
	repeated bool          // a call that had begun to wait returned an error, and was repeated
	ended    chan struct{} // closed when the end of the lease is recorded
}

// lock acquires the key. It repeats the call while the store is unavailable.
func (s *scene) lock(name string, l *distlock.Locker, opts ...distlock.Option) *grant {
	s.t.Helper()
	began := time.Now()
	for {
		p := s.try(name, l, opts...)
		if p.err == nil {
			return p
		}
		if !troubled(p.err) || time.Since(began) > soon {
			s.t.Fatalf("%s: Lock: %v", name, p.err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// try acquires the key, and waits for it for a limited time.
func (s *scene) try(name string, l *distlock.Locker, opts ...distlock.Option) *grant {
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*soon)
	defer cancel()
	return s.acquire(ctx, name, l, func() {}, opts...)
}

func (s *scene) acquire(
	ctx context.Context, name string, l *distlock.Locker, waits func(), opts ...distlock.Option,
) *grant {
	p := &grant{ended: make(chan struct{}),
		hold: s.rec.Acquire(history.Want{Client: name, Key: s.key, TTL: time.Hour})}
	var lease *distlock.Lease
	var mu sync.Mutex
	opts = append(opts, distlock.Observe(func(_ context.Context, e distlock.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case e.Type == distlock.EventWaiting:
			p.hold.Waiting()
			waits()
		case e.Type == distlock.EventRenewed && e.Err == nil && lease != nil && lease.Err() == nil:
			p.hold.Renew().Extended(lease.Until())
		}
	}))
	got, err := l.Lock(ctx, s.key, opts...)
	p.at = time.Now()
	if p.err = err; err != nil {
		p.hold.Ended(workload.Outcome(err))
		return p
	}
	mu.Lock()
	lease = got
	mu.Unlock()
	p.Lease = got
	p.hold.Granted(got.Fence(), got.Until())
	if got.Err() == nil {
		p.hold.Update(&s.reg, nil)
	}
	go func() {
		<-got.Done() // also after a release; the checker ignores it then
		p.hold.Lost()
		close(p.ended)
	}()
	return p
}

// wait acquires the key in the background. It returns when the call waits.
func (s *scene) wait(name string, l *distlock.Locker, opts ...distlock.Option) <-chan *grant {
	out, waiting := make(chan *grant, 1), make(chan struct{})
	once := sync.OnceFunc(func() { close(waiting) })
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*soon)
		defer cancel()
		p, waited := s.acquire(ctx, name, l, once, opts...), false
		for troubled(p.err) && ctx.Err() == nil { // a busy server may not answer in time
			select {
			case <-waiting:
				waited = true
			default:
			}
			p = s.acquire(ctx, name, l, once, opts...)
		}
		p.repeated = waited
		out <- p
		once()
	}()
	<-waiting
	return out
}

// granted returns the grant of a call that wait started.
func (s *scene) granted(c <-chan *grant, within time.Duration) *grant {
	s.t.Helper()
	select {
	case p := <-c:
		if p.err != nil {
			s.t.Fatalf("Lock: %v", p.err)
		}
		return p
	case <-time.After(within):
		s.t.Fatalf("not granted within %v", within)
	}
	return nil
}

// patient returns the grant of a call that wait started, and that no fault interrupted.
func (s *scene) patient(c <-chan *grant, within time.Duration) *grant {
	s.t.Helper()
	p := s.granted(c, within)
	if p.repeated {
		s.t.Error("the waiting call returned an error, and was repeated")
	}
	return p
}

// refused checks that a waiting call is not granted for some time.
func (s *scene) refused(c <-chan *grant, during time.Duration) {
	s.t.Helper()
	select {
	case p := <-c:
		s.t.Errorf("granted, error %v; want a call that waits", p.err)
	case <-time.After(during):
	}
}

// trusts checks a lease as its holder would, and records the result.
func (p *grant) trusts() bool {
	if p.Err() != nil {
		return false
	}
	p.hold.Trusted()
	return true
}

// lost waits until a lease is lost.
func (s *scene) lost(p *grant, within time.Duration) {
	s.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(within):
		s.t.Errorf("not notified of the loss within %v", within)
	}
}

// release releases a lease. It repeats an unanswered call.
func (s *scene) release(p *grant) {
	call := p.hold.Release()
	call.End(workload.Outcome(end(context.WithoutCancel(s.t.Context()), p.Lease)))
}

// verdict checks the history so far.
func (s *scene) verdict() *history.Verdict {
	return history.Check(s.rec.History(),
		history.Rules{Tolerance: 500 * time.Millisecond, Min: history.Minimums{Grants: 2}})
}

// oneHolder checks that the history has no violation: one holder at a time, notified in time, and
// rising fences.
func (s *scene) oneHolder() {
	s.t.Helper()
	v := s.verdict()
	if err := v.Err(); err != nil {
		s.t.Error(err)
	}
}

// twoHolders checks that the history shows two holders at the same time: the first still trusts its
// lease. Fences still rise, so a register that compares them refuses the write of the first holder.
func (s *scene) twoHolders(first *grant) {
	s.t.Helper()
	if !first.trusts() {
		s.t.Errorf("the first holder was already notified: %v", first.Err())
	}
	if first.hold.Update(&s.reg, nil) {
		s.t.Error("the register accepted a write of the first holder after one of the second")
	}
	v := s.verdict()
	if v.Count[history.I3] == 0 {
		s.t.Error("there were never two holders, so the test shows no broken promise")
	}
	for _, x := range v.Violations {
		switch x.Invariant {
		case history.I3, history.I4, history.I9: // two holders; the first was not notified before; its claim was ended
		case history.Minimum: // two grants are enough here
		default:
			s.t.Error(x)
		}
	}
}

// fenceRepeats checks that the history shows a fence that is not higher than the one before.
func (s *scene) fenceRepeats() {
	s.t.Helper()
	if v := s.verdict(); v.Count[history.I2] == 0 {
		s.t.Errorf("all fences rose, so the test shows no broken promise: %v", v.Count)
	}
}
