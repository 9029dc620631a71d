package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

type leadFunc = func(ctx context.Context, t *distlock.Term) error

// election returns an Election; all candidates stand under the name "e".
func election(t *testing.T, l *distlock.Locker, opts ...distlock.Option) *distlock.Election {
	t.Helper()
	e, err := l.Election(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A candidate is a Run in its own goroutine.
type candidate struct {
	stop context.CancelFunc
	done chan struct{}
	err  error
}

func stand(t *testing.T, e *distlock.Election, lead leadFunc) *candidate {
	ctx, cancel := context.WithCancel(context.Background())
	c := &candidate{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = e.Run(ctx, "e", lead)
	}()
	t.Cleanup(func() { c.end() })
	return c
}

func (c *candidate) end() error {
	c.stop()
	<-c.done
	return c.err
}

// records returns a function that leads until its term ends, and records the begin and the end.
func records(o *order, name string) leadFunc {
	return func(ctx context.Context, _ *distlock.Term) error {
		o.add("+%s", name)
		<-ctx.Done()
		o.add("-%s", name)
		return ctx.Err()
	}
}

func (o *order) wants(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	if got := o.String(); got != want {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

func TestElection_Run_handsOff(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		var o order
		a := stand(t, election(t, g.locker(t)), records(&o, "a"))
		o.wants(t, "+a")
		stand(t, election(t, g.locker(t)), records(&o, "b"))
		time.Sleep(time.Hour)
		o.wants(t, "+a")
		g.reset()
		start := time.Now()
		wants(t, a.end(), context.Canceled)
		o.wants(t, "+a -a +b")
		if took := time.Since(start); took != 0 {
			t.Errorf("the hand-off took %v", took)
		}
		if calls := g.total(); calls != "acquire 1, renew 0, release 1" {
			t.Errorf("the hand-off took %s, want at most 3 round trips", calls)
		}
	})
}

func TestElection_Run_resigns(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		var o order
		var terms []uint64
		leads := func(name string) leadFunc {
			return func(_ context.Context, term *distlock.Term) error {
				o.add("%s", name)
				terms = append(terms, term.Fence())
				time.Sleep(time.Second)
				return nil
			}
		}
		a := stand(t, election(t, g.locker(t)), leads("a"))
		synctest.Wait()
		b := stand(t, election(t, g.locker(t)), leads("b"))
		time.Sleep(3500 * time.Millisecond)
		o.wants(t, "a b a b")
		_, _ = a.end(), b.end()
		for i := 1; i < len(terms); i++ {
			if terms[i] <= terms[i-1] {
				t.Errorf("the terms do not rise: %v", terms)
			}
		}
	})
}

func TestElection_Run_letsGoLast(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		var o order
		a := stand(t, election(t, g.locker(t)), func(ctx context.Context, _ *distlock.Term) error {
			o.add("+a")
			<-ctx.Done()
			time.Sleep(time.Hour) // its work takes long, and the lease is kept meanwhile
			o.add("-a")
			return nil
		})
		synctest.Wait()
		stand(t, election(t, g.locker(t)), records(&o, "b"))
		synctest.Wait()
		a.stop()
		time.Sleep(time.Hour - time.Second)
		o.wants(t, "+a")
		time.Sleep(time.Second)
		o.wants(t, "+a -a +b")
	})
}

func TestElection_Run_lost(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		const ttl = 10 * time.Second
		var o order
		far := g.another()
		a := stand(t, election(t, far.locker(t), distlock.TTL(ttl)), func(ctx context.Context, term *distlock.Term) error {
			o.add("+a")
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				wants(t, cause, distlock.ErrLost)
				wants(t, term.Publish(ctx, nil), distlock.ErrLost)
			}
			o.add("-a")
			return errCut // the term has ended: the error does not end Run
		})
		synctest.Wait()
		b := stand(t, election(t, g.locker(t), distlock.TTL(ttl)), records(&o, "b"))
		synctest.Wait()
		far.freeze()
		time.Sleep(ttl + time.Second)
		o.wants(t, "+a -a +b")
		far.mend()
		time.Sleep(time.Minute)
		_ = b.end()
		o.wants(t, "+a -a +b -b +a") // a is a candidate again
		wants(t, a.end(), errCut, context.Canceled)
	})
}

