package etcd_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/etcd"
)

// A meter counts the streams and calls of a client, and makes its watches silent.
type meter struct {
	streams, calls atomic.Int64
	keys           atomic.Int64 // the most in one answer

	mu      sync.Mutex
	watches []*watchStream
}

// A watchStream is a stream of watches. Once it is silent, it receives nothing and does not end.
type watchStream struct {
	grpc.ClientStream
	received, silent atomic.Bool
}

func (w *watchStream) RecvMsg(m any) error {
	for {
		if err := w.ClientStream.RecvMsg(m); err != nil || !w.silent.Load() {
			w.received.Store(true)
			return err
		}
	}
}

// connect returns a client that the meter observes.
func (m *meter) connect(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(m.stream), grpc.WithChainUnaryInterceptor(m.call)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (m *meter) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	next grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	m.streams.Add(1)
	st, err := next(ctx, desc, conn, method, opts...)
	if err != nil || !strings.HasSuffix(method, "/Watch") {
		return st, err
	}
	w := &watchStream{ClientStream: st}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watches = append(m.watches, w)
	return w, nil
}

func (m *meter) call(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
	next grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	m.calls.Add(1)
	err := next(ctx, method, req, reply, conn, opts...)
	if txn, ok := reply.(*pb.TxnResponse); ok {
		n := int64(0)
		for _, r := range txn.Responses {
			n += r.GetResponseRange().GetCount() // of all keys in the range, also of those that were not sent
		}
		for was := m.keys.Load(); n > was && !m.keys.CompareAndSwap(was, n); was = m.keys.Load() {
		}
	}
	return err
}

// silence makes the open watches silent, and reports whether there is one that the server answered.
func (m *meter) silence() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := false
	for _, w := range m.watches {
		if w.received.Load() {
			w.silent.Store(true)
			found = true
		}
	}
	return found
}

// A watch that becomes silent without an error loses no waiter.
func TestWatch_silent(t *testing.T) {
	t.Parallel()
	e, m := testenv.Etcd(t), &meter{}
	holder := store(t, connect(t, e.Endpoints()...), "p")
	s := store(t, m.connect(t, e.Endpoints()...), "p")
	s.SetPulse(100 * time.Millisecond)
	ctx := t.Context()
	held, waits := whole("key"), whole("key")
	waits.QueueTTL = time.Minute
	if res, err := holder.Acquire(ctx, held); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	if res, err := s.Acquire(ctx, waits); err != nil || res.Granted {
		t.Fatal(res, err)
	}
	wake := s.Watch(ctx, waits.ID)
	awake := func(when string) {
		t.Helper()
		select {
		case <-wake:
		case <-time.After(20 * time.Second):
			t.Fatal("the waiter is not woken", when)
		}
	}
	awake("when the watch begins")
	soon(t, func() error {
		if !m.silence() {
			return fmt.Errorf("there is no watch")
		}
		return nil
	})
	if err := holder.Release(ctx, held.ID); err != nil {
		t.Fatal(err)
	}
	awake("when the lock is free")
	if res, err := s.Acquire(ctx, waits); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
}

// A store holds 10,000 claims with one stream, and renews them with few calls.
func TestStore_streams(t *testing.T) {
	t.Parallel()
	const n, workers = 10_000, 32
	m := &meter{}
	s := store(t, m.connect(t, testenv.Etcd(t).Endpoints()...), "p")
	rs := make([]driver.Renewal, n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				r := whole(fmt.Sprint("key", i))
				r.TTL = time.Hour
				if res, err := s.Acquire(t.Context(), r); err != nil || !res.Granted {
					t.Error(res, err)
					return
				}
				rs[i] = driver.Renewal{ID: r.ID, TTL: r.TTL}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	before, began := m.calls.Load(), time.Now()
	for i, r := range s.RenewAll(t.Context(), rs) {
		if r.Err != nil {
			t.Fatal(i, r.Err)
		}
	}
	streams, calls := m.streams.Load(), m.calls.Load()-before
	t.Logf("%d claims were renewed in %v, with %d streams and %d calls", n, time.Since(began), streams, calls)
	if streams > 1 || calls > n/40 {
		t.Errorf("%d streams and %d calls for the renewal of %d claims", streams, calls, n)
	}
}

// In a long queue the positions are exact. An entry with many others before it is kept without
// reading the queue, while its owner watches.
func TestStore_long_queue(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t)
	inTime(t, func(prefix string) (slow string) {
		m := &meter{}
		return waitsInALongQueue(t, m, store(t, m.connect(t, e.Endpoints()...), prefix))
	})
}

