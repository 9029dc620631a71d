package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/pgadvisory"
)

// advisoryWays are the bare statements, on a connection for each worker, and distlock.
func advisoryWays(workers int) []way {
	return []way{
		{"raw: try with nextval, unlock (pgx)", func(url string, later func(func())) (pair, error) { return rawAdvisory(url, workers, later) }},
		{"distlock", func(url string, later func(func())) (pair, error) {
			l, err := openAdvisory(url, later)
			return func(ctx context.Context, key string) error {
				h, err := l.lock(ctx, key)
				if err != nil {
					return err
				}
				return h.unlock()
			}, err
		}},
	}
}

func (b *bench) advisoryFigures(title, url string, workers int) (names []string, figures []figure, err error) {
	var scenarios []scenario
	for _, w := range advisoryWays(workers) {
		names = append(names, w.name)
		scenarios = append(scenarios, onFreeKeys(url, w, workers))
	}
	figures, err = b.compare(title, workers, b.each, scenarios...)
	return names, figures, err
}

func (b *bench) advisoryPair(url string) error {
	title := "PostgreSQL advisory, free key, 1 goroutine: the pair"
	if !b.pick(title) {
		return nil
	}
	names, figures, err := b.advisoryFigures(title, url, 1)
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{p50, ratio, perSecond, worst}}
	base := figures[0].P50.Seconds()
	for i, f := range figures {
		t.Rows = append(t.Rows, row{names[i], []float64{f.P50.Seconds(), f.P50.Seconds() / base, f.Rate, f.Worst.Seconds()}})
	}
	t.Goals = []goal{atMost("p50 of the raw pair's", figures[1].P50.Seconds()/base, 1.3)}
	b.report(t)
	return nil
}

func (b *bench) advisoryPairs(url string) error {
	const workers = 16
	title := fmt.Sprintf("PostgreSQL advisory, free keys, %d goroutines: pairs (raw on a connection each, distlock on 4)", workers)
	if !b.pick(title) {
		return nil
	}
	names, figures, err := b.advisoryFigures(title, url, workers)
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{perSecond, ratio, p50, worst}}
	for i, f := range figures {
		t.Rows = append(t.Rows, row{names[i], []float64{f.Rate, f.Rate / figures[0].Rate, f.P50.Seconds(), f.Worst.Seconds()}})
	}
	b.report(t)
	return nil
}

// advisoryHandOff measures how soon one who waits elsewhere has the lock.
func (b *bench) advisoryHandOff(url string) error {
	title := "PostgreSQL advisory, one waiter elsewhere: from the call of Unlock until Lock returns"
	if !b.pick(title) {
		return nil
	}
	all := []waking{
		{"raw: unlock, to one in pg_advisory_lock (pgx)", rawAdvisoryHandOff},
		wakeLocker(peer{"distlock", func(url string, later func(func())) (locker, error) { return openAdvisory(url, later) }}),
	}
	var s stack
	defer s.undo()
	wakes := make([]func(context.Context) (time.Duration, error), len(all))
	for i, w := range all {
		var err error
		if wakes[i], err = w.open(url, s.push); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	figures, err := b.rotate(title, len(all), func(i int) (f figure, err error) {
		var spans histogram
		for until := time.Now().Add(2 * b.each); time.Now().Before(until) || spans.total < 3; {
			d, err := wakes[i](b.ctx)
			if err != nil {
				return f, fmt.Errorf("%s: %w", all[i].name, err)
			}
			f.Worst = max(f.Worst, d)
			spans.add(d)
		}
		f.P50 = spans.p50()
		return f, nil
	})
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{p50, ratio, worst}}
	base := figures[0].P50.Seconds()
	for i, f := range figures {
		t.Rows = append(t.Rows, row{all[i].name, []float64{f.P50.Seconds(), f.P50.Seconds() / base, f.Worst.Seconds()}})
	}
	t.Goals = []goal{atMost("p50 of the server's own wait", figures[1].P50.Seconds()/base, 1.5)}
	b.report(t)
	return nil
}

func openAdvisory(url string, later func(func())) (ours, error) {
	s, err := pgadvisory.Open(context.Background(), url)
	if err != nil {
		return ours{}, err
	}
	later(func() { _ = s.Close() })
	return newDistlock(s, later, distlock.TTL(ttl))
}

// rawConns opens connections of pgx, and the sequence.
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

// rawAdvisory is the least that a fenced pair takes: two statements on a connection of one's own.
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

// rawAdvisoryHandOff has one connection wait in the server for what another gives back.
func rawAdvisoryHandOff(url string, later func(func())) (func(context.Context) (time.Duration, error), error) {
	conns, err := rawConns(url, 2, later)
	if err != nil {
		return nil, err
	}
	n := int64(0)
	run := func(c *pgx.Conn, f string) error {
		tag, err := c.Exec(context.Background(), "select "+f+"($1)", n)
		if err == nil && tag.RowsAffected() != 1 {
			err = errors.New("no answer")
		}
		return err
	}
	return func(context.Context) (time.Duration, error) {
		n++
		if err := run(conns[0], "pg_advisory_lock"); err != nil {
			return 0, err
		}
		d, err := handOver(func() error { return run(conns[1], "pg_advisory_lock") }, func() error { return run(conns[0], "pg_advisory_unlock") })
		return d, errors.Join(err, run(conns[1], "pg_advisory_unlock"))
	}, nil
}