func TestElection_Run_fails(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, l := context.Background(), g.locker(t)
		e := election(t, l)
		wants(t, e.Run(ctx, "e", func(context.Context, *distlock.Term) error { return errCut }), errCut)
		g.empty(t, l)

		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is gone")
				}
			}()
			_ = e.Run(ctx, "e", func(context.Context, *distlock.Term) error { panic("oh") })
		}()
		g.empty(t, l)

		down := func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
			return driver.Result{}, driver.ErrUnavailable
		}
		none := func(context.Context, *distlock.Term) error { return errors.New("it leads") }
		g.set(func(g *gate) { g.acquire = down })
		wants(t, e.Run(ctx, "e", none), distlock.ErrUnavailable) // a wrong password must be reported
		g.mend()

		terms := 0
		start := time.Now()
		err := e.Run(ctx, "e", func(context.Context, *distlock.Term) error {
			if terms++; terms == 2 {
				return errCut
			}
			g.set(func(g *gate) { g.acquire = down })
			time.AfterFunc(time.Minute, g.mend)
			return nil
		})
		wants(t, err, errCut)
		if took := time.Since(start); took < time.Minute || took > time.Minute+2*time.Second {
			t.Errorf("the second term began after %v", took)
		}
		_ = l.Close(ctx)
		wants(t, e.Run(ctx, "e", none), distlock.ErrClosed)
		wants(t, e.Run(noContext, "e", none), distlock.ErrInvalid)
	})
}

func TestElection_Run_oneProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		e := election(t, l)
		var last uint64
		leads := func(ctx context.Context, term *distlock.Term) error {
			now, err := e.Leader(context.WithoutCancel(ctx), "e") // the last terms may begin when Run is already cancelled
			if err != nil || now.Fence != term.Fence() || term.Fence() <= last || term.Fence() != distlock.FromContext(ctx).Fence() {
				t.Errorf("term %d after %d, but the store has %d, %v", term.Fence(), last, now.Fence, err)
			}
			last = term.Fence()
			time.Sleep(time.Millisecond)
			return nil
		}
		candidates := []*candidate{stand(t, e, leads), stand(t, e, leads), stand(t, e, leads)}
		time.Sleep(time.Second)
		for _, c := range candidates {
			_ = c.end()
		}
		if last == 0 {
			t.Error("no candidate led")
		}
	})
}

func TestElection_Leader(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx := context.Background()
		l := g.locker(t)
		e := election(t, l, distlock.Holder("ann"), distlock.Value([]byte("hello")))
		if now, err := e.Leader(ctx, "e"); err != nil || now.Fence != 0 {
			t.Errorf("no candidate leads: %+v, %v", now, err)
		}
		publish := make(chan []byte)
		a := stand(t, e, func(ctx context.Context, term *distlock.Term) error {
			for b := range publish {
				if err := term.Publish(ctx, b); err != nil {
					return err
				}
			}
			return nil
		})
		synctest.Wait()
		stand(t, election(t, g.locker(t)), records(new(order), "b"))
		sees := func(want string) {
			t.Helper()
			synctest.Wait()
			if now, err := e.Leader(ctx, "e"); err != nil || now.Holder != "ann" || now.Fence == 0 || now.Waiters != 1 || string(now.Value) != want {
				t.Errorf("want the value %q, and one waiter: %+v, %v", want, now, err)
			}
		}
		sees("hello")
		publish <- []byte("10.0.0.1:80")
		time.Sleep(time.Hour)
		sees("10.0.0.1:80") // renewals do not change it
		publish <- nil
		sees("")
		publish <- make([]byte, 64<<10+1)
		<-a.done
		wants(t, a.err, distlock.ErrInvalid)
	})
}

