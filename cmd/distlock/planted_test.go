package main

import (
	"context"
	"os"
	"sync"
	"sync/atomic"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/open"
)

// A planted store is a correct store with one planted bug.
type planted struct {
	driver.Forward
	calls   atomic.Int64
	refused atomic.Int64
	fault   string
	mu      sync.Mutex
	granted map[string]uint64 // a fencing token that was granted, by key
}

// plant returns [open.Open] with a bug planted in the store.
func plant(fault string) func(context.Context, string) (*open.Source, error) {
	return func(ctx context.Context, url string) (*open.Source, error) {
		s, err := open.Open(ctx, url)
		if err == nil {
			s.Store = &planted{Forward: driver.Forward{Store: s.Store}, fault: fault, granted: map[string]uint64{}}
		}
		return s, err
	}
}

// brokenMain is the main function of a program whose store has the bug that TEST_PLANTED names.
func brokenMain() {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, redact: open.Redact, open: plant(os.Getenv("TEST_PLANTED"))}
	os.Exit(a.execute(context.Background(), os.Args[1:]))
}

// Acquire has three bugs. "forgets" sometimes forgets the claims of the key. "owners" sometimes
// confuses another owner with the holder. "fences" sometimes grants a fencing token twice.
func (s *planted) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	n := s.calls.Add(1)
	if s.fault == "forgets" && n%10 == 0 {
		if _, err := driver.Break(ctx, s.Store, r.Key, 0, "forgotten"); err != nil {
			return driver.Result{}, err
		}
	}
	res, err := s.Store.Acquire(ctx, r)
	// The first refusal counts, because there may be few under load.
	if b := res.Blocker; s.fault == "owners" && err == nil && !res.Granted && b.Fence > 0 && s.refused.Add(1)%3 == 1 {
		return driver.Result{Granted: true, Fence: b.Fence, Used: res.Used}, nil
	}
	if s.fault == "fences" && res.Granted {
		s.mu.Lock()
		defer s.mu.Unlock()
		if old := s.granted[r.Key]; old > 0 && n%10 == 0 {
			res.Fence = old
		}
		s.granted[r.Key] = res.Fence
	}
	return res, err
}

// Release with the bug "owners" ends the claim of any owner.
func (s *planted) Release(ctx context.Context, id driver.ID) error {
	err := s.Store.Release(ctx, id)
	if s.fault == "owners" {
		if _, e := driver.Break(ctx, s.Store, id.Key, 0, "released by another"); e != nil {
			return e
		}
		return nil
	}
	return err
}

// Renew with the bug "owners" succeeds for any owner if the key is held.
func (s *planted) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	behind, err := s.Store.Renew(ctx, r)
	if s.fault == "owners" && err != nil {
		claims, e := driver.Show(ctx, s.Store, r.Key)
		if e == nil && len(claims) > 0 && !claims[0].Waiting {
			return 0, nil
		}
	}
	return behind, err
}

// RenewAll has the bug of Renew.
func (s *planted) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	for i, r := range rs {
		out[i].Behind, out[i].Err = s.Renew(ctx, r)
	}
	return out
}
