package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/server/access"
)

// A demo makes traffic on a server, so that its pages have something to show: a deploy that others
// wait for, cron jobs, a queue of workers, a semaphore, an election, a rate limit, a holder that is
// gone, and two transfers that take their locks in opposite orders.
type demo struct {
	ctx     context.Context
	store   func(identity string) driver.Store
	actors  sync.WaitGroup
	lockers []*distlock.Locker
}

// runDemo starts the traffic. The function that it returns ends it.
func runDemo(ctx context.Context, store driver.Store) (end func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	d := &demo{ctx: ctx, store: func(identity string) driver.Store {
		return &actor{driver.Forward{Store: store}, access.Everything(identity)}
	}}
	for _, start := range []func() error{d.deploys, d.crons, d.orders, d.reports, d.election, d.mails, d.sessions, d.gone, d.transfers} {
		if err = start(); err != nil {
			break
		}
	}
	end = func() error { //nolint:contextcheck // it is called when ctx has ended
		cancel()
		d.actors.Wait()
		last, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		var errs []error
		for _, l := range d.lockers {
			errs = append(errs, l.Close(last))
		}
		return errors.Join(errs...)
	}
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

// locker returns the Locker of a process on some host.
func (d *demo) locker(holder string, opts ...distlock.Option) (*distlock.Locker, error) {
	host, _, _ := strings.Cut(holder, " ")
	l, err := distlock.New(d.store("token:"+host), append([]distlock.Option{distlock.Holder(holder)}, opts...)...)
	if err == nil {
		d.lockers = append(d.lockers, l)
	}
	return l, err
}

// forever calls a function until the traffic ends.
func (d *demo) forever(f func(ctx context.Context)) {
	d.actors.Go(func() {
		for d.ctx.Err() == nil {
			f(d.ctx)
		}
	})
}

// between sleeps for a while, or until the traffic ends.
func (d *demo) between(least, most time.Duration) {
	select {
	case <-time.After(least + rand.N(most-least)): //nolint:gosec // pauses are no secret
	case <-d.ctx.Done():
	}
}

// work returns a function that takes a while.
func (d *demo) work(least, most time.Duration) func(context.Context) error {
	return func(context.Context) error { d.between(least, most); return nil }
}

// deploys are four runners of one pipeline.
func (d *demo) deploys() error {
	for n := range 4 {
		l, err := d.locker(fmt.Sprintf("ci-%d release", n+1))
		if err != nil {
			return err
		}
		version := 140 + n
		d.forever(func(ctx context.Context) {
			_ = l.Do(ctx, "deploy/production", d.work(35*time.Second, 80*time.Second), distlock.Note(fmt.Sprintf("release 2.%d", version)), distlock.Meta("team", "platform"))
			version += 4
			d.between(20*time.Second, 60*time.Second)
		})
	}
	return nil
}

// crons are jobs that two hosts try to run.
func (d *demo) crons() error {
	for n, job := range []string{"cron/invoices", "cron/cleanup-uploads", "cron/exchange-rates"} {
		for host := range 2 {
			l, err := d.locker(fmt.Sprintf("worker-%d cron", host+1))
			if err != nil {
				return err
			}
			d.forever(func(ctx context.Context) {
				_, _ = l.TryDo(ctx, job, d.work(2*time.Second, 6*time.Second))
				d.between(time.Duration(5+3*n)*time.Second, time.Duration(9+4*n)*time.Second)
			})
		}
	}
	return nil
}

// orders are workers that change the stock of one warehouse, one at a time.
func (d *demo) orders() error {
	for n := range 9 {
		l, err := d.locker(fmt.Sprintf("shop-%d orders", n+1))
		if err != nil {
			return err
		}
		d.forever(func(ctx context.Context) {
			_ = l.Do(ctx, "stock/warehouse-7", d.work(100*time.Millisecond, 900*time.Millisecond))
			d.between(500*time.Millisecond, 4*time.Second)
		})
	}
	return nil
}

// reports are heavy queries, of which three may run at a time.
func (d *demo) reports() error {
	for n := range 6 {
		l, err := d.locker(fmt.Sprintf("reports-%d", n+1))
		if err != nil {
			return err
		}
		s, err := l.Semaphore(3)
		if err != nil {
			return err
		}
		d.forever(func(ctx context.Context) {
			_ = s.Do(ctx, "reporting-database", d.work(4*time.Second, 12*time.Second))
			d.between(time.Second, 5*time.Second)
		})
	}
	return nil
}

// election has three candidates. The leader steps down now and then.
func (d *demo) election() error {
	for n := range 3 {
		l, err := d.locker(fmt.Sprintf("scheduler-%c", 'a'+n))
		if err != nil {
			return err
		}
		e, err := l.Election()
		if err != nil {
			return err
		}
		d.forever(func(ctx context.Context) {
			_ = e.Run(ctx, "scheduler", func(ctx context.Context, _ *distlock.Term) error {
				d.between(2*time.Minute, 5*time.Minute)
				return ctx.Err()
			})
			d.between(time.Second, 2*time.Second)
		})
	}
	return nil
}

// mails share a rate limit.
func (d *demo) mails() error {
	l, err := d.locker("mailer-1")
	if err != nil {
		return err
	}
	m, err := l.Limiter(20, 10*time.Second)
	if err != nil {
		return err
	}
	d.forever(func(ctx context.Context) {
		_ = m.Allow(ctx, "mail-provider")
		d.between(200*time.Millisecond, time.Second)
	})
	return nil
}

// sessions are locks that are held for long, and that nobody waits for; and one stored result.
func (d *demo) sessions() error {
	l, err := d.locker("editor-2")
	if err != nil {
		return err
	}
	for n := range 14 {
		d.forever(func(ctx context.Context) {
			_ = l.Do(ctx, fmt.Sprintf("documents/contract-%d", 2041+17*n), d.work(time.Minute, 20*time.Minute))
			d.between(time.Second, time.Minute)
		})
	}
	once, err := distlock.NewOnce[string](l, 6*time.Hour, nil)
	if err != nil {
		return err
	}
	d.forever(func(ctx context.Context) {
		_, _ = once.Do(ctx, "import-2026-11-17", func(context.Context) (string, error) { return "done", nil })
		d.between(time.Minute, 2*time.Minute)
	})
	return nil
}

// gone is a holder that does not renew its lease, and a caller that waits for it.
func (d *demo) gone() error {
	first, err := d.locker("laptop-ana migrate", distlock.TTL(90*time.Second))
	if err != nil {
		return err
	}
	second, err := d.locker("ci-2 migrate")
	if err != nil {
		return err
	}
	d.forever(func(ctx context.Context) {
		lease, err := first.Lock(ctx, "schema-migration", distlock.NoRenewal(), distlock.Note("add column orders.tax"))
		if err == nil {
			d.between(88*time.Second, 95*time.Second)
			_ = lease.Unlock(context.WithoutCancel(ctx))
		}
		d.between(20*time.Second, 40*time.Second)
	})
	d.forever(func(ctx context.Context) {
		d.between(10*time.Second, 20*time.Second)
		_ = second.Do(ctx, "schema-migration", d.work(time.Second, 5*time.Second))
		d.between(20*time.Second, 30*time.Second)
	})
	return nil
}

// transfers take the locks of two accounts in opposite orders: a deadlock, whose victim fails
// within two seconds. It comes again and again.
func (d *demo) transfers() error {
	accounts := []string{"account/1042", "account/2077"}
	for n := range 2 {
		l, err := d.locker(fmt.Sprintf("transfers-%d", n+1))
		if err != nil {
			return err
		}
		d.forever(func(ctx context.Context) {
			_ = l.Do(ctx, accounts[n], func(ctx context.Context) error {
				d.between(300*time.Millisecond, 500*time.Millisecond)
				return l.Do(ctx, accounts[1-n], d.work(time.Second, 2*time.Second))
			})
			next := time.Until(time.Now().Truncate(20 * time.Second).Add(20 * time.Second)) // both begin at the same time
			d.between(next, next+50*time.Millisecond)
		})
	}
	return nil
}

// An actor is the store as one client of the server has it.
type actor struct {
	driver.Forward
	id *access.Identity
}

func (a *actor) as(ctx context.Context) context.Context { return access.WithIdentity(ctx, a.id) }

// Acquire forwards to the store.
func (a *actor) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	return a.Store.Acquire(a.as(ctx), r)
}

// Renew forwards to the store.
func (a *actor) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	return a.Store.Renew(a.as(ctx), r)
}

// RenewAll forwards to the store.
func (a *actor) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	return driver.RenewAll(a.as(ctx), a.Store, rs)
}

// Release forwards to the store.
func (a *actor) Release(ctx context.Context, id driver.ID) error {
	return a.Store.Release(a.as(ctx), id)
}

// Watch forwards to the store.
func (a *actor) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	return driver.Watch(a.as(ctx), a.Store, id)
}

// Show forwards to the store.
func (a *actor) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	return driver.Show(a.as(ctx), a.Store, key)
}

// List forwards to the store.
func (a *actor) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return driver.List(a.as(ctx), a.Store, prefix)
}
