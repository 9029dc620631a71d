package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/internal/lab/torture"
)

// runMemory is Run for a store in the memory of this process. Its clients are goroutines with their
// own links. The links lose, delay and repeat messages, and are cut.
func (e *Env) runMemory(t testing.TB, o Options) *Run {
	r := &Run{Env: e, Options: o, done: map[Kind]int{}}
	store := e.local()
	run := torture.New(store, "memory:", o.plan(), "proof/", nil)
	playing, stop := context.WithTimeout(t.Context(), o.Time)
	defer stop()
	shared := &memoryResource{}
	e.routes = map[string]*route{}
	var wg, others sync.WaitGroup
	others.Go(func() { run.Watch(playing) })
	if o.Enough > 0 {
		others.Go(func() {
			run.Progressed(playing, o.Enough)
			stop()
		})
	}
	errs := make([]error, o.Processes)
	for i := range o.Processes {
		who := fmt.Sprint("p", i+1)
		link := chaos.New(store, &chaos.Options{
			Name: who, Timeout: o.TTL / 2,
			Plan: chaos.Plan{Seed: o.Seed, Delay: o.TTL, Calm: o.Time - 3*o.TTL, Chance: map[chaos.Kind]float64{
				chaos.RequestLost: .002, chaos.ReplyLost: .002, chaos.RequestLate: .002, chaos.ReplyLate: .002, chaos.Repeated: .002,
				chaos.Unavailable: .002, chaos.WakeLost: .1, chaos.WakeFalse: .1,
			}},
			Observe: func(f chaos.Fault) {
				if f.Kind != chaos.CutOff { // disturb reports the cuts
					run.Fault(who, f.Kind.String(), f.From, f.To)
				}
			},
		})
		defer link.Close()
		e.routes[who] = &route{link: link}
		a := &actor{Stage: run.Stage(who), store: link, resource: shared, memory: true}
		wg.Go(func() { errs[i] = a.act(playing, plays[o.Play]) })
	}
	if !o.Calm {
		others.Go(func() { r.disturb(playing, run, e.Plan(o)) })
	}
	wg.Wait()
	stop()
	others.Wait()
	r.wrong = append(r.wrong, errs...)
	r.History, r.Notes, r.stalls = run.History(), run.Notes(), run.Stalls()
	if err := settle(t.Context(), store); err != nil {
		r.Left = err.Error()
	}
	return r
}

// memoryResource is a resource in the memory of the process.
type memoryResource struct {
	mu sync.Mutex
	of map[string]*counters
}

type counters struct{ fence, fenced, plain uint64 }

// at must be called with the lock held.
func (m *memoryResource) at(key string) *counters {
	if m.of == nil {
		m.of = map[string]*counters{}
	}
	if m.of[key] == nil {
		m.of[key] = &counters{}
	}
	return m.of[key]
}

// guarded calls do with the counters of a key, if the fence is not too low.
func (m *memoryResource) guarded(l fence.Lease, key string, do func(*counters)) error {
	p, err := fence.Of(l)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.at(key)
	if p.Fence() < c.fence {
		return fence.ErrStale
	}
	c.fence = p.Fence()
	do(c)
	return nil
}

func (m *memoryResource) read(_ context.Context, l fence.Lease, key string) (n uint64, err error) {
	err = m.guarded(l, key, func(c *counters) { n = c.fenced })
	return n, err
}

func (m *memoryResource) write(_ context.Context, l fence.Lease, key string, value uint64) error {
	return m.guarded(l, key, func(c *counters) { c.fenced = value })
}

func (m *memoryResource) readPlain(_ context.Context, key string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at(key).plain, nil
}

func (m *memoryResource) writePlain(_ context.Context, key string, value uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(key).plain = value
	return nil
}

func (m *memoryResource) close() {}
