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

// once returns a Once that keeps results for an hour.
func once[T any](t *testing.T, l *distlock.Locker, o *distlock.OnceOptions[T], opts ...distlock.Option) *distlock.Once[T] {
	t.Helper()
	o1, err := distlock.NewOnce(l, time.Hour, o, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return o1
}

// gives returns a function that returns v.
func gives[T any](v T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) { return v, nil }
}

// never returns a function that must not run.
func never[T any](t *testing.T) func(context.Context) (T, error) {
	return func(context.Context) (v T, err error) {
		t.Error("the function ran")
		return v, nil
	}
}

// failRenewals makes every renewal, and with it every recording, fail at once.
func (g *gate) failRenewals() {
	g.set(func(g *gate) {
		g.renew = func(context.Context, driver.Renewal, renewFunc) (int, error) { return 0, errCut }
	})
}

func TestOnce_Do_remembers(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		type receipt struct {
			Number int
			Lines  []string
		}
		ctx := context.Background()
		want := receipt{7, []string{"tea", "cake"}}
		first := once[receipt](t, g.locker(t), nil)
		if got, err := first.Do(ctx, "pay/1", gives(want)); err != nil || got.Number != 7 {
			t.Fatalf("the first call: %v, %v", got, err)
		}
		if calls := g.total(); calls != "acquire 1, renew 1, release 0" {
			t.Errorf("the first call made these calls of the store: %s", calls)
		}
		g.reset()
		for _, o := range []*distlock.Once[receipt]{first, once[receipt](t, g.locker(t), nil)} {
			got, err := o.Do(ctx, "pay/1", never[receipt](t))
			if err != nil || got.Number != 7 || strings.Join(got.Lines, " ") != "tea cake" {
				t.Errorf("a later call: %v, %v", got, err)
			}
		}
		if calls := g.total(); calls != "acquire 2, renew 0, release 0" {
			t.Errorf("two later calls made these calls of the store: %s", calls)
		}
		g.expect(t, 1, 0)
	})
}

func TestOnce_Do_forgets(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, o := context.Background(), once[int](t, g.locker(t), nil)
		_, _ = o.Do(ctx, "a", gives(1))
		time.Sleep(time.Hour - time.Millisecond)
		if v, err := o.Do(ctx, "a", never[int](t)); v != 1 || err != nil {
			t.Errorf("before keep has ended: %v, %v", v, err)
		}
		time.Sleep(2 * time.Millisecond)
		if v, err := o.Do(ctx, "a", gives(2)); v != 2 || err != nil {
			t.Errorf("after keep: %v, %v", v, err)
		}
	})
}

func TestOnce_Do_waits(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		var runs atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			o := once[int64](t, g.locker(t), nil)
			for range 5 {
				wg.Go(func() {
					v, err := o.Do(context.Background(), "a", func(context.Context) (int64, error) {
						time.Sleep(10 * time.Second)
						return runs.Add(1), nil
					})
					if v != 1 || err != nil {
						t.Errorf("%v, %v", v, err)
					}
				})
			}
		}
		start := time.Now()
		wg.Wait()
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("the record was seen after %v", took)
		}
		synctest.Wait()
		g.expect(t, 1, 0) // the record, and no queue entry
	})
}

func TestOnce_Do_refuses(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx := context.Background()
		o, other := once[int](t, g.locker(t), nil), once[int](t, g.locker(t), nil, distlock.MaxWait(0))
		v, err := o.Do(ctx, "a", func(context.Context) (int, error) {
			_, err := other.Do(ctx, "a", never[int](t))
			wants(t, err, distlock.ErrHeld)
			_, err = o.Do(ctx, "a", never[int](t), distlock.MaxWait(time.Second))
			wants(t, err, distlock.ErrHeld, context.DeadlineExceeded)
			return 1, nil
		})
		if v != 1 || err != nil {
			t.Errorf("%v, %v", v, err)
		}
		if v, err := other.Do(ctx, "a", never[int](t)); v != 1 || err != nil {
			t.Errorf("the record: %v, %v", v, err)
		}
	})
}

