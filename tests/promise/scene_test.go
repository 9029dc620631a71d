package promise_test

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

// A scene is what the processes of a test do with one key, taken down for the judge. Under the lock they update a
// register that compares fences.
type scene struct {
	t   testing.TB
	rec *history.Recorder
	reg history.Register
}

func newScene(t testing.TB) *scene {
	s := &scene{t: t, rec: history.New(), reg: history.Register{Name: "key"}}
	const least = 25 * time.Millisecond
	t.Cleanup(testenv.Stalls(least, func(from, to time.Time) {
		for _, client := range []string{"a", "b"} { // other goroutines may have stopped a little before, and go on a little later
			s.rec.Fault(client, history.Pause, from.Add(-least), to.Add(least))
		}
	}))
	return s
}

// A part is one lease in a scene.
type part struct {
	*distlock.Lease
	hold *history.Hold
	err  error
	told chan struct{} // closed when the end of the lease is written down
}

// lock takes the key.
func (s *scene) lock(name string, l *distlock.Locker, opts ...distlock.Option) *part {
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

// try asks for the key, and waits for it for a while.
func (s *scene) try(name string, l *distlock.Locker, opts ...distlock.Option) *part {
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*soon)
	defer cancel()
	return s.ask(ctx, name, l, func() {}, opts...)
}

func (s *scene) ask(ctx context.Context, name string, l *distlock.Locker, waits func(), opts ...distlock.Option) *part {
	p := &part{told: make(chan struct{}), hold: s.rec.Acquire(history.Want{Client: name, Key: "key", TTL: time.Hour})}
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
	got, err := l.Lock(ctx, "key", opts...)
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
		<-got.Done() // after a release it means nothing
		p.hold.Lost()
		close(p.told)
	}()
	return p
}

// wait waits for the key in the background. It returns when the call waits.
func (s *scene) wait(name string, l *distlock.Locker, opts ...distlock.Option) <-chan *part {
	out, waiting := make(chan *part, 1), make(chan struct{})
	once := sync.OnceFunc(func() { close(waiting) })
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*soon)
		defer cancel()
		p := s.ask(ctx, name, l, once, opts...)
		for troubled(p.err) && ctx.Err() == nil { // a busy server may not answer in time
			p = s.ask(ctx, name, l, once, opts...)
		}
		out <- p
		once()
	}()
	<-waiting
	return out
}

// granted returns what wait was for.
func (s *scene) granted(c <-chan *part, within time.Duration) *part {
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

// refused wants nothing to be granted for a while.
func (s *scene) refused(c <-chan *part, during time.Duration) {
	s.t.Helper()
	select {
	case p := <-c:
		s.t.Errorf("granted, error %v; want that it waits", p.err)
	case <-time.After(during):
	}
}

// trusts looks at a lease as its holder would, and writes down what it says.
func (p *part) trusts() bool {
	if p.Err() != nil {
		return false
	}
	p.hold.Trusted()
	return true
}

// over waits until a lease is lost.
func (s *scene) over(p *part, within time.Duration) {
	s.t.Helper()
	select {
	case <-p.told:
	case <-time.After(within):
		s.t.Errorf("not told of the loss within %v", within)
	}
}

// end gives a lease back; a call that is not answered is made again.
func (s *scene) end(p *part) {
	call := p.hold.Release()
	err := p.Unlock(context.WithoutCancel(s.t.Context()))
	for try := 1; try < 10 && troubled(err); try++ {
		err = p.Unlock(context.WithoutCancel(s.t.Context()))
	}
	call.End(workload.Outcome(err))
}

// verdict judges what happened so far.
func (s *scene) verdict() *history.Verdict {
	return history.Check(s.rec.History(), history.Rules{Tolerance: 500 * time.Millisecond, Min: history.Minimums{Grants: 2}})
}

// one wants a history without a violation: one holder at a time, told in time, and fences that rise.
func (s *scene) one() {
	s.t.Helper()
	v := s.verdict()
	if err := v.Err(); err != nil {
		s.t.Error(err)
	}
}

// two wants to see what is not promised, two holders at once: the first still trusts its lease. Fences rise all the same, so what
// compares them refuses the first one's write.
func (s *scene) two(first *part) {
	s.t.Helper()
	if !first.trusts() {
		s.t.Errorf("the first holder knows already: %v", first.Err())
	}
	if first.hold.Update(&s.reg, nil) {
		s.t.Error("a fenced write of the first holder was taken after one of the second")
	}
	v := s.verdict()
	if v.Count[history.I3] == 0 {
		s.t.Error("never were there two holders: this shows nothing of what is not promised")
	}
	for _, x := range v.Violations {
		switch x.Invariant {
		case history.I3, history.I4, history.I9: // there are two; the first is not told before; its claim was ended
		case history.Minimum: // there are two: that is all there is to show
		default:
			s.t.Error(x)
		}
	}
}

// back wants to see what is not promised either, a fence that is not above the one before.
func (s *scene) back() {
	s.t.Helper()
	if v := s.verdict(); v.Count[history.I2] == 0 {
		s.t.Errorf("all fences rose: this shows nothing of what is not promised: %v", v.Count)
	}
}
