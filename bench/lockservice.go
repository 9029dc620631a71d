package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/distlock/distlock"
	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/internal/testenv"
)

// rawCodec passes messages as bytes: the messages of etcd's lock service have two fields, and its
// generated code belongs to the module of the server.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// A lockService is a client of the lock service of etcd, which waits in the server.
type lockService struct {
	conn  *grpc.ClientConn
	lease clientv3.LeaseID
}

func openLockService(addr string, later func(func())) (locker, error) {
	c, err := dialEtcd(addr, later)
	if err != nil {
		return nil, err
	}
	lease, err := c.Grant(context.Background(), int64(time.Hour.Seconds()))
	if err != nil {
		return nil, err
	}
	return lockService{c.ActiveConnection(), lease.ID}, nil
}

func (s lockService) lock(ctx context.Context, key string) (hold, error) {
	request := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte(key))
	request = protowire.AppendVarint(protowire.AppendTag(request, 2, protowire.VarintType), uint64(s.lease))
	var answer []byte
	if err := s.conn.Invoke(ctx, "/v3lockpb.Lock/Lock", &request, &answer, grpc.ForceCodec(rawCodec{})); err != nil {
		return nil, err
	}
	for len(answer) > 0 {
		number, kind, n := protowire.ConsumeTag(answer)
		if n < 0 {
			break
		}
		if number == 2 && kind == protowire.BytesType {
			owned, m := protowire.ConsumeBytes(answer[n:])
			if m < 0 {
				break
			}
			return serviceHold{s, owned}, nil
		}
		m := protowire.ConsumeFieldValue(number, kind, answer[n:])
		if m < 0 {
			break
		}
		answer = answer[n+m:]
	}
	return nil, errors.New("the lock service returns no key")
}

type serviceHold struct {
	lockService
	key []byte
}

func (h serviceHold) unlock() error {
	request := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), h.key)
	var answer []byte
	return h.conn.Invoke(context.Background(), "/v3lockpb.Lock/Unlock", &request, &answer, grpc.ForceCodec(rawCodec{}))
}

// A grpcLocks is a client of the service Locks, with the client library that the lock service of
// etcd has here: gRPC over one connection, and a lock that is waited for in the server.
type grpcLocks struct{ conn *grpc.ClientConn }

func openGRPCLocks(addr string, later func(func())) (locker, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	later(func() { _ = conn.Close() })
	return grpcLocks{conn}, nil
}

func (c grpcLocks) lock(ctx context.Context, name string) (hold, error) {
	var got api.LocksAcquireResponse
	err := c.conn.Invoke(ctx, api.LocksAcquireProcedure, acquireRequest(name), &got)
	if err == nil && !got.GetGranted() {
		err = errTaken
	}
	return grpcHold{c, got.GetHandle()}, err
}

type grpcHold struct {
	grpcLocks
	handle string
}

func (h grpcHold) unlock() error {
	var out api.LocksReleaseResponse
	err := h.conn.Invoke(context.Background(), api.LocksReleaseProcedure, &api.LocksReleaseRequest{Handle: h.handle}, &out)
	if err == nil && !out.GetReleased() {
		err = errTaken
	}
	return err
}

// lockService compares the lock server, with its default store and with etcd, with the lock service
// of etcd. All wait for their disk. A lock of the service has no TTL of its own: its lease is
// granted before.
func (b *bench) lockService(o behind) error {
	pairTitle := "Lock server on SQLite, free key, 1 goroutine, and the lock service of etcd: the pair"
	pairsTitle := fmt.Sprintf("Lock server on SQLite, free keys, %d goroutines, and the lock service of etcd: pairs", contenders)
	wakeTitle := "Lock server on SQLite, one waiter of another process, and the lock service of etcd: from the call of Unlock until Lock returns"
	chosen := [3]bool{b.pick(pairTitle), b.pick(pairsTitle), b.pick(wakeTitle)}
	if chosen == [3]bool{} {
		return nil
	}
	var s stack
	defer s.undo()
	env, err := newEnv(s.push)
	if err != nil {
		return err
	}
	var cluster *testenv.EtcdCluster
	if err := env.do(func() { cluster = testenv.Etcd(env, testenv.Fsync()) }); err != nil {
		return err
	}
	etcd := cluster.Members[0].Addr
	b.noteEtcd(etcd)
	child, err := startServer(b.ctx, "etcd://"+etcd, s.push)
	if err != nil {
		return err
	}
	through := func(name, addr string) peer {
		return peer{name, func(_ string, later func(func())) (locker, error) {
			store, err := openRemote(addr, later)
			if err != nil {
				return nil, err
			}
			return newDistlock(store, later, distlock.TTL(ttl))
		}}
	}
	ours, onEtcd := through("distlock through a server", o.child.addr), through("distlock through a server on etcd", child.addr)
	alike := peer{"distlock: Locks by gRPC", func(_ string, later func(func())) (locker, error) { return openGRPCLocks(o.child.addr, later) }}
	floor := peer{"raw: bare handlers that call the store, by gRPC", func(_ string, later func(func())) (locker, error) { return openGRPCLocks(o.child.direct, later) }}
	service := peer{"the lock service of etcd", func(_ string, later func(func())) (locker, error) { return openLockService(etcd, later) }}
	for i, workers := range []int{1, contenders} {
		if !chosen[i] {
			continue
		}
		if err := b.servicePairs([]string{pairTitle, pairsTitle}[i], workers, service, ours, alike, onEtcd, floor); err != nil {
			return err
		}
	}
	if !chosen[2] {
		return nil
	}
	settled := func() { time.Sleep(150 * time.Millisecond) } // see etcdHandOff
	var all []waking
	for _, p := range []peer{service, ours, alike, onEtcd} {
		all = append(all, wakeAfter(p, settled))
	}
	figures, err := b.wakes(wakeTitle, "", all)
	if err != nil {
		return err
	}
	aim := times("p50, times that of the lock service", 1)
	b.reportWakes(wakeTitle, all, figures, aim(figures[0].P50, figures[1].P50), aim(figures[0].P50, figures[2].P50))
	return nil
}

// servicePairs compares the pairs of lockers. The first is the lock service, and the next two have
// goals.
func (b *bench) servicePairs(title string, workers int, all ...peer) error {
	var scenarios []scenario
	for _, p := range all {
		scenarios = append(scenarios, onFreeKeys("", way{p.name, func(addr string, later func(func())) (pair, error) {
			l, err := p.open(addr, later)
			if err != nil {
				return nil, err
			}
			do := pairOf(l)
			return func(ctx context.Context, key string) error { return do(context.WithoutCancel(ctx), key) }, nil
		}}, workers))
	}
	figures, err := b.compare(title, workers, b.each, scenarios...)
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{p50, ratio, perSecond, worst}}
	for i, f := range figures {
		t.Rows = append(t.Rows, row{scenarios[i].name, []float64{f.P50.Seconds(), f.P50.Seconds() / figures[0].P50.Seconds(), f.Rate, f.Worst.Seconds()}})
	}
	for _, f := range figures[1:3] {
		if workers == 1 {
			t.Goals = append(t.Goals, atMost("p50, times that of the lock service", f.P50.Seconds()/figures[0].P50.Seconds(), 1))
		} else {
			t.Goals = append(t.Goals, atLeast("rate, times that of the lock service", f.Rate/figures[0].Rate, 1))
		}
	}
	b.report(t)
	return nil
}
