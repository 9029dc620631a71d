package fence_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/sqlite"
)

// balance returns the guard of a table, and a placeholder of its database.
func balance(driver string) (guard fence.Row, mark string) {
	if driver == "mysql" {
		return fence.Row{Table: "balance", Placeholders: fence.MySQL}, "?"
	}
	return fence.Row{Table: "balance"}, "$1"
}

// holderRole locks, reads two balances, and waits for a line on stdin while it is paused. It then
// writes both without checking its lease again, one through the guard and one without.
func holderRole(args []string) int {
	if err := hold(args[0], source{args[1], args[2]}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func hold(locks string, s source) error {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, locks, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	locker, err := distlock.New(store)
	if err != nil {
		return err
	}
	db, err := sql.Open(s.driver, s.name)
	if err != nil {
		return err
	}
	defer db.Close()
	lease, err := locker.Lock(ctx, "balance", distlock.TTL(pauseTTL))
	if err != nil {
		return err
	}
	var fenced, plain int
	if err := read(ctx, db, &fenced, &plain); err != nil {
		return err
	}
	fmt.Println("read")
	if !bufio.NewScanner(os.Stdin).Scan() {
		return errors.New("no line on stdin")
	}
	guard, mark := balance(s.driver)
	if _, err := db.ExecContext(ctx, "update balance set amount = "+mark+" where id = 2", plain+1); err != nil {
		return err
	}
	err = guard.Update(ctx, db, lease, 1, "amount = "+mark, fenced+1)
	fmt.Println(errors.Is(err, fence.ErrStale), err)
	return nil
}

const pauseTTL = 1500 * time.Millisecond

func read(ctx context.Context, db *sql.DB, fenced, plain *int) error {
	return db.QueryRowContext(ctx, "select a.amount, b.amount from balance a, balance b where a.id = 1 and b.id = 2").Scan(fenced, plain)
}

// A holder is stopped for longer than its lock lasts, and continues to write. Its fenced write is
// refused. Its unfenced write overwrites the value of the next holder.
func TestPausedHolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be stopped here")
	}
	each(t, func(t *testing.T, s source, style fence.Placeholders) {
		if style == fence.Question {
			t.Skip("the placeholders make no difference here")
		}
		ctx, db := t.Context(), s.open(t)
		run(t, db, "create table balance (id integer primary key, amount integer not null, fence bigint not null default 0)")
		run(t, db, "insert into balance (id, amount) values (1, 0), (2, 0)")
		locks := filepath.Join(t.TempDir(), "locks.db")
		store, err := sqlite.Open(ctx, locks, nil)
		must(t, err)
		defer store.Close()
		locker, err := distlock.New(store)
		must(t, err)
		defer locker.Close(context.WithoutCancel(ctx))

		h := testenv.Helper(t, "holder", locks, s.driver, s.name)
		if line := h.Line(); line != "read" {
			t.Fatalf("the holder printed %q", line)
		}
		h.Pause()
		lease, err := locker.Lock(ctx, "balance", distlock.MaxWait(20*time.Second))
		must(t, err)
		var fenced, plain int
		must(t, read(ctx, db, &fenced, &plain))
		guard, mark := balance(s.driver)
		must(t, guard.Update(ctx, db, lease, 1, "amount = "+mark, fenced+100))
		run(t, db, "update balance set amount = "+mark+" where id = 2", plain+100)
		h.Say("go")
		h.Resume()
		answer := h.Line()
		must(t, read(ctx, db, &fenced, &plain))
		if answer[:4] != "true" {
			t.Errorf("the paused holder got %q, want ErrStale", answer)
		}
		if fenced != 100 {
			t.Errorf("the fenced balance is %d, want 100: the late write was not refused", fenced)
		}
		if plain != 1 {
			t.Errorf("the unfenced balance is %d, want 1: the control shows no lost update", plain)
		}
		must(t, lease.Unlock(ctx))
	})
}