func TestOnce_Do_failures(t *testing.T) {
	errBroke, errBusy := errors.New("no money"), errors.New("busy")
	inBubble(t, func(t *testing.T, g *gate) {
		ctx := context.Background()
		o := once(t, g.locker(t), &distlock.OnceOptions[int]{
			Failures: func(err error) bool { return errors.Is(err, errBroke) },
		})
		fails := func(err error) func(context.Context) (int, error) {
			return func(context.Context) (int, error) { return 0, err }
		}
		_, err := o.Do(ctx, "a", fails(errBusy))
		wants(t, err, errBusy)
		g.empty(t) // it is not remembered

		_, err = o.Do(ctx, "a", fails(errBroke))
		wants(t, err, errBroke)
		_, err = o.Do(ctx, "a", never[int](t))
		var past *distlock.PastError
		if !errors.As(err, &past) || past.Name != "a" || past.Text != "no money" {
			t.Errorf("a later call: %v", err)
		}
	})
}

func TestOnce_Do_failureHandedOff(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, o := context.Background(), once[int](t, g.locker(t), nil)
		var runs atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				v, err := o.Do(ctx, "a", func(context.Context) (int, error) {
					time.Sleep(time.Second)
					if runs.Add(1) == 1 {
						return 0, errCut
					}
					return 5, nil
				})
				if v != 5 && !errors.Is(err, errCut) {
					t.Errorf("%v, %v", v, err)
				}
			})
		}
		wg.Wait()
		if n := runs.Load(); n != 2 {
			t.Errorf("it ran %d times, want 2: the one that failed and the one after it", n)
		}
	})
}

func TestOnce_Do_panic(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		o := once[int](t, l, nil)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is gone")
				}
			}()
			_, _ = o.Do(context.Background(), "a", func(context.Context) (int, error) { panic("oh") })
		}()
		g.empty(t, l)
	})
}

// The function Failures panics, for a failure and for a panic of f. Do panics with its value, and
// leaves nothing behind.
func TestOnce_Do_panicPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		o := once(t, l, &distlock.OnceOptions[int]{Failures: func(error) bool { panic("what is that?") }})
		for name, f := range map[string]func(context.Context) (int, error){
			"f panics": func(context.Context) (int, error) { panic("oh") },
			"f fails":  func(context.Context) (int, error) { return 0, errors.New("oh") },
		} {
			func() {
				defer func() {
					if why := recover(); why != "what is that?" {
						t.Errorf("%s: the panic is %v", name, why)
					}
				}()
				_, _ = o.Do(context.Background(), name, f)
			}()
			g.empty(t, l)
		}
	})
}

func TestOnce_Do_panicRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		o := once(t, g.locker(t), &distlock.OnceOptions[int]{Failures: func(err error) bool { return errors.Is(err, distlock.ErrPanicked) }})
		func() {
			defer func() { _ = recover() }()
			_, _ = o.Do(context.Background(), "a", func(context.Context) (int, error) { panic("oh") })
		}()
		_, err := o.Do(context.Background(), "a", func(context.Context) (int, error) { return 1, nil })
		var past *distlock.PastError
		if !errors.As(err, &past) || past.Text != distlock.ErrPanicked.Error() {
			t.Errorf("the next caller got %v, want the panic as a failure before", err)
		}
	})
}

func TestOnce_Do_tooLarge(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		raw := &distlock.OnceOptions[[]byte]{
			Encode: func(b []byte) ([]byte, error) { return b, nil },
			Decode: func(b []byte) ([]byte, error) { return b, nil },
		}
		ctx, l := context.Background(), g.locker(t)
		o := once(t, l, raw)
		big := make([]byte, 64<<10+1)
		v, err := o.Do(ctx, "a", gives(big))
		wants(t, err, distlock.ErrTooLarge, distlock.ErrNotRecorded)
		if len(v) != len(big) {
			t.Error("the result is not returned")
		}
		g.empty(t, l)

		if _, err := o.Do(ctx, "a", gives(big[1:])); err != nil { // exactly 64 KiB
			t.Error(err)
		}
		if v, err := o.Do(ctx, "a", never[[]byte](t)); err != nil || len(v) != len(big)-1 {
			t.Errorf("%d bytes, %v", len(v), err)
		}
	})
}

func TestOnce_Do_cannotEncode(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		_, err := once[chan int](t, l, nil).Do(context.Background(), "a", gives(make(chan int)))
		wants(t, err, distlock.ErrNotRecorded)
		g.empty(t, l)
	})
}

func TestOnce_Do_cannotDecode(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, l := context.Background(), g.locker(t)
		_, _ = once[string](t, l, nil).Do(ctx, "a", gives("text"))
		if _, err := once[int](t, l, nil).Do(ctx, "a", never[int](t)); err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("a record of another type: %v", err)
		}
	})
}