// A Publish that is under way must not leave the claim a shorter TTL than an Extend is trusted for.
func TestTerm_Publish_crossesExtend(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t, distlock.TTL(3*time.Second))
		rival, err := distlock.New(g.Store) // its store stays reachable
		if err != nil {
			t.Fatal(err)
		}
		defer rival.Close(context.Background())
		enough := errors.New("enough")
		err = election(t, l).Run(t.Context(), "e", func(ctx context.Context, term *distlock.Term) error {
			lease := distlock.FromContext(ctx)
			g.set(func(g *gate) {
				g.renew = func(ctx context.Context, r driver.Renewal, next renewFunc) (int, error) {
					if r.Value != nil {
						time.Sleep(500 * time.Millisecond)
					}
					return next(ctx, r)
				}
			})
			published := make(chan error, 1)
			go func() { published <- term.Publish(ctx, []byte("x")) }()
			synctest.Wait()
			if err := errors.Join(lease.Extend(ctx, time.Minute), <-published); err != nil {
				t.Error(err)
			}
			g.freeze()
			time.Sleep(4 * time.Second)
			next, stop := context.WithTimeout(context.Background(), time.Second)
			defer stop()
			_ = election(t, rival).Run(next, "e", func(context.Context, *distlock.Term) error {
				if lease.Valid(0) {
					t.Errorf("two lead, the first is trusted for another %v", time.Until(lease.Until()))
				}
				return enough
			})
			g.mend()
			return enough
		})
		wants(t, err, enough)
	})
}

// A Publish that hangs leaves time for a renewal.
func TestTerm_Publish_hangs(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		enough := errors.New("enough")
		err := election(t, g.locker(t, distlock.TTL(3*time.Second))).Run(t.Context(), "e", func(ctx context.Context, term *distlock.Term) error {
			g.set(func(g *gate) {
				g.renew = func(ctx context.Context, r driver.Renewal, next renewFunc) (int, error) {
					if r.Value == nil {
						return next(ctx, r)
					}
					<-ctx.Done()
					return 0, ctx.Err()
				}
			})
			for range 10 {
				wants(t, term.Publish(ctx, []byte("x")), distlock.ErrUnknown)
			}
			if ctx.Err() != nil {
				t.Fatal(context.Cause(ctx)) // no error would end Run
			}
			return enough
		})
		wants(t, err, enough)
	})
}

func TestTerm_Publish_fails(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		err := election(t, g.locker(t)).Run(context.Background(), "e", func(ctx context.Context, term *distlock.Term) error {
			done, cancel := context.WithCancel(ctx)
			cancel()
			wants(t, term.Publish(done, nil), context.Canceled)
			wants(t, term.Publish(noContext, nil), distlock.ErrInvalid)
			g.set(func(g *gate) {
				g.renew = func(context.Context, driver.Renewal, renewFunc) (int, error) { return 0, errCut }
			})
			wants(t, term.Publish(ctx, nil), distlock.ErrUnknown, errCut)
			g.mend()
			if _, err := g.Break(ctx, "~lead/e", 0, "test"); err != nil {
				t.Error(err)
			}
			wants(t, term.Publish(ctx, nil), distlock.ErrLost)
			wants(t, context.Cause(ctx), distlock.ErrLost) // at once
			g.set(func(g *gate) {
				g.acquire = func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
					return driver.Result{}, driver.ErrInvalid
				}
			})
			return nil
		})
		wants(t, err, distlock.ErrInvalid)
	})
}

func TestElection_Observe(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		far := g.another()
		var o order
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			for now, err := range election(t, far.locker(t)).Observe(ctx, "e") {
				switch {
				case err != nil:
					o.add("error")
				case now.Fence == 0:
					o.add("nobody")
				default:
					o.add("%s=%s", now.Holder, now.Value)
				}
			}
		})
		o.wants(t, "nobody")
		publish := make(chan string)
		a := stand(t, election(t, g.locker(t), distlock.Holder("a")), func(ctx context.Context, term *distlock.Term) error {
			for {
				select {
				case s := <-publish:
					_ = term.Publish(ctx, []byte(s))
				case <-ctx.Done():
					return nil
				}
			}
		})
		time.Sleep(time.Second)
		o.wants(t, "nobody a=")
		publish <- "x"
		time.Sleep(time.Second)
		o.wants(t, "nobody a= a=x")
		_ = a.end()
		o.wants(t, "nobody a= a=x nobody") // a release is reported at once
		b := stand(t, election(t, g.locker(t), distlock.Holder("b")), records(new(order), ""))
		time.Sleep(time.Minute)
		o.wants(t, "nobody a= a=x nobody b=")
		stand(t, election(t, g.locker(t), distlock.Holder("c")), records(new(order), ""))
		_ = b.end()
		time.Sleep(10 * time.Millisecond)
		if got := o.String(); !strings.HasSuffix(got, "c=") && !strings.HasSuffix(got, "nobody") {
			t.Errorf("recorded %q", got)
		}
		cancel()
		wg.Wait()
	})
}

