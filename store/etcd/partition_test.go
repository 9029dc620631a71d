package etcd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
)

// The first of three members is cut off from the others, as their leader and as a follower, while
// clients of both sides contend for one key. The majority continues. A holder on the other side
// learns that its lock is lost before a process of the majority gets the lock.
func TestCluster_partition(t *testing.T) {
	t.Parallel()
	n := testenv.NewNetwork(t)
	e := testenv.Etcd(t, testenv.Members(3), testenv.Inside(n))
	admin := connect(t, e.Endpoints()...)
	k := &trusted{tb: t}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	majority := e.Endpoints()[1:]
	for _, endpoints := range [][]string{majority, {e.Socket}, {e.Socket}} {
		s := store(t, connect(t, endpoints...), "p")
		wg.Go(func() { contend(ctx, s, k, "key") })
	}
	for _, leads := range []bool{true, false} {
		t.Run(fmt.Sprint("leader=", leads), func(t *testing.T) {
			lead(t, admin, e, leads)
			near, far := locker(t, majority...), locker(t, e.Socket)
			lease, err := far.Lock(t.Context(), "lock")
			if err != nil {
				t.Fatal(err)
			}
			was := k.count()
			if err := n.Cut(testenv.Both); err != nil {
				t.Fatal(err)
			}
			next := eventually(t, near) // without a leader, calls fail
			if lease.Err() == nil || lease.Valid(0) {
				t.Error("another process has the lock, and the holder trusts its lease")
			}
			if next.Fence() <= lease.Fence() {
				t.Errorf("the fence %d after %d", next.Fence(), lease.Fence())
			}
			soon(t, func() error { return atLeast(k.count(), was+3) })
			if err := n.Heal(); err != nil {
				t.Fatal(err)
			}
			if err := next.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			if err := eventually(t, far).Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("%d grants", k.count())
}

// eventually acquires the lock, and repeats calls that fail.
func eventually(t *testing.T, l *distlock.Locker) (lease *distlock.Lease) {
	t.Helper()
	soon(t, func() (err error) {
		lease, err = l.Lock(t.Context(), "lock", distlock.MaxWait(40*time.Second))
		return err
	})
	return lease
}

func atLeast(got, want int) error {
	if got < want {
		return fmt.Errorf("%d grants, want %d", got, want)
	}
	return nil
}

// locker returns a locker of its own. Its leases outlive a scheduler stall.
func locker(t *testing.T, endpoints ...string) *distlock.Locker {
	t.Helper()
	l, err := distlock.New(store(t, connect(t, endpoints...), "p"), distlock.TTL(3*life))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = l.Close(ctx)
	})
	return l
}

// lead makes the first member the leader, or another one.
func lead(t *testing.T, admin *clientv3.Client, e *testenv.EtcdCluster, first bool) {
	t.Helper()
	soon(t, func() error {
		at, ids := leader(t, admin, e)
		if (at == 0) == first {
			return nil
		}
		to := ids[0]
		if at == 0 {
			to = ids[1]
		}
		if _, err := connect(t, e.Endpoints()[at]).MoveLeader(t.Context(), to); err != nil {
			return err
		}
		return fmt.Errorf("the leader has just changed")
	})
}
