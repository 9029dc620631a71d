package guarantees_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// A server that may evict keys evicts locks. The doctor warns about it.
func TestEviction(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t, testenv.Config("maxmemory 4mb", "maxmemory-policy allkeys-lru",
		"maxmemory-samples 64", "maxmemory-eviction-tenacity 100"))
	s := openURL(t, srv.URL)
	info, err := driver.Inspect(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	named := false
	for _, f := range info.Findings {
		if strings.Contains(f.What, "allkeys-lru") && f.Level == driver.LevelDanger && f.Cure != "" {
			named = true
			t.Logf("the doctor: %s; %s; %s", f.What, f.Means, f.Cure)
		}
	}
	if !named {
		t.Errorf("no warning: %+v", info.Findings)
	}
	sc := newScene(t)
	first := sc.lock("a", locker(t, s, distlock.TTL(time.Minute)))
	// No call uses the lock in this time, so it is the least recently used key.
	for began, i := time.Now(), 0; do(t, srv, "EXISTS", "lock:key") == int64(1); i++ {
		if time.Since(began) > soon {
			t.Fatal("the lock is not evicted")
		}
		do(t, srv, "EVAL", "for i = 1, 200 do redis.call('SET', ARGV[1] .. i, string.rep('x', 1000)) end return 1", "0", fmt.Sprint("ballast ", i, " "))
	}
	second := sc.lock("b", locker(t, openURL(t, srv.URL), distlock.TTL(time.Minute)))
	sc.twoHolders(first)
	sc.release(second)
}
