package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	rpc "connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
)

// locks compares calls of the service Locks of a lock server with bare calls and with those of the
// store. The server is a process of its own, as in the suite server: within one process, a bare
// call takes less than half as long, and a client has no such server.
func (b *bench) locks() error {
	var s stack
	defer s.undo()
	all, err := b.stores(s.push)
	if err != nil {
		return err
	}
	for _, o := range all {
		for _, f := range []func(behind) error{b.locksPair, b.locksPairs, b.locksWake} {
			if err := f(o); err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
		}
	}
	return b.locksMemory()
}

// lockWays are the ways of a pair through Locks. The first three have the rows of behind.ways.
func (o behind) lockWays() []way {
	through := func(addr string, opts ...rpc.ClientOption) func(string, func(func())) (pair, error) {
		return func(_ string, later func(func())) (pair, error) { return pairOf(clientAt(addr, later, opts...)), nil }
	}
	return []way{
		{"raw: two calls of Connect, without a store", through(o.child.bare)},
		o.ways()[rowStore],
		{"distlock: Acquire and Release of Locks", through(o.child.addr)},
		{"raw: bare handlers that call the store", through(o.child.direct)},
		{"distlock: the same in JSON", through(o.child.addr, rpc.WithProtoJSON())},
		{"distlock: the same by gRPC over one connection", func(_ string, later func(func())) (pair, error) {
			l, err := openGRPCLocks(o.child.addr, later)
			if err != nil {
				return nil, err
			}
			do := pairOf(l)
			return func(ctx context.Context, key string) error { return do(context.WithoutCancel(ctx), key) }, nil
		}},
		o.ways()[rowServer],
		o.ways()[rowAlternate],
	}
}

// locksPair measures the pair of one goroutine.
func (b *bench) locksPair(o behind) error {
	return b.sumTable(fmt.Sprintf("Lock server on %s, a free name, 1 goroutine: the pair through Locks", o.name), o.lockWays())
}

// locksPairs measures the pairs of many goroutines.
func (b *bench) locksPairs(o behind) error {
	return b.rateTable(fmt.Sprintf("Lock server on %s, free names, %d goroutines: the pair through Locks", o.name, contenders), o.lockWays())
}

// locksWake measures how soon a call that waits has the lock.
func (b *bench) locksWake(o behind) error {
	title := fmt.Sprintf("Lock server on %s, one waiter: from the call of Release until Acquire of Locks returns", o.name)
	return b.wakeSums(title, o, o.lockWays()[rowBare], peer{"distlock: two clients of Locks", func(_ string, later func(func())) (locker, error) {
		return clientAt(o.child.addr, later), nil
	}})
}

// locksMemory measures the memory of a call that waits, on the sides of client and server, which a
// bare call has too.
func (b *bench) locksMemory() error {
	title := "Lock server on SQLite: the memory of a call of Locks that waits"
	if !b.pick(title) {
		return nil
	}
	dir, err := os.MkdirTemp("", "distlock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	n := b.short(1000, 20)
	raw, err := memoryOf(b.ctx, n, func(later func(func())) (locksClient, error) {
		_, h := bare{waits: true}.handler()
		return clientOf(h, later)
	})
	if err != nil {
		return err
	}
	ours, err := memoryOf(b.ctx, n, func(later func(func())) (locksClient, error) { return b.openLocks(dir, later) })
	if err != nil {
		return err
	}
	kib := column{"KiB", ""}
	b.report(table{
		Title: title, Columns: []column{kib}, Rows: []row{{"raw: a bare Connect call that waits", []float64{raw}}, {"distlock: Locks", []float64{ours}}},
		Goals: []goal{atMost("KiB more than the bare one", ours-raw, 20)},
	})
	return nil
}

// memoryOf returns how many KiB each of n calls takes that wait for names which are held.
func memoryOf(ctx context.Context, n int, open func(later func(func())) (locksClient, error)) (float64, error) {
	var s stack
	defer s.undo()
	c, err := open(s.push)
	if err != nil {
		return 0, err
	}
	for i := range n {
		if _, err := c.Acquire(ctx, &api.LocksAcquireRequest{Name: "held-" + strconv.Itoa(i), Ttl: durationpb.New(time.Hour)}); err != nil {
			return 0, err
		}
	}
	used := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc+m.StackInuse) / 1024
	}
	before := used()
	waiting, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			_, _ = c.Acquire(waiting, &api.LocksAcquireRequest{Name: "held-" + strconv.Itoa(i), Wait: durationpb.New(20 * time.Second)})
		})
	}
	time.Sleep(4 * time.Second) // all of them wait
	after := used()
	cancel()
	calls.Wait()
	return (after - before) / float64(n), nil
}

