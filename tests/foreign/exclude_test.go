package foreign

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// A rule is a sentence about distlock and another client on one key.
type rule struct {
	sentence string
	check    func(p *pair)
}

var rules = []rule{
	{"a lock of another client is refused, and the error names the client", func(p *pair) {
		p.other.must("yes", "take", p.key, long)
		p.untouched(func() { p.refused(long-soon, long) })
		p.other.must("yes", "release", p.key)
		p.ok(p.lock().Unlock(p.ctx))
	}},
	{"a wait that ends names the other client, and leaves nothing behind", func(p *pair) {
		p.other.must("yes", "take", p.key, long)
		ctx, cancel := context.WithTimeout(p.ctx, short)
		defer cancel()
		_, err := p.ours.Lock(ctx, p.name)
		p.named(err, long-2*soon, long)
		if !errors.Is(err, context.DeadlineExceeded) {
			p.t.Fatalf("got %v", err)
		}
		p.other.must("yes", "release", p.key)
		p.other.must("yes", "take", p.key, long)
	}},
	{"a release by another client is found within one poll interval", func(p *pair) {
		p.other.must("yes", "take", p.key, long)
		got := p.wait() // polls within a second
		p.waiting(got)
		released := time.Now()
		p.other.must("yes", "release", p.key)
		p.ok(p.granted(got, released, time.Now().Add(time.Second+soon)).Unlock(p.ctx))
	}},
	{"the end of another client's TTL is found at once, and not before", func(p *pair) {
		began := time.Now()
		p.other.must("yes", "take", p.key, short)
		// Polls would come only after 10 s.
		got := p.wait(distlock.Backoff(time.Second, time.Minute))
		ends := began.Add(short)
		p.ok(p.granted(got, ends, ends.Add(soon)).Unlock(p.ctx))
	}},
	{"a renewal by another client keeps waiters out", func(p *pair) {
		p.other.must("yes", "take", p.key, alive)
		got := p.wait(distlock.Backoff(poll, poll))
		var began time.Time
		for range 5 {
			time.Sleep(alive / 4)
			p.waiting(got)
			began = time.Now()
			p.other.must("yes", "renew", p.key, alive)
		}
		p.ok(p.granted(got, began.Add(alive), began.Add(alive+soon)).Unlock(p.ctx))
	}},
	{"a lock of distlock is refused to another client until its last holder releases it", func(p *pair) {
		for _, h := range holds {
			a := h.take(p, long)
			p.untouched(func() { p.other.must("no", "take", p.key, long) })
			if h.shared {
				b := h.take(p, long)
				p.other.must("no", "take", p.key, long)
				a.release()
				p.other.must("no", "take", p.key, long)
				a = b
			}
			p.other.send("await", p.key, long, poll, soon)
			time.Sleep(5 * poll)
			p.other.silent()
			a.release()
			if got := p.other.answer(); got != "yes" {
				p.t.Fatalf("%s: after the release: %s", h.name, got)
			}
			p.refused(long-soon, long)
			p.other.must("yes", "release", p.key)
		}
	}},
	{"a lock that distlock renews is refused to another client all the time", func(p *pair) {
		type renewed struct {
			*pair
			held
		}
		var all []renewed
		for _, h := range holds {
			b := p.onOtherKey()
			all = append(all, renewed{b, h.take(b, alive)})
		}
		for end := time.Now().Add(2 * alive); time.Now().Before(end); time.Sleep(poll) {
			for _, r := range all {
				got := p.other.call("take", r.key, long)
				r.renew() // fails if the lock was lost; then the other client may have it
				if got != "no" {
					p.t.Fatalf("while it was held: %s", got)
				}
			}
		}
		for _, r := range all {
			r.release()
			p.other.must("yes", "take", r.key, long)
		}
	}},
	{"a lowered weight leaves no gap for another client", func(p *pair) {
		for range 20 {
			r := p.request(driver.Whole, driver.Whole, long)
			p.acquire(r)
			p.other.send("hammer", p.key, long, soon)
			for _, r.Weight = range []int64{3, 2, 1} {
				p.acquire(r)
				p.other.silent()
			}
			p.ok(p.ours.store.Release(p.ctx, r.ID))
			if got := p.other.answer(); !strings.HasPrefix(got, "yes ") {
				p.t.Fatalf("after the release: %s", got)
			}
		}
	}},
	{"the lock of a killed holder is free for another client after its TTL", func(p *pair) {
		const ttl = 5 * time.Second
		began := time.Now()
		var killed []*pair
		for _, h := range holds {
			b := p.onOtherKey()
			holder := testenv.Helper(p.t, "holder", p.srv.Addr, b.name, h.name, ttl.String())
			if line := holder.Line(); line != "held" {
				p.t.Fatalf("the holder printed %q", line)
			}
			holder.Kill()
			p.other.must("no", "take", b.key, long)
			killed = append(killed, b)
		}
		for _, b := range killed {
			p.other.must("yes", "await", b.key, long, poll, ttl+soon)
			if took := time.Since(began); took < ttl {
				p.t.Fatalf("taken after %v, before the TTL expired", took)
			}
		}
	}},
	{"a late call of another client touches no claim", func(p *pair) {
		for _, h := range holds {
			p.other.must("yes", "take", p.key, short)
			p.ok(p.lock().Unlock(p.ctx)) // waits until the other lock expires
			a := h.take(p, long)
			p.untouched(func() {
				p.other.must("no", "renew", p.key, short)
				p.other.must("no", "release", p.key)
			})
			a.renew()
			a.release()
		}
	}},
	{"a late call of distlock touches no other client's lock", func(p *pair) {
		for _, h := range holds {
			late := p.request(h.weight, h.limit, short)
			p.acquire(late)
			p.other.must("yes", "await", p.key, long, poll, soon)
			p.untouched(func() {
				_, err := p.ours.store.Renew(p.ctx, driver.Renewal{ID: late.ID, TTL: long})
				if !errors.Is(err, driver.ErrNotHeld) {
					p.t.Errorf("%s: renew: %v", h.name, err)
				}
				if err := p.ours.store.Release(p.ctx, late.ID); !errors.Is(err, driver.ErrNotHeld) {
					p.t.Errorf("%s: release: %v", h.name, err)
				}
				if res, err := p.ours.store.Acquire(p.ctx, late); err != nil || res.Granted {
					p.t.Errorf("%s: acquire: %+v, %v", h.name, res, err)
				}
			})
			p.other.must("yes", "renew", p.key, long)
			p.other.must("yes", "release", p.key)
		}
	}},
	{"a lease that was lost to another client reports the loss", func(p *pair) {
		lease := p.lock(distlock.TTL(short), distlock.NoRenewal())
		p.other.must("yes", "await", p.key, long, poll, soon)
		if err := lease.Err(); !errors.Is(err, distlock.ErrLost) {
			p.t.Errorf("Err: %v", err)
		}
		p.untouched(func() {
			if err := lease.Unlock(p.ctx); !errors.Is(err, distlock.ErrLost) {
				p.t.Errorf("Unlock: %v", err)
			}
		})
		p.other.must("yes", "release", p.key)
	}},
	{"a lease whose key was deleted and taken by another client is lost", func(p *pair) {
		lease := p.lock(distlock.TTL(short))
		_, err := p.srv.Do(p.ctx, "DEL", p.key)
		p.ok(err)
		p.other.must("yes", "take", p.key, long)
		p.untouched(func() {
			select {
			case <-lease.Done():
			case <-time.After(soon):
				p.t.Error("the holder was not notified")
			}
			if err := lease.Unlock(p.ctx); !errors.Is(err, distlock.ErrLost) {
				p.t.Errorf("Unlock: %v", err)
			}
		})
	}},
	{"fences rise although another client holds the lock in between", func(p *pair) {
		var last uint64
		for range 5 {
			lease := p.lock(distlock.Backoff(poll, poll))
			if lease.Fence() <= last {
				p.t.Fatalf("fence %d after %d", lease.Fence(), last)
			}
			last = lease.Fence()
			p.ok(lease.Unlock(p.ctx))
			p.other.must("yes", "take", p.key, long)
			p.other.must("yes", "release", p.key)
		}
	}},
}

