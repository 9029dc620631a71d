package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/etcd"
)

// noise is the ratio of two medians that counts as equal.
const noise = 1.05

// etcd compares distlock on etcd with bare transactions and with the Mutex of etcd's own package
// concurrency.
func (b *bench) etcd() error {
	var s stack
	defer s.undo()
	env, err := newEnv(s.push)
	if err != nil {
		return err
	}
	var server *testenv.EtcdCluster
	if err := env.do(func() { server = testenv.Etcd(env, testenv.Fsync()) }); err != nil {
		return err
	}
	addr := server.Members[0].Addr
	b.noteEtcd(addr)
	for _, f := range []func(addr string) error{b.etcdPair, b.etcdPairs, b.etcdHandOff, b.etcdHeld, b.etcdCut} {
		if err := f(addr); err != nil {
			return err
		}
	}
	return nil
}

// noteEtcd records the version of a server for the page.
func (b *bench) noteEtcd(addr string) {
	var s stack
	defer s.undo()
	if c, err := dialEtcd(addr, s.push); err == nil {
		if st, err := c.Status(b.ctx, addr); err == nil {
			b.versions["etcd"] = st.Version
		}
	}
}

func dialEtcd(addr string, later func(func()), opts ...grpc.DialOption) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop(), DialOptions: opts})
	if err != nil {
		return nil, err
	}
	later(func() { _ = c.Close() })
	return c, nil
}

func openEtcd(life time.Duration, opts ...grpc.DialOption) func(addr string, later func(func())) (locker, error) {
	return func(addr string, later func(func())) (locker, error) {
		s, err := etcdStore(addr, later, opts...)
		if err != nil {
			return nil, err
		}
		return newDistlock(s, later, distlock.TTL(life))
	}
}

func etcdStore(addr string, later func(func()), opts ...grpc.DialOption) (*etcd.Store, error) {
	c, err := dialEtcd(addr, later, opts...)
	if err != nil {
		return nil, err
	}
	s, err := etcd.New(c, nil)
	if err != nil {
		return nil, err
	}
	later(func() { _ = s.Close() })
	return s, nil
}

// openMutex opens a session of package concurrency.
func openMutex(life time.Duration) func(addr string, later func(func())) (locker, error) {
	return func(addr string, later func(func())) (locker, error) {
		c, err := dialEtcd(addr, later)
		if err != nil {
			return nil, err
		}
		s, err := concurrency.NewSession(c, concurrency.WithTTL(int(life.Seconds())))
		if err != nil {
			return nil, err
		}
		later(func() { _ = s.Close() })
		return byMutex{s}, nil
	}
}

type byMutex struct{ *concurrency.Session }

func (s byMutex) lock(ctx context.Context, key string) (hold, error) {
	m := concurrency.NewMutex(s.Session, "mutex/"+key)
	return mutexHold{m}, m.Lock(ctx)
}

type mutexHold struct{ *concurrency.Mutex }

func (h mutexHold) unlock() error { return h.Unlock(context.Background()) }

// rawEtcd is the minimum for a pair: a transaction that creates a key with a lease that was granted
// before, and one that deletes it.
func rawEtcd(addr string, later func(func())) (pair, error) {
	c, err := dialEtcd(addr, later)
	if err != nil {
		return nil, err
	}
	lease, err := c.Grant(context.Background(), int64(time.Hour.Seconds()))
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, key string) error {
		ctx, key, owner := context.Background(), "raw/"+key, rand.Text()
		resp, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, owner, clientv3.WithLease(lease.ID))).Commit()
		if err != nil || !resp.Succeeded {
			return fmt.Errorf("%w: %w", errTaken, err)
		}
		resp, err = c.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", owner)).Then(clientv3.OpDelete(key)).Commit()
		if err == nil && !resp.Succeeded {
			err = errNotOurs
		}
		return err
	}, nil
}

func etcdWays() []way {
	finished := func(open func(string, func(func())) (locker, error)) func(string, func(func())) (pair, error) {
		return func(addr string, later func(func())) (pair, error) {
			l, err := open(addr, later)
			do := pairOf(l)
			return func(ctx context.Context, key string) error { return do(context.WithoutCancel(ctx), key) }, err
		}
	}
	return []way{
		{"raw: two transactions", rawEtcd},
		{"distlock", finished(openEtcd(ttl))},
		{"concurrency.Mutex", finished(openMutex(ttl))},
	}
}