// showless is a store whose Show fails for a while, or always.
type showless struct {
	*gate
	err atomic.Pointer[error] // nil: Show works
}

func (s *showless) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	if err := s.err.Load(); err != nil {
		return nil, *err
	}
	return s.gate.Show(ctx, key)
}

func TestElection_Observe_trouble(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		s := &showless{gate: g}
		s.err.Store(&errCut)
		l, err := distlock.New(s)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())
		var yielded []string
		for now, err := range election(t, l).Observe(context.Background(), "e") {
			yielded = append(yielded, fmt.Sprint(now.Fence, err != nil))
			if err == nil {
				break
			}
			time.AfterFunc(time.Minute, func() { s.err.Store(nil) })
		}
		if got := strings.Join(yielded, ", "); got != "0 true, 0 false" {
			t.Errorf("it yielded %s", got)
		}
		s.err.Store(&errors.ErrUnsupported)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, err := range election(t, l).Observe(ctx, "e") {
			wants(t, err, errors.ErrUnsupported)
		}
		if ctx.Err() != nil {
			t.Error("Observe continues although the store does not support Show")
		}
		for _, err := range election(t, l).Observe(noContext, "e") {
			wants(t, err, distlock.ErrInvalid)
		}
	})
}

func TestElection_preferred(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		const ttl = 30 * time.Second
		var o order
		stand(t, election(t, g.locker(t)), func(ctx context.Context, term *distlock.Term) error {
			o.add("+a")
			<-ctx.Done()
			o.add("-a:%t", errors.Is(context.Cause(ctx), distlock.ErrStepDown))
			return ctx.Err()
		})
		synctest.Wait()
		stand(t, election(t, g.locker(t)), records(&o, "b"))
		time.Sleep(time.Hour)
		o.wants(t, "+a") // no candidate of higher rank waits
		p := stand(t, election(t, g.locker(t), distlock.Preferred()), records(&o, "p"))
		time.Sleep(ttl * 2 / 3)
		o.wants(t, "+a -a:true +p") // b was before it in the queue, and let it pass
		q := stand(t, election(t, g.locker(t), distlock.Preferred()), records(&o, "q"))
		time.Sleep(time.Hour)
		o.wants(t, "+a -a:true +p") // q has the same rank as p
		_ = p.end()
		time.Sleep(time.Minute)
		o.wants(t, "+a -a:true +p -p +q")
		_ = q.end()
		time.Sleep(time.Minute)
		if got := o.String(); !strings.HasSuffix(got, "-q +b") && !strings.HasSuffix(got, "-q +a") {
			t.Errorf("recorded %q", got)
		}
	})
}

// A preferred candidate on the leader's own Locker has no queue entry in the store. It becomes the
// leader all the same.
func TestElection_preferred_oneProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		const ttl = 30 * time.Second
		l := g.locker(t)
		var o order
		stand(t, election(t, l), func(ctx context.Context, _ *distlock.Term) error {
			o.add("+a")
			<-ctx.Done()
			o.add("-a:%t", errors.Is(context.Cause(ctx), distlock.ErrStepDown))
			return ctx.Err()
		})
		synctest.Wait()
		stand(t, election(t, l), records(&o, "b"))
		time.Sleep(time.Hour)
		o.wants(t, "+a") // no candidate of higher rank waits
		stand(t, election(t, l, distlock.Preferred()), records(&o, "p"))
		time.Sleep(ttl * 2 / 3)
		o.wants(t, "+a -a:true +p") // b was before it in the queue, and let it pass
		time.Sleep(time.Hour)
		o.wants(t, "+a -a:true +p")
	})
}

