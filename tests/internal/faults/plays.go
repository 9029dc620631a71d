package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/workload"
)

// chaos acquires exclusive and shared locks, and slots if the store can count, and increments
// counters under the exclusive locks.
func (a *actor) chaos(ctx context.Context, wg *sync.WaitGroup) error {
	load := &workload.Load{
		Recorder: a.Recorder, TTL: a.Plan.TTL, Key: a.key,
		Pause: 30 * time.Millisecond, Work: 20 * time.Millisecond, Long: 20, Wait: 3 * a.Plan.TTL,
	}
	if a.resource != nil {
		load.Guard = func(h *history.Hold, l *distlock.Lease, rng *rand.Rand) { a.count(h, l, a.dwell(rng)) }
	}
	for n := range 2 { // so that locks are handed off in memory too
		c := &workload.Client{Load: load, Name: a.Name, Locker: a.locker, Rand: a.draws(fmt.Sprint("client ", n))}
		wg.Go(func() { c.Run(ctx) })
	}
	if !a.store.Features().Count {
		return nil
	}
	slots, err := a.locker.Semaphore(3)
	if err != nil {
		return err
	}
	counted := &workload.Load{
		Recorder: a.Recorder, TTL: a.Plan.TTL, Key: func(rng *rand.Rand) string { return a.key(rng) + "/slots" },
		Pause: load.Pause, Work: load.Work, Long: load.Long, Wait: load.Wait,
	}
	c := &workload.Client{Load: counted, Name: a.Name, Locker: a.locker, Slots: slots, Rand: a.draws("slots")}
	wg.Go(func() { c.Run(ctx) })
	return nil
}

// histories uses many keys side by side. Each key is a separate history. There are no counters.
func (a *actor) histories(ctx context.Context, wg *sync.WaitGroup) error {
	const most = 100 // of one client: enough for a history, and not too many for the search
	think := time.Duration(float64(a.Plan.Keys*a.Plan.Processes) / a.Plan.Rate * float64(time.Second))
	for n := range a.Plan.Keys {
		load := &workload.Load{
			Recorder: a.Recorder, TTL: a.Plan.TTL, Key: func(*rand.Rand) string { return fmt.Sprint(a.Prefix, n) },
			Guard: func(*history.Hold, *distlock.Lease, *rand.Rand) {},
			Pause: 2 * think, Work: 20 * time.Millisecond, Long: 100, Wait: 2 * a.Plan.TTL,
		}
		c := &workload.Client{Load: load, Name: a.Name, Locker: a.locker, Rand: a.draws(fmt.Sprint("key ", n)), Most: most}
		wg.Go(func() { c.Run(ctx) })
	}
	return nil
}

// counter only increments counters, on a few keys.
func (a *actor) counter(ctx context.Context, wg *sync.WaitGroup) error {
	for n := range 4 { // some of which share a tenure
		load := &workload.Load{
			Recorder: a.Recorder, TTL: a.Plan.TTL,
			Key:   func(rng *rand.Rand) string { return fmt.Sprint(a.Prefix, rng.IntN(a.Plan.Keys)) },
			Guard: func(h *history.Hold, l *distlock.Lease, rng *rand.Rand) { a.count(h, l, a.dwell(rng)) },
			Pause: 2 * time.Millisecond, Work: time.Millisecond, Long: 1 << 20, Wait: 5 * a.Plan.TTL,
		}
		c := &workload.Client{
			Load: load, Name: a.Name, Locker: a.locker, Rand: a.draws(fmt.Sprint("client ", n)), Careful: true,
		}
		wg.Go(func() { c.Run(ctx) })
	}
	return nil
}

// cycles acquires and releases, or gives up after a moment, as often as it can: anything that is
// left behind each time adds up. One in four clients waits very briefly, since keys become free
// soon on a fast store.
func (a *actor) cycles(ctx context.Context, wg *sync.WaitGroup) error {
	for n := range 4 {
		wait := 10 * time.Millisecond
		if n == 0 {
			wait = time.Millisecond
		}
		load := &workload.Load{
			Recorder: a.Recorder, TTL: a.Plan.TTL,
			Key:   func(rng *rand.Rand) string { return fmt.Sprint(a.Prefix, rng.IntN(a.Plan.Keys)) },
			Guard: func(*history.Hold, *distlock.Lease, *rand.Rand) {},
			Pause: time.Millisecond, Work: time.Millisecond, Long: 1 << 20, Wait: wait,
		}
		c := &workload.Client{
			Load: load, Name: a.Name, Locker: a.locker, Rand: a.draws(fmt.Sprint("client ", n)), Careful: true,
		}
		wg.Go(func() { c.Run(ctx) })
	}
	return nil
}