// If the lease is lost between the function and its recording, the next caller runs the function
// again.
func TestOnce_Do_lostBetween(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, far := context.Background(), g.another()
		o, other := once[int](t, far.locker(t), nil, distlock.TTL(10*time.Second)), once[int](t, g.locker(t), nil)
		v, err := o.Do(ctx, "a", func(ctx context.Context) (int, error) {
			far.freeze()
			<-ctx.Done()
			wants(t, context.Cause(ctx), distlock.ErrLost)
			return 1, nil
		})
		wants(t, err, distlock.ErrNotRecorded, distlock.ErrLost)
		if v != 1 {
			t.Errorf("the result is %v", v)
		}
		if v, err := other.Do(ctx, "a", gives(2)); v != 2 || err != nil {
			t.Errorf("the next caller: %v, %v", v, err)
		}
	})
}

func TestOnce_Do_recordsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, o := context.Background(), once[int](t, g.locker(t), nil)
		tries := 0
		g.set(func(g *gate) {
			g.renew = func(ctx context.Context, r driver.Renewal, next renewFunc) (int, error) {
				n, err := next(ctx, r)
				if tries++; r.Keep && tries < 3 {
					return 0, errCut // it took effect
				}
				return n, err
			}
		})
		if v, err := o.Do(ctx, "a", gives(1)); v != 1 || err != nil || tries != 3 {
			t.Errorf("%v, %v after %d tries", v, err, tries)
		}
		if v, err := o.Do(ctx, "a", never[int](t)); v != 1 || err != nil {
			t.Errorf("later: %v, %v", v, err)
		}
	})
}

func TestOnce_Do_notRecorded(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		far := g.another()
		o := once[int](t, far.locker(t), nil, distlock.TTL(10*time.Second))
		start := time.Now()
		v, err := o.Do(context.Background(), "a", func(context.Context) (int, error) {
			far.freeze()
			return 1, nil
		})
		wants(t, err, distlock.ErrNotRecorded, distlock.ErrUnknown)
		if took := time.Since(start); v != 1 || took < 8*time.Second || took > 9*time.Second {
			t.Errorf("%v after %v, want all of the trust to be used: 9s", v, took)
		}
		far.mend()
	})
}

// The store makes the first recording, but its answer is lost, and it refuses all later ones.
func TestOnce_Do_mayBeRecorded(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		far, kept := g.another(), false
		far.set(func(g *gate) {
			g.renew = func(ctx context.Context, r driver.Renewal, next renewFunc) (int, error) {
				if kept {
					return 0, driver.ErrUnavailable
				}
				kept = r.Keep
				n, err := next(ctx, r)
				if kept {
					err = errCut
				}
				return n, err
			}
		})
		_, err := once[int](t, far.locker(t), nil).Do(context.Background(), "a", gives(1))
		wants(t, err, distlock.ErrNotRecorded, distlock.ErrUnknown)
		if v, err := once[int](t, g.locker(t), nil).Do(context.Background(), "a", never[int](t)); v != 1 || err != nil {
			t.Errorf("another caller: %v, %v", v, err)
		}
	})
}

// The recording for a caller whose context has ended takes no longer than an Unlock.
func TestOnce_Do_notRecordedForOneWhoLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		o := once[int](t, g.locker(t), nil)
		ctx, cancel := context.WithCancel(context.Background())
		start := time.Now()
		_, err := o.Do(ctx, "a", func(context.Context) (int, error) {
			g.freeze()
			cancel()
			return 1, nil
		})
		wants(t, err, distlock.ErrNotRecorded)
		if took := time.Since(start); took > 13*time.Second {
			t.Errorf("it took %v", took)
		}
		g.mend()
	})
}

// The same holds for a caller whose context ends during the recording, however long the TTL is.
func TestOnce_Do_notRecordedForOneWhoLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		o := once[int](t, g.locker(t), nil, distlock.TTL(4*time.Hour))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := o.Do(ctx, "a", func(context.Context) (int, error) {
			g.failRenewals()
			return 1, nil
		})
		wants(t, err, distlock.ErrNotRecorded)
		if took := time.Since(start); took < time.Minute || took > 66*time.Second {
			t.Errorf("it took %v, but the context ended after a minute", took)
		}
		g.mend()
	})
}