func waitsInALongQueue(t *testing.T, m *meter, s *etcd.Store) (slow string) {
	ctx := t.Context()
	held := whole("key")
	if res, err := s.Acquire(ctx, held); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	const n, far, many = 100, 30, 16
	all := make([]driver.Request, n)
	refused := func(i int, ahead, behind int) {
		t.Helper()
		res, err := s.Acquire(ctx, all[i])
		if err != nil || res.Granted || res.Ahead != ahead || res.Behind != behind || res.Blocker.Owner != driver.Tag(held.Owner) {
			t.Fatalf("entry %d: %+v, %v; want %d ahead, %d behind", i, res, err, ahead, behind)
		}
	}
	for i := range all { // nobody watches yet, so the positions are exact
		all[i] = whole("key")
		all[i].QueueTTL = time.Minute
		refused(i, i, 0)
	}
	for _, i := range []int{0, 10, far, n - 1} {
		refused(i, i, n-1-i)
	}
	s.Watch(ctx, all[far].ID)
	soon(t, func() error {
		before := m.calls.Load()
		refused(far, far, n-1-far)
		if calls := m.calls.Load() - before; calls > 0 {
			return fmt.Errorf("%d calls", calls)
		}
		return nil
	})
	all[far].QueueTTL = life // from the next attempt on
	refused(far, far, n-1-far)
	for began, last := time.Now(), time.Now(); time.Since(began) < 2*life; time.Sleep(life / 6) {
		if took := time.Since(last); took > life/2 {
			return fmt.Sprintf("two attempts are %v apart, the entry lives for %v", took, life)
		}
		last = time.Now()
		refused(far, far, n-1-far)
	}
	all[far].QueueTTL = time.Minute
	refused(far, far, n-1-far)
	// The server does not look at the queue for those that join it, or only attempt.
	late := whole("key")
	for range 2 {
		m.keys.Store(0)
		if res, err := s.Acquire(ctx, late); err != nil || res.Granted || res.Ahead != many+1 || res.Blocker.Owner != driver.Tag(held.Owner) {
			t.Fatalf("a late attempt: %+v, %v", res, err)
		}
		if keys := m.keys.Load(); keys > 2 { // the claim, and its own entry
			t.Errorf("a late attempt with a QueueTTL of %v reads or counts %d keys", late.QueueTTL, keys)
		}
		late.QueueTTL = time.Minute
	}
	all = append(all, late)
	for next := held; len(all) > 0; next, all = all[0], all[1:] {
		if err := s.Release(ctx, next.ID); err != nil {
			t.Fatal(err)
		}
		res, err := s.Acquire(ctx, all[0])
		if behind := len(all) - 1; err != nil || !res.Granted || res.Behind > behind || res.Behind < min(behind, many+1) {
			t.Fatalf("%+v, %v, want granted with %d behind", res, err, behind)
		}
	}
	return ""
}

// A watch that is silent reports a long queue that is gone. Attempts are granted at once: they look
// at the name as it is.
func TestStore_long_queue_gone(t *testing.T) {
	t.Parallel()
	e, m, ctx := testenv.Etcd(t), &meter{}, t.Context()
	c, s := connect(t, e.Endpoints()...), store(t, m.connect(t, e.Endpoints()...), "p")
	for i := range 71 {
		r := whole("key")
		r.QueueTTL = time.Minute
		if res, err := s.Acquire(ctx, r); err != nil || res.Granted != (i == 0) {
			t.Fatal(res, err)
		}
	}
	s.Watch(ctx, whole("key").ID)
	soon(t, func() error {
		m.keys.Store(0)
		if _, err := s.Acquire(ctx, whole("key")); err != nil || m.keys.Load() > 2 {
			return fmt.Errorf("the length of the queue is not known: %d keys, %w", m.keys.Load(), err)
		}
		return nil
	})
	soon(t, func() error { // the state is known before the watch is answered
		if !m.silence() {
			return fmt.Errorf("there is no watch")
		}
		return nil
	})
	if _, err := c.Delete(ctx, "p/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	for _, ttl := range []time.Duration{0, time.Minute} {
		r := whole("key")
		r.QueueTTL = ttl
		if res, err := s.Acquire(ctx, r); err != nil || !res.Granted {
			t.Fatalf("with a QueueTTL of %v: %+v, %v, want granted", ttl, res, err)
		}
		if err := s.Release(ctx, r.ID); err != nil {
			t.Fatal(err)
		}
	}
}
