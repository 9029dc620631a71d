package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock"
	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/store/remote"
	"github.com/distlock/distlock/store/sqlite"
)

// A behind is a store behind a lock server. The server is a process of its own, which also answers
// bare calls: the same messages, without a store.
type behind struct {
	name  string
	child *serverChild
	alone func(later func(func())) (driver.Store, error) // the same kind of store, without the server
}

// server compares the lock server with bare calls of Connect and with its store alone, and with
// the lock service of etcd.
func (b *bench) server() error {
	var s stack
	defer s.undo()
	all, err := b.stores(s.push)
	if err != nil {
		return err
	}
	for _, one := range all {
		for _, f := range []func(behind) error{b.serverPair, b.serverPairs, b.serverWake, b.serverLeases} {
			if err := f(one); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
	}
	if err := b.serverMemory(all[0]); err != nil {
		return err
	}
	return b.lockService(all[0])
}

// stores starts a lock server on each of two stores.
func (b *bench) stores(later func(func())) (all []behind, err error) {
	e, err := newEnv(later)
	if err != nil {
		return nil, err
	}
	addrs, err := b.servers(1, later)
	if err != nil {
		return nil, err
	}
	for _, one := range []struct {
		name, url string
		alone     func(later func(func())) (driver.Store, error)
	}{
		{"SQLite", "sqlite:" + filepath.Join(e.dir, "locks.db") + "?holders=remote", func(later func(func())) (driver.Store, error) {
			return openRemoteFile(filepath.Join(e.dir, "alone.db"), later)
		}},
		{"Redis", "redis://" + addrs[0] + "?lock_prefix=server:", func(later func(func())) (driver.Store, error) {
			return openStore(addrs[0], later)
		}},
	} {
		child, err := startServer(b.ctx, one.url, later)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		all = append(all, behind{one.name, child, one.alone})
	}
	return all, nil
}

// openRemoteFile opens a file as a lock server does.
func openRemoteFile(path string, later func(func())) (driver.Store, error) {
	s, err := sqlite.Open(context.Background(), path, &sqlite.Options{Full: true, Remote: true})
	if err != nil {
		return nil, err
	}
	later(func() { _ = s.Close() })
	return s, nil
}

func openRemote(addr string, later func(func())) (*remote.Store, error) {
	s, err := remote.Open(context.Background(), "http://"+addr, nil)
	if err != nil {
		return nil, err
	}
	later(func() { _ = s.Close() })
	return s, nil
}

// storePair is the pair of a store, without a locker.
func storePair(s driver.Store) pair {
	return func(ctx context.Context, key string) error {
		ctx = context.WithoutCancel(ctx)
		id := driver.ID{Key: key, Owner: rand.Text()}
		res, err := s.Acquire(ctx, driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl, Holder: who})
		if err == nil && !res.Granted {
			err = errTaken
		}
		if err != nil {
			return err
		}
		return s.Release(ctx, id)
	}
}

// bareClient returns a client of Connect, with connections as store/remote has them.
func bareClient(addr string, later func(func())) api.StoreClient {
	return api.NewStoreClient(bareHTTP(later), "http://"+addr)
}

func bareHTTP(later func(func())) *http.Client {
	t := &http.Transport{MaxIdleConnsPerHost: 2 * contenders, DisableCompression: true}
	later(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// barePair is two calls of Connect to a bare handler.
func barePair(addr string, later func(func())) pair {
	c := bareClient(addr, later)
	return func(ctx context.Context, key string) error {
		ctx = context.WithoutCancel(ctx)
		id := driver.ID{Key: key, Owner: rand.Text()}
		m, err := c.Acquire(ctx, message.Request(driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl, Holder: who}))
		if err == nil && !m.GetGranted() {
			err = errTaken
		}
		if err != nil {
			return err
		}
		_, err = c.Release(ctx, &api.ReleaseRequest{Id: message.ID(id)})
		return err
	}
}

// The rows of a table of pairs.
const (
	rowBare = iota
	rowStore
	rowServer
	_ // bare handlers that call the store
	rowAlternate
)

func (o behind) ways() []way {
	ours := func(_ string, later func(func())) (pair, error) {
		s, err := openRemote(o.child.addr, later)
		if err != nil {
			return nil, err
		}
		return storePair(s), nil
	}
	return []way{
		{"raw: two calls of Connect, without a store", func(_ string, later func(func())) (pair, error) { return barePair(o.child.bare, later), nil }},
		{o.name + " alone: Acquire and Release", func(_ string, later func(func())) (pair, error) {
			s, err := o.alone(later)
			if err != nil {
				return nil, err
			}
			return storePair(s), nil
		}},
		{"distlock through a server", ours},
		{"raw: bare handlers that call the store", func(_ string, later func(func())) (pair, error) { return barePair(o.child.direct, later), nil }},
		{"raw: bare calls and " + o.name + " alone, in turn", o.alternate},
	}
}

// alternate is a bare call before each call of the store alone. Both take longer than in a loop of
// their own: while one waits, the processor of the other sleeps.
func (o behind) alternate(_ string, later func(func())) (pair, error) {
	s, err := o.alone(later)
	if err != nil {
		return nil, err
	}
	c := bareClient(o.child.bare, later)
	return storePair(preceded{s, c}), nil
}

// preceded is a store with a bare call before each call.
type preceded struct {
	driver.Store
	bare api.StoreClient
}

// Acquire calls the bare handler and the store.
func (s preceded) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if _, err := s.bare.Acquire(ctx, message.Request(r)); err != nil {
		return driver.Result{}, err
	}
	return s.Store.Acquire(ctx, r)
}

