package foreign

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

const (
	long = 20 * time.Second // a TTL that does not expire during a test
	// A TTL that expires, but not before the next steps in a short scheduler stall.
	short = 2 * time.Second
	alive = 4 * time.Second       // a TTL that is renewed in time, also on a busy machine
	poll  = 20 * time.Millisecond // between two tries of a waiting client
	soon  = 5 * time.Second       // the limit for an immediate action on a busy machine
)

// another is the name that distlock shows for a holder that is not distlock.
const another = "another client"

// ours is distlock in one process.
type ours struct {
	*distlock.Locker
	store *redis.Store
}

// open connects to Redis. It returns errors for the roles, which have no test.
func open(addr string) (o ours, end func(), err error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return o, nil, err
	}
	if o.store, err = rueidisstore.New(c, nil); err != nil {
		return o, nil, err
	}
	if o.Locker, err = distlock.New(o.store); err != nil {
		return o, nil, err
	}
	return o, func() {
		o.Close(context.Background())
		o.store.Close()
		c.Close()
	}, nil
}

func connect(t *testing.T, srv *testenv.RedisServer) ours {
	t.Helper()
	o, end, err := open(srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return o
}

// A pair is distlock and another client, on one key.
type pair struct {
	t     *testing.T
	ctx   context.Context
	srv   *testenv.RedisServer
	ours  ours
	other *client
	name  string // in distlock
	key   string // in Redis and other clients
}

// newPair returns a pair of distlock and a client, which may be nil, on a new key.
func newPair(t *testing.T, srv *testenv.RedisServer, other *client) *pair {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	name := rand.Text()
	return &pair{t, ctx, srv, connect(t, srv), other.in(t), name, "lock:" + name}
}

// onOtherKey returns the same pair on another key.
func (p *pair) onOtherKey() *pair {
	b := *p
	b.name = rand.Text()
	b.key = "lock:" + b.name
	return &b
}

// refused checks that distlock cannot acquire the key in any mode, and that the error has the
// holder and the time left. A holder without expiry has 0 left.
func (p *pair) refused(least, most time.Duration) {
	p.t.Helper()
	_, err := p.ours.TryLock(p.ctx, p.name)
	p.named(err, least, most)
	_, err = p.ours.TryRLock(p.ctx, p.name)
	p.named(err, least, most)
	res, err := p.ours.store.Acquire(p.ctx, p.request(1, 5, long))
	if err != nil || res.Granted || res.Retry < least || res.Retry > most+time.Millisecond {
		p.t.Fatalf("a counted claim: got %+v, %v", res, err)
	}
}

// named checks that an error names the other client.
func (p *pair) named(err error, least, most time.Duration) {
	p.t.Helper()
	var held *distlock.HeldError
	if !errors.Is(err, distlock.ErrHeld) || !errors.As(err, &held) {
		p.t.Fatalf("got %v, want ErrHeld", err)
	}
	if held.Name != p.name || held.Holder != another || held.Fence != 0 || held.Left < least ||
		held.Left > most+time.Millisecond {
		p.t.Fatalf("got %v (fence %d), want held by %s with %v to %v left", err, held.Fence, another,
			least, most)
	}
}

func (p *pair) request(weight, limit int64, ttl time.Duration) driver.Request {
	return driver.Request{ID: driver.ID{Key: p.name, Owner: rand.Text()}, Weight: weight, Limit: limit,
		TTL: ttl, Holder: "ours"}
}

func (p *pair) acquire(r driver.Request) driver.Result {
	p.t.Helper()
	res, err := p.ours.store.Acquire(p.ctx, r)
	if err != nil || !res.Granted {
		p.t.Fatalf("got %+v, %v, want a grant", res, err)
	}
	return res
}

func (p *pair) lock(opts ...distlock.Option) *distlock.Lease {
	p.t.Helper()
	lease, err := p.ours.Lock(p.ctx, p.name, opts...)
	p.ok(err)
	return lease
}

func (p *pair) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// A grant is the result of a wait in the background.
type grant struct {
	lease *distlock.Lease
	err   error
	at    time.Time
}

// wait acquires the lock in the background, and returns when the call is in the queue.
func (p *pair) wait(opts ...distlock.Option) <-chan grant {
	p.t.Helper()
	got := make(chan grant, 1)
	go func() {
		lease, err := p.ours.Lock(p.ctx, p.name, opts...)
		got <- grant{lease, err, time.Now()}
	}()
	inQueue(p.t, p.ours, p.name, 1)
	return got
}

// inQueue waits until n callers are in the queue of a name.
func inQueue(t *testing.T, o ours, name string, n int) {
	t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		why, err := o.Status(context.Background(), distlock.KindLock, name)
		if err != nil {
			t.Fatal(err)
		}
		if len(why.Waiters) == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("want %d waiters: %v", n, why)
		}
	}
}

// granted returns the lease of a wait that ended between two times.
func (p *pair) granted(got <-chan grant, least, most time.Time) *distlock.Lease {
	p.t.Helper()
	g := <-got
	p.ok(g.err)
	if g.at.Before(least) || g.at.After(most) {
		p.t.Fatalf("granted after %v, want 0 to %v", g.at.Sub(least), most.Sub(least))
	}
	return g.lease
}

// waiting fails the test if a wait has ended.
func (p *pair) waiting(got <-chan grant) {
	p.t.Helper()
	select {
	case g := <-got:
		p.t.Fatalf("granted too early, or failed: %+v", g)
	default:
	}
}

// state returns the value of the key, and the time of its expiry by the clock of Redis in ms.
func (p *pair) state() string {
	p.t.Helper()
	value, err := p.srv.Do(p.ctx, "GET", p.key)
	p.ok(err)
	ends, err := p.srv.Do(p.ctx, "PEXPIRETIME", p.key)
	p.ok(err)
	return fmt.Sprint(value, " until ", ends)
}

// untouched fails the test if f changed the key.
func (p *pair) untouched(f func()) {
	p.t.Helper()
	before := p.state()
	f()
	if after := p.state(); after != before {
		p.t.Fatalf("the key was %s, but is now %s", before, after)
	}
}
