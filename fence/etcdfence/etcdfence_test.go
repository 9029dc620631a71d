package etcdfence_test

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/fence/etcdfence"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/etcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Main(m, nil)) }

// A write under a lease changes something while the claim is live, and nothing afterwards: neither
// when the lock is free nor when another process holds it.
func TestGuard(t *testing.T) {
	ctx := t.Context()
	client, err := clientv3.New(clientv3.Config{Endpoints: testenv.Etcd(t).Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	locker := func() *distlock.Locker {
		s, err := etcd.New(client, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		l, err := distlock.New(s)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a, b := locker(), locker()
	g, err := etcdfence.New(client, "")
	if err != nil {
		t.Fatal(err)
	}
	write := func(l fence.Lease, value string) error {
		_, err := g.Do(ctx, l, clientv3.OpPut("total", value))
		return err
	}
	value := func() string {
		resp, err := client.Get(ctx, "total")
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatal(resp, err)
		}
		return string(resp.Kvs[0].Value)
	}
	first, err := a.Lock(ctx, "invoice/42")
	if err != nil {
		t.Fatal(err)
	}
	late, err := fence.Of(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(first, "1"); err != nil || value() != "1" {
		t.Fatal(err)
	}
	if err := first.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	if err := write(late, "late"); !errors.Is(err, fence.ErrStale) || value() != "1" {
		t.Error("when the lock is free:", err)
	}
	second, err := b.Lock(ctx, "invoice/42", distlock.MaxWait(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := write(late, "late"); !errors.Is(err, fence.ErrStale) || value() != "1" {
		t.Error("when another process holds the lock:", err)
	}
	if err := write(second, "2"); err != nil || value() != "2" {
		t.Error(err)
	}
	if err := write(fence.Proof{}, "3"); !errors.Is(err, fence.ErrInvalid) {
		t.Error(err)
	}
	if _, err := etcdfence.New(nil, ""); err == nil {
		t.Error("a nil client was accepted")
	}
	if err := second.Unlock(ctx); err != nil {
		t.Error(err)
	}
}
