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
// store. The server is in this process.
func (b *bench) locks() error {
	dir, err := os.MkdirTemp("", "distlock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, workers := range []int{1, contenders} {
		if err := b.locksPair(dir, workers); err != nil {
			return err
		}
	}
	if err := b.locksWake(dir); err != nil {
		return err
	}
	return b.locksMemory(dir)
}

func (b *bench) locksPair(dir string, workers int) error {
	title := fmt.Sprintf("Lock server on SQLite, free names, %d goroutines: the pair through Locks", workers)
	if workers == 1 {
		title = "Lock server on SQLite, a free name, 1 goroutine: the pair through Locks"
	}
	if !b.pick(title) {
		return nil
	}
	pair := func(open func(later func(func())) (locker, error)) func(later func(func())) (deed, error) {
		return func(later func(func())) (deed, error) {
			l, err := open(later)
			return spread(pairOf(l), "name", workers), err
		}
	}
	scenarios := []scenario{
		{"raw: two bare Connect calls", pair(func(later func(func())) (locker, error) { return clientOf(bareLocks(), later) })},
		{"distlock: Acquire and Release of the store", func(later func(func())) (deed, error) {
			s, err := openRemoteFile(filepath.Join(dir, rand.Text()), later)
			return spread(storePair(s), "name", workers), err
		}},
		{"distlock: Acquire and Release of Locks", pair(func(later func(func())) (locker, error) { return b.openLocks(dir, later) })},
		{"raw: bare handlers that call the store", pair(func(later func(func())) (locker, error) {
			s, err := openRemoteFile(filepath.Join(dir, rand.Text()), later)
			if err != nil {
				return nil, err
			}
			return clientOf(bareHandler(bare{store: s}), later)
		})},
		{"distlock: the same in JSON", pair(func(later func(func())) (locker, error) { return b.openLocks(dir, later, rpc.WithProtoJSON()) })},
	}
	figures, err := b.compare(title, workers, b.each, scenarios...)
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{perSecond, p50, worst}}
	for i, f := range figures {
		t.Rows = append(t.Rows, row{scenarios[i].name, []float64{f.Rate, f.P50.Seconds(), f.Worst.Seconds()}})
	}
	if workers == 1 {
		both := figures[0].P50 + figures[1].P50
		t.Goals = []goal{atMost("p50, times the bare calls and the store's pair", figures[2].P50.Seconds()/both.Seconds(), 1.25)}
	} else {
		both := 1 / (1/figures[0].Rate + 1/figures[1].Rate)
		t.Goals = []goal{atLeast("rate, times that of the bare calls and the store's pair one after the other", figures[2].Rate/both, 0.8)}
	}
	b.report(t)
	return nil
}

// locksWake measures how soon a call that waits has the lock.
func (b *bench) locksWake(dir string) error {
	title := "Lock server on SQLite, one waiter: from the call of Release until Acquire of Locks returns"
	if !b.pick(title) {
		return nil
	}
	var served *locksClient // both clients of Locks have the same server
	all := []waking{
		{"raw: two bare Connect calls", func(_ string, later func(func())) (func(context.Context) (time.Duration, error), error) {
			l, err := clientOf(bareLocks(), later)
			return func(ctx context.Context) (time.Duration, error) {
				settle()
				began := time.Now()
				err := pairOf(l)(ctx, "name")
				return time.Since(began), err
			}, err
		}},
		wakeLocker(peer{"distlock: two lockers on the file", openFile}),
		wakeLocker(peer{"distlock: two clients of Locks", func(_ string, later func(func())) (locker, error) {
			if served != nil {
				return *served, nil
			}
			c, err := b.openLocks(dir, later)
			served = &c
			return c, err
		}}),
	}
	var s stack
	defer s.undo()
	names, wakes := make([]string, len(all)), make([]func(context.Context) (time.Duration, error), len(all))
	for i, w := range all {
		var err error
		if wakes[i], err = w.open(filepath.Join(dir, "wake"), s.push); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		names[i] = w.name
	}
	figures, err := b.wakeRounds(title, names, wakes)
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{p50, worst}}
	for i, f := range figures {
		t.Rows = append(t.Rows, row{names[i], []float64{f.P50.Seconds(), f.Worst.Seconds()}})
	}
	both := figures[0].P50 + figures[1].P50
	t.Goals = []goal{atMost("p50, times the bare calls and the store's own", figures[2].P50.Seconds()/both.Seconds(), 1.25)}
	b.report(t)
	return nil
}

// locksMemory measures the memory of a call that waits, on the sides of client and server, which a
// bare call has too.
func (b *bench) locksMemory(dir string) error {
	title := "Lock server on SQLite: the memory of a call of Locks that waits"
	if !b.pick(title) {
		return nil
	}
	n := b.short(1000, 20)
	bare, err := memoryOf(b.ctx, n, func(later func(func())) (locksClient, error) { return clientOf(waitingLocks(), later) })
	if err != nil {
		return err
	}
	ours, err := memoryOf(b.ctx, n, func(later func(func())) (locksClient, error) { return b.openLocks(dir, later) })
	if err != nil {
		return err
	}
	kib := column{"KiB", ""}
	b.report(table{
		Title: title, Columns: []column{kib}, Rows: []row{{"raw: a bare Connect call that waits", []float64{bare}}, {"distlock: Locks", []float64{ours}}},
		Goals: []goal{atMost("KiB more than the bare one", ours-bare, 20)},
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
func (b *bench) openLocks(dir string, later func(func()), opts ...rpc.ClientOption) (locksClient, error) {
	s, err := openRemoteFile(filepath.Join(dir, rand.Text()), later)
	if err != nil {
		return locksClient{}, err
	}
	v, err := server.New(b.ctx, s, &server.Options{Anonymous: access.Everything("bench")})
	if err != nil {
		return locksClient{}, err
	}
	return clientOf(v, later, opts...)
}

// A bare service answers at once. Its answers are as long as those of a lock server.
type bare struct {
	api.UnimplementedLocksHandler
	waits bool         // calls with a wait are not answered
	store driver.Store // nil: they are answered at once
}

func bareLocks() http.Handler    { return bareHandler(bare{}) }
func waitingLocks() http.Handler { return bareHandler(bare{waits: true}) }

func bareHandler(b bare) http.Handler {
	_, h := api.NewLocksHandler(b, rpc.WithCompressMinBytes(4<<10)) // as a lock server
	return h
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
func clientOf(h http.Handler, later func(func()), opts ...rpc.ClientOption) (locksClient, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return locksClient{}, err
	}
	web := &http.Server{Handler: h}
	go func() { _ = web.Serve(l) }()
	later(func() { _ = web.Close() })
	transport := &http.Transport{MaxIdleConnsPerHost: contenders}
	later(transport.CloseIdleConnections)
	return locksClient{api.NewLocksClient(&http.Client{Transport: transport}, "http://"+l.Addr().String(), opts...)}, nil
}

func (c locksClient) lock(ctx context.Context, name string) (hold, error) {
	// The end of a round leaves no lock behind.
	got, err := c.Acquire(context.WithoutCancel(ctx), &api.LocksAcquireRequest{
		Name: name, Ttl: durationpb.New(ttl), Wait: durationpb.New(missed), Owner: rand.Text(), Holder: "bench@host",
	})
	if err == nil && !got.GetGranted() {
		err = errTaken
	}
	return &locksHold{c, got.GetHandle()}, err
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
