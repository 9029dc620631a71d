package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/torture"
)

// Role is the name of [Holder] in [testenv.Roles].
const Role = "faults-holder"

// Holder is the main function of a process that can be stopped and killed. Its argument is the name
// of its system. Its job arrives on standard input, and the end of standard input ends the process.
// Pass it to testenv.Main.
func Holder(args []string) int {
	before := newInventory()
	err := hold(args, os.Stdin, os.Stdout)
	if err == nil {
		err = before.compare() // after everything is closed, nothing may be left in the process
	}
	if err != nil {
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

// patiently opens something that may be broken at the moment. If the process is to end before that,
// it returns nothing.
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
		sleep(ctx, 20*time.Millisecond)
	}
}

// An actor is the clients of one process.
type actor struct {
	*torture.Stage
	store    driver.Store
	locker   *distlock.Locker
	resource resource // nil: there is none
	memory   bool     // it cannot be stopped: it is slow by itself
}

// plays are the workloads of processes, by name.
var plays = map[string]func(*actor, context.Context, *sync.WaitGroup) error{
	"chaos": (*actor).chaos, "histories": (*actor).histories, "counter": (*actor).counter, "losses": (*actor).losses,
	"queue": (*actor).queue, "once": (*actor).once, "election": (*actor).election, "cycles": (*actor).cycles,
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
	_ = a.locker.Close(end) // on a broken route Close may fail
	return err
}

// draws returns a source of randomness that depends only on the seed and a name.
func (a *actor) draws(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(a.Name + "/" + name))
	return rand.New(rand.NewPCG(a.Plan.Seed, h.Sum64()))
}

// sleep waits for d, and reports whether ctx is still active.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}

// round is how long a set of keys is in use: the search of the model is not linear.
const round = time.Second

// key draws one of the keys that are in use now.
func (a *actor) key(rng *rand.Rand) string {
	return fmt.Sprintf("%s%d/%d", a.Prefix, time.Since(a.Start)/round, rng.IntN(a.Plan.Keys))
}
