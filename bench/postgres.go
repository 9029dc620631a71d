package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// postgres compares distlock on tables and on advisory locks of PostgreSQL with the bare
// statements.
func (b *bench) postgres() error {
	var s stack
	defer s.undo()
	env, err := newEnv(s.push)
	if err != nil {
		return err
	}
	var server *testenv.PostgresServer
	if err := env.do(func() { server = testenv.Postgres(env, testenv.Fsync()) }); err != nil {
		return err
	}
	b.notePostgres(server)
	for _, f := range []func(url string) error{
		b.leasePair, b.leasePairs, b.leaseHandOff, b.leasesRenewed, b.advisoryPair, b.advisoryPairs, b.advisoryHandOff,
	} {
		if err := f(server.URL); err != nil {
			return err
		}
	}
	return nil
}

// leaseWays returns the bare statements, with a connection for each worker, and distlock.
func leaseWays(workers int) []way {
	return []way{
		{"raw: insert or take over with a fence, delete (pgx)", func(url string, later func(func())) (pair, error) { return rawLease(url, workers, later) }},
		{"distlock", func(url string, later func(func())) (pair, error) {
			l, err := openLease(url, later)
			return pairOf(l), err
		}},
		{"pglock", pairOfPglock},
	}
}

func (b *bench) leasePair(url string) error {
	return b.pairTable("PostgreSQL lease, free key, 1 goroutine: the pair", url, leaseWays(1))
}

func (b *bench) leasePairs(url string) error {
	return b.pairsTable("PostgreSQL lease, free keys, 16 goroutines: pairs (raw and pglock on a connection each, distlock on one)", url, leaseWays(16), 16, 1.2)
}

// pairTable measures pairs of one goroutine. The second way is distlock; its limit is 1.3 times the
// first.
func (b *bench) pairTable(title, url string, ways []way) error {
	figures, err := b.pairs(title, url, ways, 1)
	if figures == nil || err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{p50, ratio, perSecond, worst}}
	base := figures[0].P50.Seconds()
	for i, f := range figures {
		t.Rows = append(t.Rows, row{ways[i].name, []float64{f.P50.Seconds(), f.P50.Seconds() / base, f.Rate, f.Worst.Seconds()}})
	}
	t.Goals = []goal{atMost("p50, times the bare one", figures[1].P50.Seconds()/base, 1.3)}
	b.report(t)
	return nil
}

// pairsTable measures pairs of many goroutines. The second way is distlock; its goal is least times
// the rate of the first. Without a goal, least is 0.
func (b *bench) pairsTable(title, url string, ways []way, workers int, least float64) error {
	figures, err := b.pairs(title, url, ways, workers)
	if figures == nil || err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{perSecond, ratio, p50, worst}}
	for i, f := range figures {
		t.Rows = append(t.Rows, row{ways[i].name, []float64{f.Rate, f.Rate / figures[0].Rate, f.P50.Seconds(), f.Worst.Seconds()}})
	}
	if least > 0 {
		t.Goals = []goal{atLeast("rate, times the bare one", figures[1].Rate/figures[0].Rate, least)}
	}
	b.report(t)
	return nil
}

// pairs measures pairs on free keys. It returns nil if the table was not chosen.
func (b *bench) pairs(title, url string, ways []way, workers int) ([]figure, error) {
	if !b.pick(title) {
		return nil, nil
	}
	var scenarios []scenario
	for _, w := range ways {
		scenarios = append(scenarios, onFreeKeys(url, w, workers))
	}
	return b.compare(title, workers, b.each, scenarios...)
}

// leaseHandOff measures how soon a waiter elsewhere has the lock, in round trips of a statement
// that commits.
func (b *bench) leaseHandOff(url string) error {
	title := "PostgreSQL lease, one waiter elsewhere: from the call of Unlock until Lock returns"
	if !b.pick(title) {
		return nil
	}
	all := []waking{
		{"raw: one statement that commits (pgx)", rawStatement},
		wakeLocker(peer{"distlock", func(url string, later func(func())) (locker, error) { return openLease(url, later) }}),
		wakeLocker(peer{"pglock, a lease of 1 s: it polls once a lease", openPglock(time.Second)}),
	}
	return b.wakeTable(title, url, all, times("p50, times one bare statement", 3))
}

func (b *bench) leasesRenewed(url string) error {
	return b.renewTable("PostgreSQL lease", url, func(url string, later func(func())) (driver.Store, error) { return openTable(url, later) })
}