// losses holds for long, and checks its lease all the time.
func (a *actor) losses(ctx context.Context, wg *sync.WaitGroup) error {
	for n := range a.Plan.Keys {
		rng := a.draws(fmt.Sprint("key ", n))
		wg.Go(func() {
			for i := 0; sleep(ctx, time.Duration(rng.Int64N(int64(100*time.Millisecond)))); i++ {
				a.watch(ctx, fmt.Sprintf("%s%d/%d", a.Prefix, time.Since(a.Start)/(10*round), n), 2*a.Plan.TTL+time.Duration(rng.Int64N(int64(2*a.Plan.TTL))))
			}
		})
	}
	return nil
}

// watch acquires a key, and checks the lease until it is lost or d has passed.
func (a *actor) watch(ctx context.Context, key string, d time.Duration) {
	called := time.Now()
	h := a.Recorder.Acquire(history.Want{Client: a.Name, Key: key, TTL: a.Plan.TTL})
	s := &workload.Scribe{Hold: h}
	lease, err := a.locker.Lock(ctx, key, distlock.Observe(s.Observe))
	if err != nil {
		workload.Ended(ctx, h, err)
		return
	}
	h.Granted(lease.Fence(), workload.Trust(lease, called))
	s.Follow(lease)
	began := time.Now()
	last, until := began, workload.Trust(lease, called)
	for time.Since(began) < d && ctx.Err() == nil {
		at := time.Now() // before the check: its result was not true before this time
		if lease.Err() != nil {
			h.Lost()
			a.Note("last look", key, fmt.Sprint(lease.Fence(), " ", last.Sub(a.Start).Nanoseconds(), " ", until.Sub(a.Start).Nanoseconds()))
			break
		}
		last = at
		if t := workload.Until(lease); !t.IsZero() {
			until = t
		}
		time.Sleep(time.Millisecond)
	}
	release := h.Release()
	release.End(workload.Outcome(lease.Unlock(context.WithoutCancel(ctx))))
}

// queue has one client per process: nothing is handed off in memory, so that the queue is the
// store's.
func (a *actor) queue(ctx context.Context, wg *sync.WaitGroup) error {
	rng := a.draws("client")
	wg.Go(func() {
		for sleep(ctx, time.Duration(rng.Int64N(int64(20*time.Millisecond)))) {
			key := fmt.Sprint(a.Prefix, time.Since(a.Start)/(5*round))
			called := time.Now()
			h := a.Recorder.Acquire(history.Want{Client: a.Name, Key: key, TTL: a.Plan.TTL})
			var waits atomic.Bool
			lease, err := a.locker.Lock(ctx, key, distlock.Observe(func(_ context.Context, e distlock.Event) {
				switch {
				case e.Type == distlock.EventWaiting:
					waits.Store(true) // it requests a queue entry from now on
				case e.Type == distlock.EventAttempted && e.Err == nil && waits.Load():
					h.Waiting() // it has a queue entry
				}
			}))
			if err != nil {
				workload.Ended(ctx, h, err)
				continue
			}
			h.Granted(lease.Fence(), workload.Trust(lease, called))
			sleep(ctx, time.Duration(rng.Int64N(int64(20*time.Millisecond))))
			release := h.Release()
			release.End(workload.Outcome(lease.Unlock(context.WithoutCancel(ctx))))
		}
	})
	return nil
}

// once does work that must be done only once.
func (a *actor) once(ctx context.Context, wg *sync.WaitGroup) error {
	o, err := distlock.NewOnce[string](a.locker, time.Hour, nil)
	if err != nil {
		return err
	}
	for n := range 3 {
		rng := a.draws(fmt.Sprint("caller ", n))
		wg.Go(func() {
			for i := 0; sleep(ctx, time.Duration(rng.Int64N(int64(60*time.Millisecond)))); i++ {
				key := fmt.Sprintf("%s%d/%d", a.Prefix, time.Since(a.Start)/(300*time.Millisecond), rng.IntN(2))
				mine := fmt.Sprintf("%s caller %d attempt %d", a.Name, n, i)
				work := time.Duration(rng.Int64N(int64(40 * time.Millisecond)))
				waiting, cancel := context.WithTimeout(ctx, 5*a.Plan.TTL)
				v, err := o.Do(waiting, key, func(ctx context.Context) (string, error) {
					if ctx.Err() != nil { // the process was paused between the grant and this call
						return "", context.Cause(ctx)
					}
					a.Note("did", key, mine)
					defer a.work(key + "/" + mine)()
					if !sleep(ctx, work) {
						return "", context.Cause(ctx)
					}
					return mine, nil
				})
				cancel()
				if err == nil {
					a.Note("result", key, v)
				}
			}
		})
	}
	return nil
}

