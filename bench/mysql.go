package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/go-sql-driver/mysql"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/mysql"
)

// mysql compares distlock on tables of MariaDB with bare prepared statements.
func (b *bench) mysql() error {
	var s stack
	defer s.undo()
	env, err := newEnv(s.push)
	if err != nil {
		return err
	}
	for _, disk := range []bool{true, false} {
		var server *testenv.MariaDBServer
		title, opts := "MariaDB", []testenv.Option{testenv.Fsync()}
		if !disk {
			title, opts = "MariaDB without waits for the disk", nil
		}
		if err := env.do(func() { server = testenv.MariaDB(env, opts...) }); err != nil {
			return err
		}
		b.noteMariaDB(server)
		if err := b.pairTable(title+", free key, 1 goroutine: the pair", server.URL, mariaWays(1)); err != nil {
			return err
		}
		const workers = 16
		if err := b.pairsTable(title+", free keys, 16 goroutines: pairs", server.URL, usedBefore(mariaWays(workers), workers), workers, 0.8); err != nil {
			return err
		}
		if !disk {
			continue
		}
		if err := b.pairsTable(title+", new names, 16 goroutines: pairs", server.URL, neverUsed(mariaWays(workers)), workers, 0.8); err != nil {
			return err
		}
		if err := b.mariaHandOff(server.URL); err != nil {
			return err
		}
		if err := b.renewTable("MariaDB", server.URL, openMaria); err != nil {
			return err
		}
	}
	return nil
}

// mariaWays returns the bare statements, with up to a connection for each worker, and distlock.
func mariaWays(workers int) []way {
	return []way{
		{"raw: insert or take over with a fence, delete (prepared)", func(url string, later func(func())) (pair, error) { return rawMaria(url, workers, later) }},
		{"distlock", func(url string, later func(func())) (pair, error) {
			l, err := openMariaLocker(url, later)
			return pairOf(l), err
		}},
		{"distlock: Acquire and Release of the store", func(url string, later func(func())) (pair, error) {
			s, err := openMaria(url, later)
			return pairOfStore(s), err
		}},
	}
}

// usedBefore returns the ways with names that they have all used once. The row of a name stays for
// ten minutes after its last use, so only the first use inserts it.
func usedBefore(ways []way, workers int) []way {
	for i, w := range ways {
		ways[i].open = func(url string, later func(func())) (pair, error) {
			do, err := w.open(url, later)
			if err != nil {
				return nil, err
			}
			errs := make([]error, workers)
			var wg sync.WaitGroup
			for n := range workers {
				wg.Go(func() {
					for _, name := range freeNames(w.name, n) {
						errs[n] = errors.Join(errs[n], do(context.Background(), name))
					}
				})
			}
			wg.Wait()
			return do, errors.Join(errs...)
		}
	}
	return ways
}

// neverUsed returns the ways with a new name for each pair.
func neverUsed(ways []way) []way {
	for i, w := range ways {
		ways[i].open = func(url string, later func(func())) (pair, error) {
			do, err := w.open(url, later)
			var n atomic.Int64
			return func(ctx context.Context, name string) error {
				return do(ctx, fmt.Sprint("new-", name, "-", n.Add(1)))
			}, err
		}
	}
	return ways
}

// pairOfStore is a pair without a Locker: without the work for renewals and queues of a process.
func pairOfStore(s driver.Store) pair {
	return func(_ context.Context, key string) error {
		ctx, id := context.Background(), driver.ID{Key: key, Owner: rand.Text()}
		res, err := s.Acquire(ctx, driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl, Holder: "bench@host"})
		if err == nil && !res.Granted {
			err = errTaken
		}
		if err != nil {
			return err
		}
		return s.Release(ctx, id)
	}
}

// mariaHandOff measures how soon a waiter elsewhere has the lock. The store polls, so the limit is
// a time.
func (b *bench) mariaHandOff(url string) error {
	title := "MariaDB, one waiter elsewhere: from the call of Unlock until Lock returns"
	if !b.pick(title) {
		return nil
	}
	all := []waking{
		{"raw: one statement that commits (prepared)", rawMariaStatement},
		wakeLocker(peer{"distlock", func(url string, later func(func())) (locker, error) { return openMariaLocker(url, later) }}),
	}
	return b.wakeTable(title, url, all, func(_, ours time.Duration) goal { return below("p50", ours, 20*time.Millisecond) })
}

func openMaria(url string, later func(func())) (driver.Store, error) {
	s, err := mysql.Open(context.Background(), url)
	if err != nil {
		return nil, err
	}
	later(func() { _ = s.Close() })
	return s, nil
}

func openMariaLocker(url string, later func(func())) (ours, error) {
	s, err := openMaria(url, later)
	if err != nil {
		return ours{}, err
	}
	return newDistlock(s, later, distlock.TTL(ttl))
}

// rawMariaDB opens connections, and creates the table of the bare statements.
func rawMariaDB(url string, conns int, later func(func())) (*sql.DB, error) {
	conf, err := testenv.MariaDBConfig(url)
	if err != nil {
		return nil, err
	}
	connector, err := client.NewConnector(conf)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	later(func() { _ = db.Close() })
	db.SetMaxIdleConns(conns)
	db.SetMaxOpenConns(conns)
	_, err = db.Exec(`create table if not exists raw_lease (name varbinary(512) primary key, owner varbinary(64) not null,
		fence bigint not null, holder varbinary(255) not null, meta blob not null, ends datetime(6) not null) engine = InnoDB`)
	return db, err
}

const rawMariaInsert = `insert into raw_lease values (?, ?, 1, ?, '{}', sysdate(6) + interval ? second) on duplicate key update
	fence = if(ends <= sysdate(6), fence + 1, fence), holder = if(ends <= sysdate(6), values(holder), holder),
	meta = if(ends <= sysdate(6), values(meta), meta), owner = if(ends <= sysdate(6), values(owner), owner),
	ends = if(ends <= sysdate(6), values(ends), ends) returning owner, fence`

// rawMaria is the minimum for a pair with an expiry: two prepared statements. Its fence is deleted
// with the row.
func rawMaria(url string, workers int, later func(func())) (pair, error) {
	db, err := rawMariaDB(url, workers, later)
	if err != nil {
		return nil, err
	}
	insert, err := db.Prepare(rawMariaInsert)
	if err != nil {
		return nil, err
	}
	remove, err := db.Prepare("delete from raw_lease where name = ? and owner = ?")
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, key string) error {
		owner, who, fence := rand.Text(), "", int64(0)
		if err := insert.QueryRow([]byte(key), owner, "holder", int(ttl.Seconds())).Scan(&who, &fence); err != nil {
			return err
		}
		if who != owner {
			return errTaken
		}
		res, err := remove.Exec([]byte(key), owner)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return errNotOurs
		}
		return nil
	}, nil
}

// rawMariaStatement measures one statement that commits.
func rawMariaStatement(url string, later func(func())) (func(context.Context) (time.Duration, error), error) {
	db, err := rawMariaDB(url, 1, later)
	if err != nil {
		return nil, err
	}
	st, err := db.Prepare(`replace into raw_lease values (?, ?, 1, '', '{}', sysdate(6))`)
	if err != nil {
		return nil, err
	}
	n := 0
	return func(context.Context) (time.Duration, error) {
		n++
		began := time.Now()
		_, err := st.Exec([]byte(fmt.Sprint("statement", n%64)), rand.Text())
		return time.Since(began), err
	}, nil
}
