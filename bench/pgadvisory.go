package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/pgadvisory"
)

// advisoryWays returns the bare statements, with a connection for each worker, and distlock.
func advisoryWays(workers int) []way {
	return []way{
		{"raw: try with nextval, unlock (pgx)", func(url string, later func(func())) (pair, error) { return rawAdvisory(url, workers, later) }},
		{"distlock", func(url string, later func(func())) (pair, error) {
			l, err := openAdvisory(url, later)
			return pairOf(l), err
		}},
	}
}

func (b *bench) advisoryPair(url string) error {
	return b.pairTable("PostgreSQL advisory, free key, 1 goroutine: the pair", url, advisoryWays(1))
}

func (b *bench) advisoryPairs(url string) error {
	return b.pairsTable("PostgreSQL advisory, free keys, 16 goroutines: pairs (raw on a connection each, distlock on 4)", url, advisoryWays(16), 16, 0)
}

// advisoryHandOff measures how soon a waiter elsewhere has the lock.
func (b *bench) advisoryHandOff(url string) error {
	title := "PostgreSQL advisory, one waiter elsewhere: from the call of Unlock until Lock returns"
	if !b.pick(title) {
		return nil
	}
	all := []waking{
		{"raw: unlock, to a waiter in pg_advisory_lock (pgx)", rawAdvisoryHandOff},
		wakeLocker(peer{"distlock", func(url string, later func(func())) (locker, error) { return openAdvisory(url, later) }}),
	}
	return b.wakeTable(title, url, all, times("p50, times the bare one", 1.5))
}

func openAdvisory(url string, later func(func())) (ours, error) {
	s, err := pgadvisory.Open(context.Background(), url)
	if err != nil {
		return ours{}, err
	}
	later(func() { _ = s.Close() })
	return newDistlock(s, later, distlock.TTL(ttl))
}

// rawConns opens connections of pgx, and creates the sequence.
func rawConns(url string, n int, later func(func())) ([]*pgx.Conn, error) {
	ctx := context.Background()
	conns := make([]*pgx.Conn, n)
	for i := range conns {
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			return nil, err
		}
		later(func() { _ = c.Close(ctx) })
		conns[i] = c
	}
	_, err := conns[0].Exec(ctx, pgadvisory.Migration(""))
	return conns, err
}

// rawAdvisory is the minimum for a pair with a fence: two statements on a dedicated connection.
func rawAdvisory(url string, workers int, later func(func())) (pair, error) {
	conns, err := rawConns(url, workers, later)
	if err != nil {
		return nil, err
	}
	idle := make(chan *pgx.Conn, workers)
	for _, c := range conns {
		idle <- c
	}
	return func(_ context.Context, key string) error {
		c, ctx := <-idle, context.Background()
		defer func() { idle <- c }()
		n := pgadvisory.Key(key)
		var granted, freed bool
		var fence int64
		if err := c.QueryRow(ctx, "select pg_try_advisory_lock($1), nextval('distlock.advisory_fence')", n).Scan(&granted, &fence); err != nil {
			return err
		}
		if !granted {
			return errTaken
		}
		if err := c.QueryRow(ctx, "select pg_advisory_unlock($1)", n).Scan(&freed); err != nil {
			return err
		}
		if !freed {
			return errNotOurs
		}
		return nil
	}, nil
}

// rawAdvisoryHandOff measures a connection that waits in the server until another connection
// unlocks.
func rawAdvisoryHandOff(url string, later func(func())) (func(context.Context) (time.Duration, error), error) {
	conns, err := rawConns(url, 2, later)
	if err != nil {
		return nil, err
	}
	n := int64(0)
	run := func(c *pgx.Conn, f string) error {
		tag, err := c.Exec(context.Background(), "select "+f+"($1)", n)
		if err == nil && tag.RowsAffected() != 1 {
			err = errors.New("no reply")
		}
		return err
	}
	return func(context.Context) (time.Duration, error) {
		n++
		if err := run(conns[0], "pg_advisory_lock"); err != nil {
			return 0, err
		}
		d, err := handOver(func() error { return run(conns[1], "pg_advisory_lock") }, func() error { return run(conns[0], "pg_advisory_unlock") }, settle)
		return d, errors.Join(err, run(conns[1], "pg_advisory_unlock"))
	}, nil
}