func TestLocker_Election_refuses(t *testing.T) {
	for what, lacks := range map[string]func(*driver.Features){
		"fences": func(f *driver.Features) { f.Fence = false },
		"values": func(f *driver.Features) { f.Value = false },
		"queue":  func(f *driver.Features) { f.Queue = false },
	} {
		g := newGate()
		g.features = lacks
		_, err := g.locker(t).Election()
		if what == "queue" {
			if err != nil {
				t.Error(err)
			}
			_, err = g.locker(t).Election(distlock.Preferred())
		}
		wants(t, err, errors.ErrUnsupported)
		if err == nil || !strings.Contains(err.Error(), "store mem") || !strings.Contains(err.Error(), what) {
			t.Errorf("without %s: %v", what, err)
		}
	}
	_, err := newGate().locker(t).Election(distlock.TTL(0))
	wantInvalid(t, err, "TTL")
}

// Names are apart: one Election has a leader for each name.
func TestElection_names(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, e := t.Context(), election(t, g.locker(t))
		err := e.Run(ctx, "a", func(ctx context.Context, a *distlock.Term) error {
			if now, err := e.Leader(ctx, "b"); now.Fence != 0 || err != nil {
				t.Errorf("%+v leads b, %v", now, err)
			}
			return e.Run(ctx, "b", func(ctx context.Context, b *distlock.Term) error {
				for name, want := range map[string]*distlock.Term{"a": a, "b": b} {
					now, err := e.Leader(ctx, name)
					wants(t, err, nil)
					for seen, err := range e.Observe(ctx, name) {
						if err != nil || now.Fence != want.Fence() || seen.Fence != now.Fence {
							t.Errorf("%s: %+v and %+v lead, %v, want the term %d", name, now, seen, err, want.Fence())
						}
						break
					}
				}
				return errCut
			})
		})
		wants(t, err, errCut)
	})
}

// A name is checked by every call, and Preferred also if it is the option of a call.
func TestElection_refuses(t *testing.T) {
	g := newGate()
	g.features = func(f *driver.Features) { f.Queue = false }
	ctx, e := t.Context(), election(t, g.locker(t))
	none := func(context.Context, *distlock.Term) error { return errCut }
	wantInvalid(t, e.Run(ctx, "", none), "name")
	_, err := e.Leader(ctx, "")
	wantInvalid(t, err, "name")
	for _, err := range e.Observe(ctx, "") {
		wantInvalid(t, err, "name")
	}
	wants(t, e.Run(ctx, "e", none, distlock.Preferred()), errors.ErrUnsupported)
	wants(t, e.Run(ctx, "e", none, distlock.Exact()), distlock.ErrInvalid)
}

// TestElection_waits shows that a candidate waits, also if the calls of its Locker do not.
func TestElection_waits(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		first, err := g.locker(t).Election()
		if err != nil {
			t.Fatal(err)
		}
		second, err := g.locker(t, distlock.MaxWait(0), distlock.MaxAttempts(1)).Election()
		if err != nil {
			t.Fatal(err)
		}
		ctx, resign := context.WithCancel(t.Context())
		led, ended := make(chan error, 1), make(chan error, 1)
		go func() {
			led <- first.Run(ctx, "e", func(ctx context.Context, _ *distlock.Term) error {
				<-ctx.Done()
				return nil
			})
		}()
		synctest.Wait()
		go func() {
			ended <- second.Run(t.Context(), "e", func(context.Context, *distlock.Term) error { return errors.New("enough") })
		}()
		time.Sleep(time.Minute)
		select {
		case err := <-ended:
			t.Fatalf("a candidate did not wait: %v", err)
		default:
		}
		resign()
		wants(t, <-led, context.Canceled)
		if err := <-ended; err == nil || err.Error() != "enough" {
			t.Errorf("the second candidate: %v", err)
		}
	})
}