// Release calls the bare handler and the store.
func (s preceded) Release(ctx context.Context, id driver.ID) error {
	if _, err := s.bare.Release(ctx, &api.ReleaseRequest{Id: message.ID(id)}); err != nil {
		return err
	}
	return s.Store.Release(ctx, id)
}

func (b *bench) serverPair(o behind) error {
	return b.sumTable(fmt.Sprintf("Lock server on %s, free key, 1 goroutine: the pair", o.name), o.ways())
}

// sumTable measures the pair of one goroutine. The ratio is to the sum of the first two rows.
func (b *bench) sumTable(title string, all []way) error {
	figures, err := b.pairs(title, "", all, 1)
	if figures == nil || err != nil {
		return err
	}
	sum := (figures[rowBare].P50 + figures[rowStore].P50).Seconds()
	t := table{Title: title, Columns: []column{p50, ratio, perSecond, worst}}
	for i, f := range figures {
		t.Rows = append(t.Rows, row{all[i].name, []float64{f.P50.Seconds(), f.P50.Seconds() / sum, f.Rate, f.Worst.Seconds()}})
	}
	t.Goals = []goal{atMost("p50, times the bare calls and the store", figures[rowServer].P50.Seconds()/sum, 1.25)}
	b.report(t)
	return nil
}

func (b *bench) serverPairs(o behind) error {
	return b.rateTable(fmt.Sprintf("Lock server on %s, free keys, %d goroutines: pairs", o.name, contenders), o.ways())
}

// rateTable measures the pairs of many goroutines. The ratio is to the rate that the first two rows
// allow one after the other.
func (b *bench) rateTable(title string, all []way) error {
	figures, err := b.pairs(title, "", all, contenders)
	if figures == nil || err != nil {
		return err
	}
	sum := 1 / (1/figures[rowBare].Rate + 1/figures[rowStore].Rate)
	t := table{Title: title, Columns: []column{perSecond, ratio, p50, worst}}
	for i, f := range figures {
		t.Rows = append(t.Rows, row{all[i].name, []float64{f.Rate, f.Rate / sum, f.P50.Seconds(), f.Worst.Seconds()}})
	}
	t.Goals = []goal{atLeast("rate, times that of the bare calls and the store together", figures[rowServer].Rate/sum, 0.8)}
	b.report(t)
	return nil
}

// serverWake measures how soon a waiter of another process has the lock.
func (b *bench) serverWake(o behind) error {
	title := fmt.Sprintf("Lock server on %s, one waiter of another process: from the call of Unlock until Lock returns", o.name)
	return b.wakeSums(title, o, o.ways()[rowBare], peer{"distlock through a server", onStore(func(later func(func())) (driver.Store, error) {
		return openRemote(o.child.addr, later)
	})})
}

// onStore returns how to open a Locker on a store.
func onStore(open func(later func(func())) (driver.Store, error)) func(string, func(func())) (locker, error) {
	return func(_ string, later func(func())) (locker, error) {
		s, err := open(later)
		if err != nil {
			return nil, err
		}
		return newDistlock(s, later, distlock.TTL(ttl))
	}
}

// wakeSums measures wake-ups. The ratio is to the wake-up of the store alone and two bare calls,
// which follow a pause like that before a wake-up.
func (b *bench) wakeSums(title string, o behind, bare way, p peer) error {
	if !b.pick(title) {
		return nil
	}
	all := []waking{
		{bare.name, func(_ string, later func(func())) (func(context.Context) (time.Duration, error), error) {
			do, err := bare.open("", later)
			return func(ctx context.Context) (time.Duration, error) {
				settle()
				began := time.Now()
				err := do(ctx, "wake")
				return time.Since(began), err
			}, err
		}},
		wakeLocker(peer{o.name + " alone: two lockers", onStore(o.alone)}),
		wakeLocker(p),
	}
	figures, err := b.wakes(title, "", all)
	if err != nil {
		return err
	}
	sum := (figures[rowBare].P50 + figures[rowStore].P50).Seconds()
	t := table{Title: title, Columns: []column{p50, ratio, worst}}
	for i, f := range figures {
		t.Rows = append(t.Rows, row{all[i].name, []float64{f.P50.Seconds(), f.P50.Seconds() / sum, f.Worst.Seconds()}})
	}
	t.Goals = []goal{atMost("p50, times the store's own and two bare calls", figures[rowServer].P50.Seconds()/sum, 1.25)}
	b.report(t)
	return nil
}