func TestExclusion(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t, testenv.Shared())
			other := start(t, k, srv)
			for _, r := range rules {
				if !t.Run(r.sentence, func(t *testing.T) { r.check(newPair(t, srv, other)) }) {
					other = start(t, k, srv) // the old client may still send an answer
				}
			}
		})
	}
}

// A hold is a way in which distlock holds a key.
type hold struct {
	name          string
	weight, limit int64
	shared        bool // a second holder is possible
}

var holds = []hold{
	{"exclusive", driver.Whole, driver.Whole, false},
	{"shared", 1, driver.Whole, true},
	{"counted", 2, 5, true},
}

// held is a key that distlock holds. Its renew may do nothing, because leases renew themselves.
type held struct{ renew, release func() }

// take acquires the key like a caller: by TryLock, by TryRLock, or like the kinds that count.
func (h hold) take(p *pair, ttl time.Duration) held {
	p.t.Helper()
	if h.name == "counted" {
		r := p.request(h.weight, h.limit, ttl)
		p.acquire(r)
		return held{
			renew: func() {
				p.t.Helper()
				_, err := p.ours.store.Renew(p.ctx, driver.Renewal{ID: r.ID, TTL: ttl})
				p.ok(err)
			},
			release: func() { p.t.Helper(); p.ok(p.ours.store.Release(p.ctx, r.ID)) },
		}
	}
	lease, err := h.lease(p.ctx, p.ours, p.name, ttl)
	p.ok(err)
	return held{
		renew:   func() { p.t.Helper(); p.ok(lease.Err()) },
		release: func() { p.t.Helper(); p.ok(lease.Unlock(p.ctx)) },
	}
}

func (h hold) lease(
	ctx context.Context, o ours, name string, ttl time.Duration,
) (*distlock.Lease, error) {
	if h.shared {
		return o.TryRLock(ctx, name, distlock.TTL(ttl))
	}
	return o.TryLock(ctx, name, distlock.TTL(ttl))
}

// playHolder is a role: the process holds a key until it is killed. Arguments: address, name, hold
// and TTL.
func playHolder(args []string) int {
	if err := holdOn(args[0], args[1], args[2], args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("held")
	select {}
}

func holdOn(addr, name, how, ttl string) error {
	d, err := time.ParseDuration(ttl)
	if err != nil {
		return err
	}
	o, _, err := open(addr)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, h := range holds {
		switch {
		case h.name != how:
		case how == "counted":
			r := driver.Request{ID: driver.ID{Key: name, Owner: rand.Text()}, Weight: h.weight,
				Limit: h.limit, TTL: d}
			if res, err := o.store.Acquire(ctx, r); err != nil || !res.Granted {
				return fmt.Errorf("not granted: %+v, %w", res, err)
			}
			return nil
		default:
			_, err := h.lease(ctx, o, name, d)
			return err
		}
	}
	return fmt.Errorf("unknown hold %q", how)
}