// openLocks returns a client of a lock server on a file.
func (b *bench) openLocks(dir string, later func(func())) (locksClient, error) {
	s, err := openRemoteFile(filepath.Join(dir, rand.Text()), later)
	if err != nil {
		return locksClient{}, err
	}
	v, err := server.New(b.ctx, s, &server.Options{Anonymous: access.Everything("bench")})
	if err != nil {
		return locksClient{}, err
	}
	return clientOf(v, later)
}

// A bare service answers at once. Its answers are as long as those of a lock server.
type bare struct {
	api.UnimplementedLocksHandler
	waits bool         // calls with a wait are not answered
	store driver.Store // nil: they are answered at once
}

// handler returns the pattern and the handler of the service.
func (b bare) handler() (string, http.Handler) {
	return api.NewLocksHandler(b, alike)
}

// Acquire grants.
func (b bare) Acquire(ctx context.Context, m *api.LocksAcquireRequest) (*api.LocksAcquireResponse, error) {
	if b.waits && m.GetWait() != nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if b.store != nil {
		id := driver.ID{Key: m.GetName(), Owner: m.GetOwner()}
		if _, err := b.store.Acquire(ctx, driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl}); err != nil {
			return nil, err
		}
		// The handle is not encoded: a client of this service sees what it is.
		return &api.LocksAcquireResponse{Granted: true, Handle: id.Owner + id.Key, ValidFor: durationpb.New(ttl), Waited: durationpb.New(1)}, nil
	}
	return &api.LocksAcquireResponse{
		Granted: true, Handle: rand.Text() + rand.Text() + rand.Text() + rand.Text() + rand.Text(), Fence: proto.Uint64(1 << 50),
		ValidFor: durationpb.New(ttl), Waited: durationpb.New(1),
	}, nil
}

// Release releases.
func (b bare) Release(ctx context.Context, m *api.LocksReleaseRequest) (*api.LocksReleaseResponse, error) {
	if b.store != nil {
		if err := b.store.Release(ctx, driver.ID{Owner: m.GetHandle()[:26], Key: m.GetHandle()[26:]}); err != nil {
			return nil, err
		}
	}
	return &api.LocksReleaseResponse{Released: true}, nil
}

// A locksClient is a locker.
type locksClient struct{ api.LocksClient }

// clientOf serves a handler on loopback, and returns a client of it.
func clientOf(h http.Handler, later func(func())) (locksClient, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return locksClient{}, err
	}
	web := &http.Server{Handler: h}
	go func() { _ = web.Serve(l) }()
	later(func() { _ = web.Close() })
	return clientAt(l.Addr().String(), later), nil
}

// clientAt returns a client of the service at an address.
func clientAt(addr string, later func(func()), opts ...rpc.ClientOption) locksClient {
	return locksClient{api.NewLocksClient(bareHTTP(later), "http://"+addr, opts...)}
}

func (c locksClient) lock(ctx context.Context, name string) (hold, error) {
	// The end of a round leaves no lock behind.
	got, err := c.Acquire(context.WithoutCancel(ctx), acquireRequest(name))
	if err == nil && !got.GetGranted() {
		err = errTaken
	}
	return &locksHold{c, got.GetHandle()}, err
}

func acquireRequest(name string) *api.LocksAcquireRequest {
	return &api.LocksAcquireRequest{
		Name: name, Ttl: durationpb.New(ttl), Wait: durationpb.New(missed), Owner: rand.Text(), Holder: "bench@host",
	}
}

type locksHold struct {
	c      locksClient
	handle string
}

func (h *locksHold) unlock() error {
	out, err := h.c.Release(context.Background(), &api.LocksReleaseRequest{Handle: h.handle})
	if err == nil && !out.GetReleased() {
		err = errTaken
	}
	return err
}
