package redis_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"
	ruclient "github.com/redis/rueidis"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/goredisstore"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

// fresh returns options with an unused prefix.
func fresh() *redis.Options { return &redis.Options{Prefix: "lock:" + rand.Text() + ":"} }

// Sentinel, by the user in docs/layout.md: the user may do all that a store does, and the server
// refuses no command of a client.
func TestStore_sentinel(t *testing.T) {
	t.Parallel()
	group := testenv.Sentinel(t,
		testenv.Config("user default on nopass ~* &* +@all", documentedFor(t, "With Sentinel")))
	group.NoFailover(t)
	allowNames(t, group.Nodes...)
	const user, password = "distlock", "secret"
	for name, open := range map[string]func(t testing.TB) *redis.Store{
		"goredis": func(t testing.TB) *redis.Store {
			c := goclient.NewFailoverClient(&goclient.FailoverOptions{
				MasterName: group.Name, SentinelAddrs: group.Addrs(), Username: user, Password: password,
			})
			t.Cleanup(func() { c.Close() })
			return made(t)(goredisstore.New(c, fresh()))
		},
		"rueidis": func(t testing.TB) *redis.Store {
			c, err := ruclient.NewClient(ruclient.ClientOption{
				InitAddress: group.Addrs(), Sentinel: ruclient.SentinelOption{MasterSet: group.Name},
				Username: user, Password: password, DisableCache: true,
				ReadBufferEachConn: buffer, WriteBufferEachConn: buffer,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			return made(t)(rueidisstore.New(c, fresh()))
		},
		"URL": func(t testing.TB) *redis.Store {
			url := "redis+sentinel://" + user + ":" + password + "@" + strings.Join(group.Addrs(), ",") +
				"/0?master_name=" + group.Name + "&lock_prefix=" + fresh().Prefix
			return made(t)(rueidisstore.Open(t.Context(), url))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "rueidis" { // the URL is the same client
				grant(t, open(t), exclusive("key"))
			} else {
				drivertest.Run(t, drivertest.Env{Many: 50,
					Open: func(t testing.TB) driver.Store { return open(t) }})
			}
			refusedNothing(t, group.Nodes...)
		})
	}
}

// With Options.Replicas a grant that too few replicas have does not count.
func TestStore_replicas(t *testing.T) {
	t.Parallel()
	primary := testenv.Redis(t)
	replica := testenv.Redis(t, testenv.ReplicaOf(primary))
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		opt := fresh()
		opt.Replicas = 1
		patient := *opt
		patient.ReplicaTimeout = 10 * time.Second // the machine may be busy
		s, first := open(t, login{addr: primary.Addr, opt: opt}),
			open(t, login{addr: primary.Addr, opt: &patient})
		if s.Features().AnyServer {
			t.Error("AnyServer is declared, though a grant that too few replicas have is undone")
		}
		a, b := exclusive("key"), exclusive("other")
		mark := fresh().Prefix // a new replica has to synchronize first: until then it gets no writes
		do(t, primary, "SET", mark, "here")
		for fmt.Sprint(do(t, replica, "GET", mark)) != "here" {
			time.Sleep(5 * time.Millisecond)
		}
		grant(t, first, a)
		replica.Pause()
		defer replica.Resume()
		if res, err := s.Acquire(t.Context(), b); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("granted %v, error %v without the replica; want ErrUnavailable", res.Granted, err)
		}
		if n := len(claims(t, s, "other")); n != 0 {
			t.Errorf("%d claims are left of a grant that did not count", n)
		}
		if _, err := s.Acquire(t.Context(), a); err == nil || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("a second attempt without the replica: error %v, want an unknown outcome", err)
		}
		if n := len(claims(t, s, "key")); n != 1 {
			t.Errorf("%d claims, want the one that was held before", n)
		}
	})
}

// A server that grants and refuses WAIT has not refused the claim. The store releases it, or the
// outcome is unknown.
func TestStore_waitRefused(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t, testenv.ACL("user default on nopass ~* &* +@all",
		"user app on >secret ~* &* +@all -wait"))
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		opt := fresh()
		s := open(t, login{addr: srv.Addr, opt: opt})
		held := exclusive("held")
		grant(t, s, held)
		opt.Replicas = 1
		strict := open(t, login{addr: srv.Addr, user: "app", password: "secret", opt: opt})
		_, err := strict.Acquire(t.Context(), exclusive("key"))
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("a free key: %v, want ErrUnavailable with NOPERM", err)
		}
		if n := len(claims(t, s, "key")); n != 0 {
			t.Errorf("%d claims are left, and nothing was to be changed", n)
		}
		if _, err := strict.Acquire(t.Context(), held); err == nil ||
			errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("a claim that the owner has: %v, want an unknown outcome", err)
		}
		if res, err := strict.Acquire(t.Context(), exclusive("held")); err != nil || res.Granted {
			t.Errorf("a key that is held: granted %v, error %v; want refused", res.Granted, err)
		}
	})
}

// The user in docs/layout.md may do all that a store does, and nothing on other keys.
func TestStore_leastPermissions(t *testing.T) {
	t.Parallel()
	line := documentedUser(t)
	srv := testenv.Redis(t, testenv.ACL("user default on nopass ~* &* +@all", line))
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		t.Parallel()
		drivertest.Run(t, drivertest.Env{Many: 50, Open: func(t testing.TB) driver.Store {
			return open(t, login{addr: srv.Addr, user: "distlock", password: "secret", opt: fresh()})
		}})
		s := open(t, login{addr: srv.Addr, user: "distlock", password: "secret", opt: fresh()})
		info, err := s.Inspect(t.Context())
		if err != nil || info.Identity == "" || info.Version != product(t, srv) {
			t.Errorf("Inspect: %+v, %v", info, err)
		}
		for _, f := range info.Findings {
			if f.Level == driver.LevelUnknown {
				t.Errorf("unknown: %s", f.What)
			}
		}
		careful := fresh()
		careful.Replicas = 1
		c := open(t, login{addr: srv.Addr, user: "distlock", password: "secret", opt: careful})
		if _, err := c.Acquire(t.Context(), exclusive("key")); err == nil ||
			!strings.Contains(err.Error(), "0 of 1 replicas") {
			t.Errorf("with Replicas: %v, want that there is none", err)
		}
		elsewhere := open(t, login{addr: srv.Addr, user: "distlock", password: "secret",
			opt: &redis.Options{Prefix: "data:"}})
		if _, err := elsewhere.Acquire(t.Context(), exclusive("key")); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("on keys of others: %v, want ErrUnavailable", err)
		}
	})
}