// work records work under a lock that is not visible here, until the returned function is called.
// In the history it is the hold of a unique name: it excludes no other hold, and faults are made
// during it.
func (a *actor) work(name string) (done func()) {
	h := a.Recorder.Acquire(history.Want{Client: a.Name, Key: name, TTL: a.Plan.TTL})
	h.Granted(driver.Span, time.Time{})
	return func() { h.Release().End(history.Done) }
}

// election takes part in elections.
func (a *actor) election(ctx context.Context, wg *sync.WaitGroup) error {
	e, err := a.locker.Election()
	if err != nil {
		return err
	}
	for n := range a.Plan.Keys {
		key := fmt.Sprint(a.Prefix, n)
		rng := a.draws(key)
		wg.Go(func() {
			for ctx.Err() == nil { // a failure of the first call ends it
				err := e.Run(ctx, key, func(ctx context.Context, t *distlock.Term) error {
					a.lead(ctx, key, t.Fence(), time.Duration(rng.Int64N(int64(a.Plan.TTL))))
					return nil
				})
				if err != nil && ctx.Err() == nil && !errors.Is(err, distlock.ErrUnavailable) && !errors.Is(err, distlock.ErrUnknown) {
					a.Note("failed", key, err.Error())
				}
				sleep(ctx, 20*time.Millisecond)
			}
		})
	}
	return nil
}

// lead checks whether it leads, until it does not or resigns.
func (a *actor) lead(ctx context.Context, key string, term uint64, d time.Duration) {
	began := time.Now()
	last := began
	if ctx.Err() != nil {
		return
	}
	a.Note("leads", key, strconv.FormatUint(term, 10))
	defer a.work(fmt.Sprint(key, "/term ", term))()
	said := began
	say := func(what string) { a.Note(what, key, fmt.Sprint(term, " ", last.Sub(a.Start).Nanoseconds())) }
	for time.Since(began) < d {
		at := time.Now()
		if ctx.Err() != nil {
			break
		}
		if last = at; at.Sub(said) > 20*time.Millisecond { // in case it is killed
			said = at
			say("looks")
		}
		time.Sleep(time.Millisecond)
	}
	say("led")
}

// dwell returns how long a holder takes between reading and writing: sometimes long, so that it may
// be stopped in between.
func (a *actor) dwell(rng *rand.Rand) time.Duration {
	if a.memory && rng.IntN(200) == 0 {
		return a.Plan.TTL + time.Duration(rng.Int64N(int64(a.Plan.TTL)))
	}
	if rng.IntN(10) > 0 {
		return 0
	}
	return time.Duration(rng.Int64N(int64(30 * time.Millisecond)))
}

// count increments both counters of the key, and does not check the lease in between. If the
// process is stopped in between, the fenced counter refuses its write, and the plain counter loses
// an update.
func (a *actor) count(h *history.Hold, l *distlock.Lease, d time.Duration) {
	// The resource may be slow or gone. The lease continues meanwhile, and its loss is no reason to
	// stop.
	ctx, cancel := context.WithTimeout(context.Background(), 2*a.Plan.TTL)
	defer cancel()
	key := l.Name()
	saw, err := a.resource.read(ctx, l, key)
	if err != nil {
		return
	}
	plain, plainErr := a.resource.readPlain(ctx, key)
	if d > 0 {
		time.Sleep(d)
	}
	if plainErr == nil {
		w := h.WritePlain(key, plain, plain+1)
		w.End(written(a.resource.writePlain(ctx, key, plain+1)))
	}
	if a.store.Features().Fence {
		w := h.Write(key, l.Fence(), saw, saw+1)
		w.End(written(a.resource.write(ctx, l, key, saw+1)))
	}
}

func written(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Done
	case errors.Is(err, fence.ErrStale):
		return history.Refused
	}
	return history.Unknown
}