// renewTable measures the renewal of many claims in one statement.
func (b *bench) renewTable(name, url string, open func(url string, later func(func())) (driver.Store, error)) error {
	const claims = 1000
	title := fmt.Sprintf("%s, %d claims held: one renewal of all", name, claims)
	if !b.pick(title) {
		return nil
	}
	renewing := func(n int) func(url string, later func(func())) (pair, error) {
		return func(url string, later func(func())) (pair, error) {
			s, err := open(url, later)
			if err != nil {
				return nil, err
			}
			rs, err := claimMany(b.ctx, s, n, driver.Whole, driver.Whole, func(i int) string { return fmt.Sprint("held/", n, "/", i) })
			return renewal(s, rs), err
		}
	}
	one, many := renewing(1), renewing(claims)
	figures, err := b.compare(title, 1, b.each, onFreeKeys(url, way{"1 claim", one}, 1), onFreeKeys(url, way{"1000 claims", many}, 1))
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{p50, ratio, worst}}
	base := figures[0].P50.Seconds()
	for i, name := range []string{"1 claim", fmt.Sprint(claims, " claims")} {
		f := figures[i]
		t.Rows = append(t.Rows, row{name, []float64{f.P50.Seconds(), f.P50.Seconds() / base, f.Worst.Seconds()}})
	}
	b.report(t)
	return nil
}

func openTable(url string, later func(func())) (*postgres.Store, error) {
	s, err := postgres.Open(context.Background(), url)
	if err != nil {
		return nil, err
	}
	later(func() { _ = s.Close() })
	return s, nil
}

func openLease(url string, later func(func())) (ours, error) {
	s, err := openTable(url, later)
	if err != nil {
		return ours{}, err
	}
	return newDistlock(s, later, distlock.TTL(ttl))
}

func renewal(s driver.Store, rs []driver.Renewal) pair {
	return func(ctx context.Context, _ string) error {
		for _, r := range driver.RenewAll(ctx, s, rs) {
			if r.Err != nil {
				return r.Err
			}
		}
		return nil
	}
}

// leaseConns opens connections of pgx, and creates the table of the bare statements.
func leaseConns(url string, n int, later func(func())) (chan *pgx.Conn, error) {
	ctx := context.Background()
	idle := make(chan *pgx.Conn, n)
	for i := range n {
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			return nil, err
		}
		later(func() { _ = c.Close(ctx) })
		if i == 0 {
			if _, err := c.Exec(ctx, `create table if not exists raw_lease (key text primary key, owner text not null, fence bigint not null,
				holder text not null, meta jsonb not null, ends timestamptz not null)`); err != nil {
				return nil, err
			}
		}
		idle <- c
	}
	return idle, nil
}

// rawLease is the minimum for a pair with an expiry: two statements on a dedicated connection. Its
// fence is deleted with the row.
func rawLease(url string, workers int, later func(func())) (pair, error) {
	idle, err := leaseConns(url, workers, later)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, key string) error {
		c, ctx := <-idle, context.Background()
		defer func() { idle <- c }()
		owner := rand.Text()
		var fence int64
		if err := c.QueryRow(ctx, `insert into raw_lease as l values ($1, $2, 1, $3, '{}', clock_timestamp() + $4) on conflict (key) do update
			set owner = excluded.owner, fence = l.fence + 1, holder = excluded.holder, meta = excluded.meta, ends = excluded.ends
			where l.ends <= clock_timestamp() returning fence`, key, owner, "holder", ttl).Scan(&fence); err != nil {
			return err
		}
		tag, err := c.Exec(ctx, "delete from raw_lease where key = $1 and owner = $2", key, owner)
		if err == nil && tag.RowsAffected() != 1 {
			err = errNotOurs
		}
		return err
	}, nil
}

// rawStatement measures one statement that commits.
func rawStatement(url string, later func(func())) (func(context.Context) (time.Duration, error), error) {
	idle, err := leaseConns(url, 1, later)
	if err != nil {
		return nil, err
	}
	c := <-idle
	n := 0
	return func(ctx context.Context) (time.Duration, error) {
		n++
		began := time.Now()
		_, err := c.Exec(ctx, `insert into raw_lease as l values ($1, $2, 1, '', '{}', clock_timestamp() + $3) on conflict (key) do update
			set owner = excluded.owner, fence = l.fence + 1, ends = excluded.ends`, fmt.Sprint("statement", n%64), rand.Text(), ttl)
		return time.Since(began), err
	}, nil
}
