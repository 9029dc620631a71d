package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/mem"
	"github.com/distlock/distlock/store/sqlite"
)

// growthRounds is how often each point is measured. A table has the medians.
const growthRounds = 3

// A growth describes a table that shows how a cost grows: its columns are sizes.
type growth struct {
	File  string        `json:"file"` // the name of its plot
	X     string        `json:"x"`
	Y     string        `json:"y"`
	Sizes []float64     `json:"sizes"`
	Limit time.Duration `json:"limit"` // for one point
}

// A growing is a number that grows, and the operation whose cost it may change.
type growing struct {
	file, title, x, y string
	// measure prepares n of them, and returns the time of one operation. It has a store of its own.
	measure func(ctx context.Context, b *bench, s driver.Store, n int) (time.Duration, error)
}

// waitersFile is the name of the plot of waiters.
const waitersFile = "growth-waiters"

func growings() []growing {
	return []growing{
		{waitersFile, "many waiters of one name, a Locker each: time for each grant", "waiters", "time for each grant", grants},
		{"growth-leases", "many leases held: Lock and Unlock of another name", "leases held", "time for Lock and Unlock", nextToLeases},
		{"growth-renewal", "many leases held: renewal of all, time for each", "leases held", "time for each renewal", renewalOfAll},
		{"growth-names", "many names used in random order: Lock and Unlock", "names", "time for Lock and Unlock", amongNames},
		{"growth-permits", "a semaphore with all permits but one held: Acquire and Unlock", "permits", "time for Acquire and Unlock", lastPermit},
		{"growth-readers", "many shared holders of one name: RLock and Unlock", "shared holders", "time for RLock and Unlock", oneMoreReader},
	}
}

// A backend opens an empty store.
type backend struct {
	name string
	open func(later func(func())) (driver.Store, error)
}

// growth measures how costs grow with the size of a deployment, on every store.
func (b *bench) growth() error {
	var s stack
	defer s.undo()
	b.rounds = min(growthRounds, b.rounds)
	backends, err := b.backends(s.push)
	if err != nil {
		return err
	}
	for _, g := range growings() {
		if title := "growth: " + g.title; b.pick(title) {
			t, err := b.grow(title, g, backends)
			if err != nil {
				return err
			}
			if g.file == waitersFile {
				t.Goals = flat(t, b.sizes())
			}
			b.report(t)
		}
	}
	return nil
}

// flat returns the goals of a grant: with many waiters it takes about as long as with a hundred.
func flat(t table, sizes []float64) (goals []goal) {
	few := slices.Index(sizes, 100)
	for _, r := range t.Rows {
		for at, n := range sizes {
			if few >= 0 && (n == 4000 || n == 10_000 && r.Name == "Redis") {
				what := fmt.Sprintf("%s: time with %.0f waiters, times that with 100", r.Name, n)
				goals = append(goals, atMost(what, r.Values[at]/r.Values[few], 1.5))
			}
		}
	}
	return goals
}

// sizes are the sizes that are measured.
func (b *bench) sizes() []float64 {
	if b.quick {
		return []float64{10}
	}
	return []float64{10, 100, 1000, 4000, 10_000}
}

// grow measures all points of one table in interleaved rounds. A point that was not done in its
// time is not repeated, and larger sizes on the same store are not tried.
func (b *bench) grow(title string, g growing, backends []backend) (table, error) {
	sizes := b.sizes()
	t := table{Title: title, Growth: &growth{g.file, g.x, g.y, sizes, b.limit}}
	for _, n := range sizes {
		t.Columns = append(t.Columns, column{strconv.Itoa(int(n)), "s"})
	}
	t.Columns = append(t.Columns, column{"growth", "x"})
	times := make([][][]time.Duration, len(backends)) // by store and size
	done := make([]int, len(backends))                // the number of sizes that were done
	for i := range backends {
		times[i], done[i] = make([][]time.Duration, len(sizes)), len(sizes)
	}
	for round := range b.rounds {
		for at, n := range sizes {
			for i, store := range backends {
				if at >= done[i] {
					continue
				}
				b.progress.show("%s: round %d, %v on %s", title, round+1, n, store.name)
				d, err := b.point(g, store, int(n))
				switch {
				case errors.Is(err, errNotDone):
					done[i] = at
				case err != nil:
					return t, fmt.Errorf("%s: %v on %s: %w", title, n, store.name, err)
				}
				times[i][at] = append(times[i][at], d)
			}
		}
	}
	for i, store := range backends {
		t.Rows = append(t.Rows, growthRow(store.name, times[i], done[i]))
	}
	return t, nil
}

