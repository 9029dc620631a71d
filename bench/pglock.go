package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"cirello.io/pglock"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx: it is faster than the default of pglock
)

// openPglock opens pglock on connections of its own, one for each goroutine. A waiter of pglock
// pauses for a whole lease between two attempts.
func openPglock(lease time.Duration) func(string, func(func())) (locker, error) {
	return func(url string, later func(func())) (locker, error) {
		db, err := sql.Open("pgx", url)
		if err != nil {
			return nil, err
		}
		later(func() { _ = db.Close() })
		db.SetMaxIdleConns(contenders)
		c, err := pglock.UnsafeNew(db, pglock.WithLeaseDuration(lease), pglock.WithHeartbeatFrequency(lease/3))
		if err != nil {
			return nil, err
		}
		return byPglock{c}, c.TryCreateTable()
	}
}

// pairOfPglock is a pair that is always finished: a lock that is left behind would block its name
// for a lease.
func pairOfPglock(url string, later func(func())) (pair, error) {
	l, err := openPglock(ttl)(url, later)
	do := pairOf(l)
	return func(ctx context.Context, key string) error { return do(context.WithoutCancel(ctx), key) }, err
}

type byPglock struct{ *pglock.Client }

func (p byPglock) lock(ctx context.Context, key string) (hold, error) {
	l, err := p.AcquireContext(ctx, key)
	return pglockHold{l}, err
}

type pglockHold struct{ *pglock.Lock }

// unlock ignores a lock that was lost before: on a busy machine a lease of 1 s ends too soon.
func (h pglockHold) unlock() error {
	if err := h.Close(); !errors.Is(err, pglock.ErrLockAlreadyReleased) {
		return err
	}
	return nil
}