// counted is a connection that counts the calls to renew.
type counted struct {
	net.Conn
	calls *atomic.Int64
}

func (c counted) Write(data []byte) (int, error) {
	if bytes.HasPrefix(data, []byte("POST "+api.StoreRenewProcedure+" ")) {
		c.calls.Add(1)
	}
	return c.Conn.Write(data)
}

// serverLeases holds many leases for two renewals.
func (b *bench) serverLeases(o behind) error {
	const life = 15 * time.Second
	n, d := b.short(10_000, 100), b.pause(2*life/3)
	title := fmt.Sprintf("Lock server on %s, %d leases held with a TTL of %v, for %v", o.name, n, life, d)
	if !b.pick(title) {
		return nil
	}
	var s stack
	defer s.undo()
	var requests atomic.Int64
	store, err := remote.Open(b.ctx, "http://"+o.child.addr, &remote.Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		var dialer net.Dialer
		c, err := dialer.DialContext(ctx, network, addr)
		return counted{c, &requests}, err
	}})
	if err != nil {
		return err
	}
	s.push(func() { _ = store.Close() })
	count := &renewals{Store: store}
	l, err := newDistlock(count, s.push, distlock.TTL(life))
	if err != nil {
		return err
	}
	leases := make([]*distlock.Lease, n)
	if err := acquireAll(b.ctx, l, leases); err != nil {
		return err
	}
	calls, renewed := requests.Load(), count.n.Load()
	process, began := processTime(), time.Now()
	time.Sleep(d)
	used := 100 * (processTime() - process).Seconds() / time.Since(began).Seconds()
	calls, renewed = requests.Load()-calls, count.n.Load()-renewed
	lost := 0
	for _, lease := range leases {
		if lease.Err() != nil {
			lost++
		}
	}
	t := table{Title: title, Columns: []column{{"renewals", ""}, {"a call", ""}, {"client", "%"}, {"lost", ""}}}
	t.Rows = []row{{"distlock through a server", []float64{float64(renewed), float64(renewed) / float64(max(1, calls)), used, float64(lost)}}}
	t.Goals = []goal{
		atLeast("renewals a call", float64(renewed)/float64(max(1, calls)), 100),
		atMost("leases lost", float64(lost), 0),
	}
	b.report(t)
	return nil
}

// serverMemory measures what the server keeps for each waiter: a queue entry in its store and a
// watch, and for each bare call that waits.
func (b *bench) serverMemory(o behind) error {
	n := b.short(1000, 20)
	title := fmt.Sprintf("Lock server on %s, %d waiters: memory of the server", o.name, n)
	if !b.pick(title) {
		return nil
	}
	bare, err := b.waitersOf(o, n, func(ctx context.Context, later func(func())) (func(i int) error, error) {
		c := bareClient(o.child.bare, later)
		return func(int) error {
			_, err := c.Show(ctx, &api.ShowRequest{})
			return err
		}, nil
	})
	if err != nil {
		return err
	}
	ours, err := b.waitersOf(o, n, func(ctx context.Context, later func(func())) (func(i int) error, error) {
		holder, err := openRemote(o.child.addr, later)
		if err != nil {
			return nil, err
		}
		store, err := openRemote(o.child.addr, later)
		if err != nil {
			return nil, err
		}
		first, err := newDistlock(holder, later, distlock.TTL(ttl))
		if err != nil {
			return nil, err
		}
		l, err := newDistlock(store, later, distlock.TTL(ttl))
		if err != nil {
			return nil, err
		}
		for i := range n {
			if _, err := first.Lock(ctx, fmt.Sprint("waited/", i)); err != nil {
				return nil, err
			}
		}
		return func(i int) error {
			_, err := l.Lock(ctx, fmt.Sprint("waited/", i))
			return err
		}, nil
	})
	if err != nil {
		return err
	}
	const kib = 1024
	t := table{Title: title, Columns: []column{{"KiB each", ""}}}
	t.Rows = []row{{"raw: a call of Connect that waits", []float64{bare / kib}}, {"distlock: a waiter of store/remote", []float64{ours / kib}}}
	t.Goals = []goal{atMost("KiB above a bare call that waits", (ours-bare)/kib, 20)}
	b.report(t)
	return nil
}

// waitersOf returns the bytes that n waiters cost the server, each.
func (b *bench) waitersOf(o behind, n int, open func(ctx context.Context, later func(func())) (func(i int) error, error)) (float64, error) {
	var s stack
	defer s.undo()
	ctx, cancel := context.WithCancel(b.ctx)
	wait, err := open(ctx, s.push)
	if err != nil {
		cancel()
		return 0, err
	}
	before, err := o.child.memory()
	if err != nil {
		cancel()
		return 0, err
	}
	var waits sync.WaitGroup
	for i := range n {
		waits.Go(func() { _ = wait(i) }) // until ctx ends
	}
	time.Sleep(b.pause(3 * time.Second))
	after, err := o.child.memory()
	cancel()
	waits.Wait()
	return (after - before) / float64(n), err
}
