package pgadvisory_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// The table of docs/pgadvisory.md says yes for every supported feature and no for every refused
// one.
func TestStore_can(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s := opened(t, url)
	l, err := distlock.New(s)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	hold := func(opts ...distlock.Option) func(context.Context) error {
		return func(ctx context.Context) error {
			return l.Do(ctx, "can", func(context.Context) error { return nil }, opts...)
		}
	}
	calls := map[string]func(context.Context) error{
		"mutex": hold(),
		"read/write lock": func(ctx context.Context) error {
			lease, err := l.RLock(ctx, "can")
			if err != nil {
				return err
			}
			return lease.Unlock(ctx)
		},
		"several names": func(ctx context.Context) error {
			leases, err := l.LockAll(ctx, []string{"a", "b"})
			if err != nil {
				return err
			}
			return leases.Unlock(ctx)
		},
		"fences":                  hold(distlock.RequireFence()),
		"TTL ended by the server": func(context.Context) error { return can(s.Features().Expiry) },
		"semaphores":              func(context.Context) error { _, err := l.Semaphore(2); return err },
		"rate limits":             func(context.Context) error { _, err := l.Limiter(2, time.Minute); return err },
		"`Once`":                  func(context.Context) error { _, err := distlock.NewOnce[int](l, time.Hour, nil); return err },
		"`Cron`":                  func(context.Context) error { _, err := l.Cron(nil); return err },
		"`Detach`": func(ctx context.Context) error {
			lease, err := l.Lock(ctx, "can")
			if err == nil {
				defer lease.Unlock(ctx)
				_, err = lease.Detach(t.Context())
			}
			return err
		},
		"`Attach`": func(ctx context.Context) error {
			_, err := l.Attach(ctx, handle(t))
			return err
		},
		"`MinHold`":          hold(distlock.MinHold(time.Second)),
		"`LockDelay`":        hold(distlock.LockDelay(time.Second)),
		"`distlock acquire`": func(context.Context) error { return can(s.Features().Detached) },
		"values":             hold(distlock.Value([]byte("v"))),
		"metadata":           hold(distlock.Meta("k", "v")),
		"election":           func(context.Context) error { _, err := l.Election(); return err },
		"`ls`": func(ctx context.Context) error {
			for _, err := range driver.List(ctx, s, "") {
				return err
			}
			return nil
		},
		"`break`": func(ctx context.Context) error { _, err := driver.Break(ctx, s, "can", 0, "why"); return err },
	}
	doc, err := os.ReadFile("../../docs/pgadvisory.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(row, "|")
		yes := strings.HasPrefix(cells[2], " yes")
		for feature := range strings.SplitSeq(strings.TrimSpace(cells[1]), ", ") {
			call := calls[feature]
			if call == nil {
				t.Errorf("%q is in the table, or twice, and nothing tries it", feature)
				continue
			}
			delete(calls, feature)
			if err := call(t.Context()); yes && err != nil ||
				!yes && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: %v, and the table says%s", feature, err, cells[2])
			}
		}
	}
	for feature := range calls {
		t.Errorf("%q is not in the table", feature)
	}
}

// handle returns a handle of another store.
func handle(t *testing.T) distlock.Handle {
	t.Helper()
	l, err := distlock.New(mem.New())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	lease, err := l.Lock(t.Context(), "can")
	if err != nil {
		t.Fatal(err)
	}
	h, err := lease.Detach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// can returns errors.ErrUnsupported if there is no such feature.
func can(has bool) error {
	if has {
		return nil
	}
	return errors.ErrUnsupported
}
