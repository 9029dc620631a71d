package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/internal/history"
	"github.com/distlock/distlock/internal/torture"
	"github.com/distlock/distlock/internal/workload"
)

// Role is the name of Holder among testenv.Roles.
const Role = "faults-holder"

// Holder is the life of a process that can be stopped and killed. Its argument is the name of its system, its job comes by
// standard input, and the end of that ends it. Give it to testenv.Main.
func Holder(args []string) int {
	if err := hold(args, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func hold(args []string, in io.Reader, out io.Writer) error {
	var j torture.Job
	dec := json.NewDecoder(in)
	if err := dec.Decode(&j); err != nil {
		return err
	}
	sys := Find(args[0])
	play := plays[j.Play]
	if sys == nil || play == nil {
		return fmt.Errorf("faults: no system %q, or no play %q", args[0], j.Play)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	store, shut, err := patiently(ctx, func(ctx context.Context) (driver.Store, func(), error) { return sys.Open(ctx, j.Store, j.Plan.TTL) })
	if err != nil || store == nil {
		return err
	}
	defer shut()
	a := &actor{store: store}
	if j.Guard != "" {
		r, shut, err := patiently(ctx, func(ctx context.Context) (resource, func(), error) {
			r, err := openResource(ctx, j.Guard)
			if err != nil {
				return nil, nil, err
			}
			return r, r.close, nil
		})
		if err != nil || r == nil {
			return err
		}
		defer shut()
		a.resource = r
	}
	return torture.Perform(ctx, &j, out, func(ctx context.Context, s *torture.Stage) error {
		a.Stage = s
		return a.act(ctx, play)
	})
}

// patiently opens something that may be broken just now. If the process is to end before, it returns nothing.
func patiently[T any](ctx context.Context, open func(context.Context) (T, func(), error)) (v T, shut func(), err error) {
	for began := time.Now(); ; {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		v, shut, err = open(try)
		cancel()
		switch {
		case err == nil:
			return v, shut, nil
		case ctx.Err() != nil:
			return v, nil, nil
		case time.Since(began) > 20*time.Second:
			return v, nil, err
		}
		pass(ctx, 20*time.Millisecond)
	}
}

// An actor is the clients of one process.
type actor struct {
	*torture.Stage
	store    driver.Store
	locker   *distlock.Locker
	resource resource // nil: there is none
}

// plays are what processes do, by name.
var plays = map[string]func(*actor, context.Context, *sync.WaitGroup) error{
	"chaos": (*actor).chaos,
}

// act plays until ctx ends.
func (a *actor) act(ctx context.Context, play func(*actor, context.Context, *sync.WaitGroup) error) error {
	var err error
	if a.locker, err = distlock.New(a.store, distlock.TTL(a.Plan.TTL), distlock.Holder("proof "+a.Name)); err != nil {
		return err
	}
	var wg sync.WaitGroup
	err = play(a, ctx, &wg)
	wg.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.Plan.TTL)
	defer cancel()
	_ = a.locker.Close(end) // on a broken way it may fail
	return err
}

// draws returns a source of chance that depends on the seed and a name alone.
func (a *actor) draws(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(a.Name + "/" + name))
	return rand.New(rand.NewPCG(a.Plan.Seed, h.Sum64()))
}

// pass lets time pass, and reports whether ctx goes on.
func pass(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}

// round is for how long a set of keys is in use: the search of the model is not linear.
const round = time.Second

// key draws one of those in use now.
func (a *actor) key(rng *rand.Rand) string {
	return fmt.Sprintf("%s%d/%d", a.Prefix, time.Since(a.Start)/round, rng.IntN(a.Plan.Keys))
}

// chaos takes exclusive and shared locks, and slots where the store can count, and counts under the exclusive ones.
func (a *actor) chaos(ctx context.Context, wg *sync.WaitGroup) error {
	load := &workload.Load{
		Recorder: a.Recorder, TTL: a.Plan.TTL, Key: a.key,
		Pause: 30 * time.Millisecond, Work: 20 * time.Millisecond, Long: 20, Wait: 3 * a.Plan.TTL,
	}
	if a.resource != nil {
		load.Guard = func(h *history.Hold, l *distlock.Lease, rng *rand.Rand) { a.count(h, l, dwell(rng)) }
	}
	for n := range 2 { // so that locks are handed on in memory too
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

// dwell is how long a holder takes between reading and writing: now and then long, so that it may be stopped there.
func dwell(rng *rand.Rand) time.Duration {
	if rng.IntN(10) > 0 {
		return 0
	}
	return time.Duration(rng.Int64N(int64(30 * time.Millisecond)))
}

// count counts both counters of the key up by one, and does not look at the lease in between: who is stopped there is
// refused by the fenced one, and spoils the other.
func (a *actor) count(h *history.Hold, l *distlock.Lease, d time.Duration) {
	// The resource may be slow or gone. The lease goes on meanwhile, and its loss is no reason to stop.
	ctx, cancel := context.WithTimeout(context.Background(), 2*a.Plan.TTL)
	defer cancel()
	key := l.Key()
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
