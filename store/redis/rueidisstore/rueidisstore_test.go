package rueidisstore_test

import (
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testenv.Main(m, nil), testenv.IgnoreRueidis()...)
}

func connect(t testing.TB, addrs ...string) client.Client {
	c, err := client.NewClient(client.ClientOption{InitAddress: addrs, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func open(t testing.TB, c client.Client, opt *redis.Options) *redis.Store {
	s, err := rueidisstore.New(c, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// env opens stores with a prefix of their own on the server that all rules share.
func env(srv *testenv.RedisServer) drivertest.Env {
	return drivertest.Env{
		Open: func(t testing.TB) driver.Store {
			return spaced(t, srv.Addr, "rule-"+rand.Text()+":")
		},
		Server: srv.Addr,
		Through: func(t testing.TB, s driver.Store, addr string) driver.Store {
			return spaced(t, addr, s.(space).prefix)
		},
	}
}

// A space is a store that knows its prefix.
type space struct {
	*redis.Store
	prefix string
}

func spaced(t testing.TB, addr, prefix string) space {
	return space{open(t, connect(t, addr), &redis.Options{Prefix: prefix}), prefix}
}

func TestStore_faults(t *testing.T) { drivertest.Faults(t, env(testenv.Redis(t, testenv.Shared()))) }

func TestStore(t *testing.T) { drivertest.Run(t, env(testenv.Redis(t, testenv.Shared()))) }

func TestStore_compared(t *testing.T) { drivertest.Compare(t, env(testenv.Redis(t, testenv.Shared()))) }

// Calls that were held back go to the server as parts of few commands. Each has the answer that it
// would have by itself: a free name is granted, a held one is refused, and a claim that does not
// exist is not released.
func TestStore_merged(t *testing.T) {
	t.Parallel()
	const n = 200 // more than one command takes
	srv := testenv.Redis(t)
	c := connect(t, srv.Addr)
	s := open(t, c, nil)
	request := func(i int, owner string) driver.Request {
		return driver.Request{ID: driver.ID{Key: strconv.Itoa(i), Owner: owner}, Weight: driver.Whole,
			Limit: driver.Whole, TTL: time.Minute}
	}
	scripts := func() (calls int) {
		text, err := c.Do(t.Context(), c.B().Info().Section("commandstats").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ = strings.Cut(text, "cmdstat_evalsha:calls=")
		text, _, _ = strings.Cut(text, ",")
		if calls, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		return calls
	}
	together := func(call func(i int)) {
		t.Helper()
		before := scripts()
		srv.Pause()
		var started, ended sync.WaitGroup
		started.Add(n)
		for i := range n {
			ended.Go(func() {
				started.Done()
				call(i)
			})
		}
		started.Wait()
		time.Sleep(200 * time.Millisecond) // all calls are held back, but for the first
		srv.Resume()
		ended.Wait()
		// A quarter of the calls is sent again, by itself. After the first pause the server looks
		// distant, and up to 64 calls are sent at once.
		if calls := scripts() - before; calls > n/4+64+n/8 {
			t.Errorf("%d commands for %d calls", calls, n)
		}
	}
	held := func(i int) bool { return i%4 == 0 }
	for i := range n {
		if held(i) {
			if res, err := s.Acquire(t.Context(), request(i, "holder")); err != nil || !res.Granted {
				t.Fatalf("%+v, %v", res, err)
			}
			continue
		}
		// The first release and the first grant of a name have more to do than the others.
		if _, err := s.Acquire(t.Context(), request(i, "before")); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), request(i, "before").ID); err != nil {
			t.Fatal(err)
		}
	}
	together(func(i int) {
		res, err := s.Acquire(t.Context(), request(i, "owner"))
		switch {
		case err != nil:
			t.Errorf("%d: %v", i, err)
		case res.Granted == held(i) || res.Granted && (!res.Fresh || res.Fence == 0) ||
			!res.Granted && res.Blocker.Owner != driver.Tag("holder"):
			t.Errorf("%d: %+v", i, res)
		}
	})
	together(func(i int) {
		if err := s.Release(t.Context(), request(i, "owner").ID); err == nil == held(i) ||
			err != nil && !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("%d: %v", i, err)
		}
	})
	for i := range n {
		claims, err := s.Show(t.Context(), strconv.Itoa(i))
		if err != nil || len(claims) > 0 != held(i) {
			t.Errorf("%d: %+v, %v", i, claims, err)
		}
	}
}
