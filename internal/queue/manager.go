package queue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
)

// A Manager acquires, keeps and releases the claims of one process in one store. Its methods may be
// called by many goroutines at once.
type Manager struct {
	store    driver.Store
	features driver.Features
	clock    *keeper.Clock
	keeper   *keeper.Keeper

	limits    atomic.Pointer[sharedLimit]
	closing   chan struct{}   // closed when Close begins
	finished  chan struct{}   // closed when Close has ended
	running   context.Context // ends with Close; of the calls that the runners make
	stop      context.CancelFunc
	wg        sync.WaitGroup // runners, attempts, and what is undone behind calls
	listening sync.WaitGroup // the goroutine that receives losses

	mu        sync.Mutex // see the package comment
	keys      map[string]*key
	seq       uint64 // numbers the calls in order of arrival
	contended contended
	working   int           // functions that work under leases
	idle      chan struct{} // closed when none works any more; nil: Close does not wait for that
	closed    bool
}

// New returns a Manager of the claims of this process in a store.
func New(store driver.Store) *Manager {
	m := &Manager{
		store: store, features: store.Features(), clock: keeper.NewClock(),
		closing: make(chan struct{}), finished: make(chan struct{}), keys: map[string]*key{}, contended: contended{},
	}
	m.keeper = keeper.New(m.clock, func(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
		return driver.RenewAll(ctx, store, rs)
	})
	m.running, m.stop = context.WithCancel(context.Background())
	if losses := driver.Losses(m.running, store); losses != nil {
		m.listening.Go(func() { m.listen(losses) })
	}
	return m
}

// Clock returns the clock of all times of the Manager.
func (m *Manager) Clock() *keeper.Clock { return m.clock }

// Running returns a context that ends when the Manager was closed and everything was released.
func (m *Manager) Running() context.Context { return m.running }

// Closing returns a channel that is closed when Close begins.
func (m *Manager) Closing() <-chan struct{} { return m.closing }

// Closed reports whether Close has begun.
func (m *Manager) Closed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// Keys returns how many keys the process has anything to do with.
func (m *Manager) Keys() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.keys)
}

// TryMutex reports whether the mutex of the Manager is free. It is for tests.
func (m *Manager) TryMutex() bool {
	if m.mu.TryLock() {
		m.mu.Unlock()
		return true
	}
	return false
}

// Enter has Close wait until leave is called. It returns nil if the Manager is closed: the Close
// that has begun ends all leases itself.
func (m *Manager) Enter() (exit func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.wg.Add(1)
	return m.wg.Done
}

// listen ends the leases whose claims the store reports as lost.
func (m *Manager) listen(losses <-chan []driver.ID) {
	for {
		select {
		case <-m.running.Done():
			return
		case ids := <-losses:
			for _, t := range m.tenuresOf(ids) {
				t.hold.Gone()
			}
		}
	}
}

// tenuresOf returns the tenures of some claims.
func (m *Manager) tenuresOf(ids []driver.ID) (tenures []*tenure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if k := m.keys[id.Key]; k != nil {
			for _, t := range k.tenures {
				if t.id == id {
					tenures = append(tenures, t)
				}
			}
		}
	}
	return tenures
}

// Resize changes a limit, for new calls and for those that wait. A waiter that wants more than the
// new limit fails.
func (m *Manager) Resize(size *atomic.Int64, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	size.Store(n) // with the lock held: no call that begins to wait meanwhile is forgotten
	for _, k := range m.keys {
		m.resizedLocked(k, size)
	}
}

// ReleaseAll ends all leases, and returns what went wrong with any of them. After 10 s it abandons
// the leases that it has not reached: their claims stay until their TTL has passed.
func (m *Manager) ReleaseAll(ctx context.Context) error {
	m.mu.Lock()
	var leases []*Lease
	for _, k := range m.keys {
		for _, t := range k.tenures {
			if t.lease != nil {
				t.lease.taken = t.lease.working
				leases = append(leases, t.lease)
			}
		}
	}
	m.mu.Unlock()

	errs := make([]error, len(leases))
	late := time.Now().Add(2 * CallLimit)
	const workers = 16 // the connections of a store are few
	var wg sync.WaitGroup
	for w := range min(workers, len(leases)) {
		wg.Go(func() {
			for i := w; i < len(leases); i += workers {
				if time.Now().After(late) {
					errs[i] = leases[i].Abandon(ctx)
					continue
				}
				errs[i] = leases[i].End(ctx)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close ends all waits with ErrClosed, and so the contexts of the functions that work under leases.
// When these functions have returned, or ctx has ended, it releases all leases, stops all renewals,
// and calls last. A second Close waits for the first and returns nil, or the cause of ctx.
func (m *Manager) Close(ctx context.Context, last ...func()) error {
	if !m.beginClose() {
		select {
		case <-m.finished:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer close(m.finished)
	close(m.closing)
	m.endWork(ctx)
	err := m.ReleaseAll(ctx)
	m.wg.Wait() // the runners remove their entries
	m.stop()
	m.listening.Wait()
	m.keeper.Close()
	for _, f := range last {
		f()
	}
	return err
}

// beginClose ends all waits. It reports whether this is the first Close.
func (m *Manager) beginClose() (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first = !m.closed
	m.closed = true
	for _, k := range m.keys {
		k.failAllLocked(refusal{err: ErrClosed})
		k.wakeRunnerLocked()
	}
	return first
}

// endWork ends the contexts of the functions that work under leases, and waits for the functions
// until ctx ends.
func (m *Manager) endWork(ctx context.Context) {
	idle, ends := m.workers()
	for _, end := range ends {
		end(ErrClosed)
	}
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// workers returns the functions that end the contexts of all work, and a channel that is closed
// when the last work has ended; nil: there is none.
func (m *Manager) workers() (idle chan struct{}, ends []context.CancelCauseFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.working == 0 {
		return nil, nil
	}
	m.idle = make(chan struct{})
	for _, k := range m.keys {
		for _, t := range k.tenures {
			if t.lease != nil && t.lease.working {
				ends = slices.AppendSeq(ends, maps.Values(t.lease.contexts))
			}
		}
	}
	return m.idle, ends
}