// growthRow returns the medians of a store, and how many times the first the last one is.
func growthRow(name string, times [][]time.Duration, done int) row {
	r := row{Name: name}
	for at := range times {
		v := math.Inf(1)
		if at < done {
			v = median(times[at], func(d time.Duration) time.Duration { return d }).Seconds()
		}
		r.Values = append(r.Values, v)
	}
	grown := math.NaN()
	if done > 1 {
		grown = r.Values[done-1] / r.Values[0]
	}
	r.Values = append(r.Values, grown)
	return r
}

// errNotDone says that a point took longer than its limit.
var errNotDone = errors.New("not done")

// point measures one point on an empty store. Its context is cancelled and has no deadline, since
// some calls use the deadline.
func (b *bench) point(g growing, store backend, n int) (time.Duration, error) {
	var s stack
	defer s.undo()
	open, err := store.open(s.push)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(b.ctx)
	defer cancel(nil)
	defer time.AfterFunc(b.limit, func() { cancel(errNotDone) }).Stop()
	d, err := g.measure(ctx, b, open, n)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if errors.Is(err, context.DeadlineExceeded) { // the store did not answer in time
		err = errNotDone
	}
	return d, err
}

// backends returns the stores. Each call of open starts with an empty one.
func (b *bench) backends(later func(func())) ([]backend, error) {
	e, err := newEnv(later)
	if err != nil {
		return nil, err
	}
	var pg *testenv.PostgresServer
	if err := e.do(func() { pg = testenv.Postgres(e, testenv.Fsync()) }); err != nil {
		return nil, err
	}
	b.notePostgres(pg)
	var maria *testenv.MariaDBServer
	if err := e.do(func() { maria = testenv.MariaDB(e, testenv.Fsync()) }); err != nil {
		return nil, err
	}
	b.noteMariaDB(maria)
	return []backend{
		{"Redis", func(later func(func())) (driver.Store, error) {
			addrs, err := b.startRedis(1, later)
			if err != nil {
				return nil, err
			}
			return openStore(addrs[0], later)
		}},
		{"PostgreSQL", func(later func(func())) (driver.Store, error) {
			e, err := newEnv(later)
			if err != nil {
				return nil, err
			}
			var url string
			if err := e.do(func() { url = pg.Database(e) }); err != nil {
				return nil, err
			}
			return openTable(url, later)
		}},
		{"MariaDB", func(later func(func())) (driver.Store, error) {
			e, err := newEnv(later)
			if err != nil {
				return nil, err
			}
			var url string
			if err := e.do(func() { url = maria.Database(e) }); err != nil {
				return nil, err
			}
			return openMaria(url, later)
		}},
		{"SQLite", func(later func(func())) (driver.Store, error) {
			e, err := newEnv(later)
			if err != nil {
				return nil, err
			}
			s, err := sqlite.Open(b.ctx, filepath.Join(e.dir, "locks"), nil)
			if err != nil {
				return nil, err
			}
			later(func() { _ = s.Close() })
			return s, nil
		}},
		{"etcd", func(later func(func())) (driver.Store, error) {
			e, err := newEnv(later)
			if err != nil {
				return nil, err
			}
			var server *testenv.EtcdCluster
			if err := e.do(func() { server = testenv.Etcd(e, testenv.Fsync()) }); err != nil {
				return nil, err
			}
			b.noteEtcd(server.Members[0].Addr)
			return etcdStore(server.Members[0].Addr, later)
		}},
		{"memory", func(func(func())) (driver.Store, error) { return mem.New(), nil }},
	}, nil
}

// claimMany acquires n claims in parallel, and returns them. They are not renewed: their TTL is an
// hour.
func claimMany(ctx context.Context, s driver.Store, n int, weight, limit int64, key func(i int) string) ([]driver.Renewal, error) {
	out, errs := make([]driver.Renewal, n), make([]error, contenders)
	var wg sync.WaitGroup
	for w := range contenders {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += contenders {
				id := driver.ID{Key: key(i), Owner: rand.Text()}
				res, err := s.Acquire(ctx, driver.Request{ID: id, Weight: weight, Limit: limit, TTL: time.Hour, Holder: "bench@host"})
				if err == nil && !res.Granted {
					err = errTaken
				}
				out[i], errs[w] = driver.Renewal{ID: id, TTL: time.Hour}, err
			}
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}