// A recording without an answer of the store blocks neither Unlock of its lease, nor ReleaseAll,
// nor Close. Close ends it.
func TestOnce_Do_closedWhileRecording(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		o := once[int](t, l, nil, distlock.TTL(10*time.Minute))
		const runs = 100
		leases, errs := make([]*distlock.Lease, runs), make(chan error, runs)
		for i := range runs {
			go func() {
				_, err := o.Do(context.Background(), fmt.Sprint(i), func(ctx context.Context) (int, error) {
					leases[i] = distlock.FromContext(ctx)
					g.failRenewals()
					return 1, nil
				})
				errs <- err
			}()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		brief := func(what string, limit time.Duration, f func(ctx context.Context) error) {
			t.Helper()
			start := time.Now()
			wants(t, f(context.Background()), distlock.ErrUnknown)
			if took := time.Since(start); took > limit {
				t.Errorf("%s took %v", what, took)
			}
		}
		brief("Unlock", 6*time.Second, leases[0].Unlock)
		brief("ReleaseAll", 16*time.Second, l.ReleaseAll)
		if n := len(errs); n > 0 {
			t.Errorf("%d recordings have ended; there is trust left", n)
		}
		brief("Close", 16*time.Second, l.Close)
		time.Sleep(time.Second)
		if n := len(errs); n != runs {
			t.Fatalf("%d recordings have ended, of %d", n, runs)
		}
		for range runs {
			wants(t, <-errs, distlock.ErrNotRecorded)
		}
	})
}

func TestOnce_Do_recordsThoughDone(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		o := once[int](t, g.locker(t), nil)
		ctx, cancel := context.WithCancel(context.Background())
		if v, err := o.Do(ctx, "a", func(context.Context) (int, error) {
			cancel()
			return 1, nil
		}); v != 1 || err != nil {
			t.Errorf("%v, %v", v, err)
		}
		if v, found, err := o.Result(context.Background(), "a"); v != 1 || !found || err != nil {
			t.Errorf("the record: %v, %v, %v", v, found, err)
		}
	})
}

func TestOnce_Do_closed(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		o := once[int](t, l, nil)
		v, err := o.Do(context.Background(), "a", func(ctx context.Context) (int, error) {
			return 1, l.Close(ctx)
		})
		wants(t, err, distlock.ErrNotRecorded, distlock.ErrReleased)
		if v != 1 {
			t.Errorf("the result is %v", v)
		}
		g.empty(t, l)
	})
}

func TestOnce_Result(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, l := context.Background(), g.locker(t)
		o := once(t, l, &distlock.OnceOptions[int]{Failures: func(error) bool { return true }})
		if _, found, err := o.Result(ctx, "a"); found || err != nil {
			t.Errorf("of nothing: %v, %v", found, err)
		}
		_, _ = o.Do(ctx, "a", func(ctx context.Context) (int, error) {
			if _, found, err := o.Result(ctx, "a"); found || err != nil {
				t.Errorf("of a run: %v, %v", found, err)
			}
			return 0, errCut
		})
		_, found, err := o.Result(ctx, "a")
		var past *distlock.PastError
		if !found || !errors.As(err, &past) {
			t.Errorf("of a failure: %v, %v", found, err)
		}
		_, _, err = o.Result(ctx, "")
		wantInvalid(t, err, "name")
		free(t, must(t)(l.TryLock(ctx, "a"))) // a lock of the same name is independent
	})
}

func TestNewOnce_refuses(t *testing.T) {
	l := newGate().locker(t)
	for name, keep := range map[string]time.Duration{"nothing": 0, "the past": -time.Second, "for ever": 401 * 24 * time.Hour} {
		_, err := distlock.NewOnce[int](l, keep, nil)
		if invalidWhat(err) != "keep" {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := distlock.NewOnce[int](l, time.Hour, nil, distlock.TTL(1))
	wantInvalid(t, err, "TTL")
	_, err = distlock.NewOnce[int](nil, time.Hour, nil)
	wants(t, err, distlock.ErrInvalid)
	_, err = once[int](t, l, nil).Do(context.Background(), "", never[int](t))
	wantInvalid(t, err, "name")

	for _, lacks := range []func(*driver.Features){
		func(f *driver.Features) { f.Keep = false },
		func(f *driver.Features) { f.Value = false },
	} {
		g := newGate()
		g.features = lacks
		_, err := distlock.NewOnce[int](g.locker(t), time.Hour, nil)
		wants(t, err, errors.ErrUnsupported)
		if err == nil || !strings.Contains(err.Error(), "store mem") {
			t.Errorf("the store is not named: %v", err)
		}
	}
	g := newGate()
	g.features = func(f *driver.Features) { f.MaxTTL = time.Minute }
	_, err = distlock.NewOnce[int](g.locker(t), time.Hour, nil)
	wantInvalid(t, err, "keep")
}