func (b *bench) etcdPair(addr string) error {
	title, all := "etcd, free key, 1 goroutine: the pair", etcdWays()
	figures, err := b.pairs(title, addr, all, 1)
	if figures == nil || err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{p50, ratio, perSecond, worst}}
	base, ours := figures[0].P50.Seconds(), figures[1].P50.Seconds()
	for i, f := range figures {
		t.Rows = append(t.Rows, row{all[i].name, []float64{f.P50.Seconds(), f.P50.Seconds() / base, f.Rate, f.Worst.Seconds()}})
	}
	t.Goals = []goal{
		atMost("p50, times the bare one", ours/base, 1.15),
		atMost("p50, times that of the Mutex", ours/figures[2].P50.Seconds(), noise),
	}
	b.report(t)
	return nil
}

func (b *bench) etcdPairs(addr string) error {
	return b.pairsTable(fmt.Sprintf("etcd, free keys, %d goroutines: pairs", contenders), addr, etcdWays(), contenders, 0)
}

// etcdHandOff measures how soon a waiter elsewhere has the lock. Its goal is the time of the Mutex.
func (b *bench) etcdHandOff(addr string) error {
	title := "etcd, one waiter elsewhere: from the call of Unlock until Lock returns"
	if !b.pick(title) {
		return nil
	}
	// A watch that begins with an old revision, as that of the Mutex, is up to 100 ms late at
	// first.
	settled := func() { time.Sleep(150*time.Millisecond + mathrand.N(50*time.Millisecond)) }
	return b.wakeTable(title, addr, []waking{
		wakeAfter(peer{"concurrency.Mutex", openMutex(ttl)}, settled), wakeAfter(peer{"distlock", openEtcd(ttl)}, settled),
	}, times("p50, times that of the Mutex", noise))
}

// etcdHeld counts the streams and the leases lost while many locks are held for two renewals.
func (b *bench) etcdHeld(addr string) error {
	const life = 15 * time.Second
	n, d := b.short(10_000, 100), b.pause(2*life/3)
	title := fmt.Sprintf("etcd, %d leases held with a TTL of %v, for %v", n, life, d)
	if !b.pick(title) {
		return nil
	}
	var s stack
	defer s.undo()
	var streams atomic.Int64
	count := grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
		next grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		streams.Add(1)
		return next(ctx, desc, conn, method, opts...)
	})
	l, err := openEtcd(life, count)(addr, s.push)
	if err != nil {
		return err
	}
	leases := make([]*distlock.Lease, n)
	if err := acquireAll(b.ctx, l.(ours), leases); err != nil {
		return err
	}
	process, began := processTime(), time.Now()
	time.Sleep(d)
	used := 100 * (processTime() - process).Seconds() / time.Since(began).Seconds()
	lost := 0
	for _, lease := range leases {
		if lease.Err() != nil {
			lost++
		}
	}
	t := table{Title: title, Columns: []column{{"streams", ""}, {"client", "%"}, {"lost", ""}}}
	t.Rows = []row{{"distlock", []float64{float64(streams.Load()), used, float64(lost)}}}
	t.Goals = []goal{atMost("streams", float64(streams.Load()), 4), atMost("leases lost", float64(lost), 0)}
	b.report(t)
	return nil
}

// acquireAll acquires a lock for each lease.
func acquireAll(ctx context.Context, l ours, leases []*distlock.Lease) error {
	errs := make([]error, contenders)
	var wg sync.WaitGroup
	for w := range contenders {
		wg.Go(func() {
			for i := w; i < len(leases) && errs[w] == nil; i += contenders {
				leases[i], errs[w] = l.Lock(ctx, heldName(i))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// etcdCut cuts the link of a holder of distlock, and of a holder with a Session.
func (b *bench) etcdCut(addr string) error {
	return b.cutTable("etcd", addr, 3*time.Second,
		cutter{"distlock", b.short(20, 1), cutEtcd}, cutter{"concurrency.Mutex", b.short(20, 1), cutSession})
}

func cutEtcd(link, addr string, life time.Duration, later func(func())) (func(context.Context, string) (func() bool, error), locker, error) {
	l, err := openEtcd(life)(link, later)
	if err != nil {
		return nil, nil, err
	}
	rival, err := openEtcd(life)(addr, later)
	return func(ctx context.Context, key string) (func() bool, error) {
		lease, err := l.(ours).Lock(ctx, key)
		return func() bool { return lease.Err() == nil }, err
	}, rival, err
}

func cutSession(link, addr string, life time.Duration, later func(func())) (func(context.Context, string) (func() bool, error), locker, error) {
	l, err := openMutex(life)(link, later)
	if err != nil {
		return nil, nil, err
	}
	rival, err := openMutex(life)(addr, later)
	return func(ctx context.Context, key string) (func() bool, error) {
		_, err := l.lock(ctx, key)
		return func() bool {
			select {
			case <-l.(byMutex).Done():
				return false
			default:
				return true
			}
		}, err
	}, rival, err
}
