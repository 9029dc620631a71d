package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// The primary of a key dies and its replica replaces it. Every operation finds the new primary
// soon, by itself: a claim survives if its TTL is longer than that.
func TestStore_clusterFailover(t *testing.T) {
	t.Parallel()
	const soon = 20 * time.Second // go-redis reads the map of slots once a minute
	cluster := testenv.RedisCluster(t)
	opt := fresh()
	verbs := map[string]func(ctx context.Context, s driver.Store, r driver.Request) error{
		"Acquire": func(ctx context.Context, s driver.Store, r driver.Request) error {
			_, err := s.Acquire(ctx, r)
			return err
		},
		"Renew": func(ctx context.Context, s driver.Store, r driver.Request) error {
			_, err := s.Renew(ctx, driver.Renewal{ID: r.ID, TTL: time.Minute})
			return err
		},
		"RenewAll": func(ctx context.Context, s driver.Store, r driver.Request) error {
			return driver.RenewAll(ctx, s, []driver.Renewal{{ID: r.ID, TTL: time.Minute}})[0].Err
		},
		"Acquire with Replicas": func(ctx context.Context, s driver.Store, r driver.Request) error {
			_, err := s.Acquire(ctx, r)
			if err != nil && strings.Contains(err.Error(), "0 of 1 replicas") {
				return nil // the new primary answered; it has no replicas
			}
			return err
		},
	}
	primary := func(key string) *testenv.RedisServer {
		n, _ := cluster.PrimaryOf(t.Context(), opt.Prefix+key)
		return n
	}
	lost := primary("key")
	// A busy node may not answer in time.
	for began := time.Now(); lost == nil && time.Since(began) < soon; lost = primary("key") {
		time.Sleep(10 * time.Millisecond)
	}
	var tries []func() (string, error)
	for adapter, open := range clusterAdapters {
		plain := open(t, login{addr: strings.Join(cluster.Addrs(), ","), opt: opt})
		for verb, call := range verbs {
			// and a store of its own: one call that finds the primary helps all calls of its client
			own := *opt
			if strings.HasSuffix(verb, "Replicas") {
				own.Replicas = 1
			}
			s := open(t, login{addr: strings.Join(cluster.Addrs(), ","), opt: &own})
			r := exclusive("key")
			for i := 0; i == 0 || primary(r.Key) != lost; i++ {
				r.Key = fmt.Sprint(adapter, verb, i)
			}
			// A stall of the replica must not refuse the claim, so it is taken without Replicas,
			// and the renewal lets the store know the node.
			grant(t, plain, r)
			if _, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: time.Minute}); err != nil {
				t.Fatal(err)
			}
			tries = append(tries, func() (string, error) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return adapter + ": " + verb, call(ctx, s, r)
			})
		}
	}
	if n := do(t, lost, "WAIT", "1", "10000"); n != int64(1) {
		t.Fatalf("%v replicas have the claims", n)
	}
	lost.Kill()
	var wg sync.WaitGroup
	defer wg.Wait()
	promoted := make(chan struct{})
	for _, try := range tries {
		wg.Go(func() {
			var at time.Time
			for {
				name, err := try()
				switch {
				case errors.Is(err, driver.ErrNotHeld):
					t.Errorf("%s: %v, and the replica had the claim", name, err)
					return
				case err == nil && !at.IsZero():
					t.Logf("%s: %v after the replica was promoted", name, time.Since(at).Round(time.Millisecond))
					return
				case !at.IsZero() && time.Since(at) > soon:
					t.Errorf("%s: %v after the replica was promoted: %v", name, time.Since(at), err)
					return
				}
				select {
				case <-promoted:
					if at.IsZero() {
						at = time.Now()
					}
				case <-t.Context().Done():
					return
				default:
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if n := primary("key"); n != nil && n != lost {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Error("no replica was promoted")
			break
		}
	}
	close(promoted)
}
