package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/sqlite"
)

// sqlite compares distlock on a file with bare transactions.
func (b *bench) sqlite() error {
	dir, err := os.MkdirTemp("", "distlock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, full := range []bool{false, true} {
		if err := b.filePair(dir, full); err != nil {
			return err
		}
	}
	return b.fileProcesses(dir)
}

// filePair compares Acquire and Release of the store with two bare transactions.
func (b *bench) filePair(dir string, full bool) error {
	mode := "NORMAL"
	if full {
		mode = "FULL"
	}
	title := "SQLite, free key, 1 goroutine, synchronous=" + mode + ": the pair"
	if !b.pick(title) {
		return nil
	}
	names := []string{"raw: insert and delete, a transaction each", "distlock: Acquire and Release of the store", "distlock: Lock and Unlock of a locker"}
	figures, err := b.compare(title, 1, b.each,
		scenario{names[0], func(later func(func())) (deed, error) {
			return rawFile(b.ctx, filepath.Join(dir, "raw-"+mode), mode, later)
		}},
		scenario{names[1], func(later func(func())) (deed, error) {
			return storeFile(b.ctx, filepath.Join(dir, "store-"+mode), full, later)
		}},
		scenario{names[2], func(later func(func())) (deed, error) {
			return lockerFile(b.ctx, filepath.Join(dir, "locker-"+mode), full, later)
		}},
	)
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{perSecond, ratio, p50, worst}}
	for i, f := range figures {
		t.Rows = append(t.Rows, row{names[i], []float64{f.Rate, f.Rate / figures[0].Rate, f.P50.Seconds(), f.Worst.Seconds()}})
	}
	t.Goals = []goal{atLeast("rate by p50, times the bare one", figures[0].P50.Seconds()/figures[1].P50.Seconds(), 0.8)}
	b.report(t)
	return nil
}

// rawFile is the minimum for a lock in SQLite: a transaction that inserts a row, and one that
// deletes it.
func rawFile(ctx context.Context, path, mode string, later func(func())) (deed, error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	later(func() { _ = db.Close() })
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	later(func() { _ = conn.Close() })
	for _, q := range []string{
		"pragma journal_mode = wal", "pragma synchronous = " + mode,
		"create table lock (name blob primary key, owner blob, ends integer) without rowid",
	} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return nil, err
		}
	}
	var stmts []*sql.Stmt
	for _, q := range []string{"begin immediate", "insert into lock values (?, ?, ?)", "delete from lock where name = ? and owner = ?", "commit"} {
		st, err := conn.PrepareContext(ctx, q)
		if err != nil {
			return nil, err
		}
		later(func() { _ = st.Close() })
		stmts = append(stmts, st)
	}
	begin, insert, remove, commit := stmts[0], stmts[1], stmts[2], stmts[3]
	return func(context.Context, int) error {
		name, owner := []byte("name"), []byte(rand.Text())
		for _, step := range []struct {
			st   *sql.Stmt
			args []any
		}{
			{begin, nil}, {insert, []any{name, owner, time.Now().UnixNano()}}, {commit, nil},
			{begin, nil}, {remove, []any{name, owner}}, {commit, nil},
		} {
			// The context cannot end. Otherwise database/sql starts a goroutine for each call.
			if _, err := step.st.ExecContext(context.Background(), step.args...); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func storeFile(ctx context.Context, path string, full bool, later func(func())) (deed, error) {
	s, err := sqlite.Open(ctx, path, &sqlite.Options{Full: full})
	if err != nil {
		return nil, err
	}
	later(func() { _ = s.Close() })
	return func(context.Context, int) error {
		id := driver.ID{Key: "name", Owner: rand.Text()}
		res, err := s.Acquire(context.Background(), driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl, Holder: "bench@host"})
		if err == nil && !res.Granted {
			err = errTaken
		}
		if err != nil {
			return err
		}
		return s.Release(context.Background(), id)
	}, nil
}

func lockerFile(ctx context.Context, path string, full bool, later func(func())) (deed, error) {
	s, err := sqlite.Open(ctx, path, &sqlite.Options{Full: full})
	if err != nil {
		return nil, err
	}
	later(func() { _ = s.Close() })
	l, err := newDistlock(s, later, distlock.TTL(ttl))
	if err != nil {
		return nil, err
	}
	return spread(func(ctx context.Context, key string) error {
		h, err := l.lock(ctx, key)
		if err != nil {
			return err
		}
		return h.unlock()
	}, "file", 1), nil
}

// fileKinds returns the kinds for processes on a file. The address is its path.
func fileKinds() []kind {
	return []kind{
		{"file", "distlock", opener(openFile).shared},
		{"file-alone", "distlock, 16 lockers: no local hand-offs", openFiles},
	}
}

func openFile(path string, later func(func())) (locker, error) {
	s, err := openFileStore(path, later)
	if err != nil {
		return nil, err
	}
	return newDistlock(s, later, distlock.TTL(ttl))
}

// openFiles opens a Locker for each goroutine, all on one store.
func openFiles(path string, later func(func())) ([]locker, error) {
	s, err := openFileStore(path, later)
	if err != nil {
		return nil, err
	}
	return lockers(s, later, distlock.TTL(ttl))
}

func openFileStore(path string, later func(func())) (driver.Store, error) {
	s, err := sqlite.Open(context.Background(), path, nil)
	if err != nil {
		return nil, err
	}
	later(func() { _ = s.Close() })
	return s, nil
}

// fileProcesses measures one key that several processes contend for.
func (b *bench) fileProcesses(dir string) error {
	title := fmt.Sprintf("SQLite, one key, %d processes with %d goroutines each, hold 0", childs, threads)
	if !b.pick(title) {
		return nil
	}
	all := fileKinds()
	figures, err := b.rotate(title, len(all), func(i int) (figure, error) {
		d := longer * b.each
		if b.round == 0 {
			d /= 5
		}
		return b.fleet(filepath.Join(dir, "locks"), all[i], fmt.Sprintf("fleet-%s-%d", all[i].word, b.round), d)
	})
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{perSecond, worst, jain}}
	for i, f := range figures {
		t.Rows = append(t.Rows, row{all[i].name, []float64{f.Rate, f.Worst.Seconds(), f.Jain}})
		t.Goals = append(t.Goals, atLeast(all[i].name+": Jain's index", f.Jain, 0.95))
	}
	b.report(t)
	return nil
}
