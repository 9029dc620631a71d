package redisfence_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/fence/redisfence"
	"github.com/distlock/distlock/fence/redisfence/goredisfence"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis/goredisstore"
)

// holderRole locks in the Redis at args[0], and waits for a line on stdin while it is paused. It
// then writes two keys without checking its lease again, one through the guard and one without.
func holderRole(args []string) int {
	if err := hold(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func hold(addr string) error {
	ctx, c := context.Background(), goclient.NewClient(&goclient.Options{Addr: addr})
	defer c.Close()
	store, err := goredisstore.New(c, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	locker, err := distlock.New(store)
	if err != nil {
		return err
	}
	g, err := redisfence.New(goredisfence.New(c), nil)
	if err != nil {
		return err
	}
	lease, err := locker.Lock(ctx, "balance", distlock.TTL(1500*time.Millisecond))
	if err != nil {
		return err
	}
	fmt.Println("held")
	if !bufio.NewScanner(os.Stdin).Scan() {
		return errors.New("no line on stdin")
	}
	if err := c.Set(ctx, "plain", "late", 0).Err(); err != nil {
		return err
	}
	err = g.Set(ctx, lease, "fenced", "late")
	fmt.Println(errors.Is(err, fence.ErrStale), err)
	return nil
}

// A holder is stopped for longer than its lock lasts, and continues to write. Its fenced write is
// refused. Its unfenced write overwrites the value of the next holder.
func TestPausedHolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be stopped here")
	}
	r := testenv.Redis(t)
	ctx, c := t.Context(), goclient.NewClient(&goclient.Options{Addr: r.Addr})
	defer c.Close()
	store, err := goredisstore.New(c, nil)
	must(t, err)
	defer store.Close()
	locker, err := distlock.New(store)
	must(t, err)
	defer locker.Close(context.WithoutCancel(ctx))
	g := newGuard(t, goredisfence.New(c), nil)

	h := testenv.Helper(t, "holder", r.Addr)
	if line := h.Line(); line != "held" {
		t.Fatalf("the holder printed %q", line)
	}
	h.Pause()
	lease, err := locker.Lock(ctx, "balance", distlock.MaxWait(20*time.Second))
	must(t, err)
	must(t, g.Set(ctx, lease, "fenced", "next"))
	must(t, c.Set(ctx, "plain", "next", 0).Err())
	h.Say("go")
	h.Resume()
	if answer := h.Line(); !strings.HasPrefix(answer, "true") {
		t.Errorf("the paused holder got %q, want ErrStale", answer)
	}
	if v := value(t, r, "GET", "fenced"); v != "next" {
		t.Errorf("the fenced key holds %v: the late write was not refused", v)
	}
	if v := value(t, r, "GET", "plain"); v != "late" {
		t.Errorf("the plain key holds %v: the control shows no lost update", v)
	}
	must(t, lease.Unlock(ctx))
}
