package redis_test

import (
	"crypto/rand"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"
	ruclient "github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/goredisstore"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

func TestMain(m *testing.M) {
	run := testenv.Main(m, nil)
	// The command line may set more: scripts/check chaos does.
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	flag.Parse()
	// The rules wait most of their time. They need no processor for that.
	if err := flag.Set("test.parallel", "10"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(run, testenv.IgnoreRueidis()...)
}

// A login says how a test reaches a server.
type login struct {
	addr           string
	user, password string
	opt            *redis.Options
}

// buffer is the size of the buffers of a rueidis connection. The default of 512 KiB costs more than
// the calls of a test.
const buffer = 32 << 10

// adapters open a store through each of the two clients.
var adapters = map[string]func(t testing.TB, l login) *redis.Store{
	"goredis": func(t testing.TB, l login) *redis.Store {
		c := goclient.NewClient(&goclient.Options{Addr: l.addr, Username: l.user,
			Password: l.password, DialerRetries: 1})
		t.Cleanup(func() { c.Close() })
		return made(t)(goredisstore.New(c, l.opt))
	},
	"rueidis": func(t testing.TB, l login) *redis.Store {
		c, err := ruclient.NewClient(ruclient.ClientOption{
			InitAddress: []string{l.addr}, Username: l.user, Password: l.password, DisableCache: true, ForceSingleClient: true,
			ReadBufferEachConn: buffer, WriteBufferEachConn: buffer,
		})
		if err != nil && c == nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return made(t)(rueidisstore.New(c, l.opt))
	},
}

func made(t testing.TB) func(*redis.Store, error) *redis.Store {
	return func(s *redis.Store, err error) *redis.Store {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
}

// each runs a test through each client.
func each(t *testing.T, f func(t *testing.T, open func(testing.TB, login) *redis.Store)) {
	for name, open := range adapters {
		t.Run(name, func(t *testing.T) { f(t, open) })
	}
}

func exclusive(key string) driver.Request {
	return driver.Request{
		ID: driver.ID{Key: key, Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute,
	}
}

func shared(key string) driver.Request {
	r := exclusive(key)
	r.Weight = 1
	return r
}

func grant(t testing.TB, s driver.Store, r driver.Request) driver.Result {
	t.Helper()
	res, err := s.Acquire(t.Context(), r)
	if err != nil || !res.Granted {
		t.Fatalf("Acquire: granted %v, error %v; want granted", res.Granted, err)
	}
	return res
}

func refuse(t testing.TB, s driver.Store, r driver.Request) driver.Result {
	t.Helper()
	res, err := s.Acquire(t.Context(), r)
	if err != nil || res.Granted {
		t.Fatalf("Acquire: granted %v, error %v; want refused", res.Granted, err)
	}
	return res
}

// do sends a command to the server itself.
func do(t testing.TB, srv *testenv.RedisServer, args ...string) any {
	t.Helper()
	v, err := srv.Do(t.Context(), args...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return v
}

// unavailable checks that every operation that writes reports that nothing was changed.
func unavailable(t *testing.T, s *redis.Store, held driver.ID, code string) {
	t.Helper()
	check := func(verb string, call func() error) {
		t.Helper()
		err := call()
		// A server that wants a password closes connections that have none. A call on such a
		// connection has no answer, and is repeated.
		for range 100 {
			if !errors.Is(err, io.EOF) {
				break
			}
			err = call()
		}
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: error %v, want ErrUnavailable with %s", verb, err, code)
		}
	}
	acquire := func(r driver.Request) func() error {
		return func() error {
			_, err := s.Acquire(t.Context(), r)
			return err
		}
	}
	check("Acquire of a free key", acquire(exclusive("free")))
	check("Acquire of a share", acquire(shared("free")))
	if code == "OOM" {
		return // operations that take no memory still work
	}
	check("Renew", func() error {
		_, err := s.Renew(t.Context(), driver.Renewal{ID: held, TTL: time.Minute})
		return err
	})
	check("Release", func() error { return s.Release(t.Context(), held) })
}

func TestStore_unavailable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		srv := testenv.Redis(t)
		s := open(t, login{addr: srv.Addr})
		a, w := exclusive("held"), exclusive("held")
		w.QueueTTL = time.Minute
		grant(t, s, a)
		refuse(t, s, w)

		do(t, srv, "REPLICAOF", "127.0.0.1", "1")
		unavailable(t, s, a.ID, "READONLY")
		do(t, srv, "REPLICAOF", "NO", "ONE")

		do(t, srv, "CONFIG", "SET", "min-replicas-to-write", "1")
		unavailable(t, s, a.ID, "NOREPLICAS")
		do(t, srv, "CONFIG", "SET", "min-replicas-to-write", "0")

		do(t, srv, "CONFIG", "SET", "maxmemory", "1")
		unavailable(t, s, a.ID, "OOM")
		if _, err := s.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: time.Minute}); err != nil {
			t.Errorf("Renew on a full server: %v", err)
		}
		if err := s.Release(t.Context(), a.ID); err != nil {
			t.Errorf("Release on a full server: %v", err)
		}
		if got := do(t, srv, "GET", "lock:held"); got != w.Owner {
			t.Errorf("a full server: the key holds %v, want the head of the queue", got)
		}
		do(t, srv, "CONFIG", "SET", "maxmemory", "0")
		grant(t, s, w)
		if n := len(claims(t, s, "free")); n != 0 {
			t.Errorf("%d claims on a key that was never granted", n)
		}

		srv.Kill()
		deadline := time.Now().Add(10 * time.Second)
		for {
			_, err := s.Acquire(t.Context(), exclusive("free"))
			if errors.Is(err, driver.ErrUnavailable) {
				break // the connection is lost, and no new one can be made
			}
			if err == nil || time.Now().After(deadline) {
				t.Fatalf("Acquire without a server: error %v, want ErrUnavailable", err)
			}
		}
	})
}

func claims(t testing.TB, s driver.Store, key string) []driver.Claim {
	t.Helper()
	cs, err := driver.Show(t.Context(), s, key)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

func TestStore_noauth(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t, testenv.Password("secret"))
	s := adapters["goredis"](t, login{addr: srv.Addr})
	if _, err := s.Acquire(t.Context(), exclusive("key")); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("without a password: %v, want ErrUnavailable", err)
	}
	s = adapters["goredis"](t, login{addr: srv.Addr, password: "wrong-password"})
	_, err := s.Acquire(t.Context(), exclusive("key"))
	if !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), "wrong-password") {
		t.Errorf("with a wrong password: %v, want ErrUnavailable and no password", err)
	}
}

func TestStore_forgottenScripts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		srv := testenv.Redis(t)
		s := open(t, login{addr: srv.Addr})
		r := exclusive("key")
		for _, verb := range []func() error{
			func() error { _, err := s.Acquire(t.Context(), r); return err },
			func() error { _, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: time.Minute}); return err },
			func() error { return s.Release(t.Context(), r.ID) },
		} {
			do(t, srv, "SCRIPT", "FLUSH")
			if err := verb(); err != nil {
				t.Errorf("after SCRIPT FLUSH: %v", err)
			}
		}
	})
}

func TestStore_wrongType(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		srv := testenv.Redis(t)
		s := open(t, login{addr: srv.Addr})
		do(t, srv, "RPUSH", "lock:list", "1")
		r := exclusive("list")
		for _, weight := range []int64{driver.Whole, 1} {
			r.Weight = weight
			if _, err := s.Acquire(t.Context(), r); !errors.Is(err, driver.ErrInvalid) ||
				!strings.Contains(err.Error(), "list") {
				t.Errorf("Acquire: %v, want ErrInvalid that names the key", err)
			}
		}
		if err := s.Release(t.Context(), r.ID); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Release: %v, want ErrInvalid", err)
		}
		good := exclusive("good")
		grant(t, s, good)
		got := s.RenewAll(t.Context(),
			[]driver.Renewal{{ID: r.ID, TTL: time.Minute}, {ID: good.ID, TTL: time.Minute}})
		if !errors.Is(got[0].Err, driver.ErrInvalid) || got[1].Err != nil {
			t.Errorf("RenewAll: %v, %v; want ErrInvalid, nil", got[0].Err, got[1].Err)
		}
		if n := do(t, srv, "EXISTS", "{lock:list}:m", "{lock:list}:c", "{lock:list}:z"); n != int64(0) {
			t.Errorf("%v Redis keys were written next to a key of another program", n)
		}
	})
}

// A script never runs twice for one attempt: the store reports that the outcome is unknown.
func TestStore_lostReply(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		for name, opt := range map[string]*redis.Options{"plain": {}, "replicas": {Replicas: 1}} {
			t.Run(name, func(t *testing.T) {
				srv := testenv.Redis(t)
				proxy := testenv.Proxy(t, srv.Addr)
				lostReply(t, srv, proxy, open(t, login{addr: proxy.Addr, opt: opt}),
					open(t, login{addr: srv.Addr}))
			})
		}
	})
}

// count returns how often the server ran a command, for a client or a script.
func count(t testing.TB, srv *testenv.RedisServer, command string) (n int) {
	t.Helper()
	stats, _ := do(t, srv, "INFO", "commandstats").(string)
	for line := range strings.Lines(stats) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			digits, _, _ := strings.Cut(rest, ",")
			for _, d := range digits {
				n = n*10 + int(d-'0')
			}
		}
	}
	return n
}

// Claims and programs that lock by SET NX PX and compare-and-delete exclude each other.
func TestStore_otherClients(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	s := adapters["rueidis"](t, login{addr: srv.Addr})
	take := func(ttl string) any { return do(t, srv, "SET", "lock:key", "theirs", "NX", "PX", ttl) }
	a, w := exclusive("key"), exclusive("key")
	w.QueueTTL = time.Minute

	if take("30000") != "OK" {
		t.Fatal("the other client could not take a free key")
	}
	res := refuse(t, s, a)
	if res.Blocker.Holder != "another client" || res.Retry <= 0 || res.Retry > 31*time.Second ||
		res.Used != driver.Whole {
		t.Errorf("refused with %+v, want the other client named and when it ends", res)
	}
	refuse(t, s, shared("key"))
	do(t, srv, "PERSIST", "lock:key")
	if res := refuse(t, s, w); res.Retry != 0 || res.Blocker.Left != 0 ||
		res.Blocker.Holder != "another client" {
		t.Errorf("refused with %+v by a Redis key without a TTL, want Retry 0", res)
	}
	if err := s.Release(t.Context(), a.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Release: %v, want ErrNotHeld", err)
	}
	do(t, srv, "DEL", "lock:key")
	refuse(t, s, a) // the queue has an entry
	first := grant(t, s, w)
	if take("30000") != nil {
		t.Error("the other client took a key that is held")
	}
	if err := s.Release(t.Context(), w.ID); err != nil {
		t.Fatal(err)
	}

	r := shared("key")
	if got := grant(t, s, r).Fence; got < first.Fence+driver.Span {
		t.Errorf("fence %d after %d", got, first.Fence)
	}
	if take("30000") != nil {
		t.Error("the other client took a key that is shared")
	}
	refuse(t, s, a)
	if err := s.Release(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if take("30000") != "OK" {
		t.Error("the other client could not take a key that is free again")
	}
	if cs, err := s.Break(t.Context(), "key", 0, "test"); err != nil || len(cs) != 1 ||
		cs[0].Holder != "another client" {
		t.Errorf("Break: %+v, %v; want the other client's claim", cs, err)
	}
	grant(t, s, a)
}

// A release hands the key to the head of the queue, so that no other client comes in between.
func TestStore_handOver(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	s := adapters["rueidis"](t, login{addr: srv.Addr})
	a, w := exclusive("key"), exclusive("key")
	w.QueueTTL = 5 * time.Second
	grant(t, s, a)
	refuse(t, s, w)
	if err := s.Release(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if got := do(t, srv, "GET", "lock:key"); got != w.Owner {
		t.Errorf("the key holds %v, want the owner at the head of the queue", got)
	}
	if left := do(t, srv, "PTTL", "lock:key").(int64); left <= 0 || left > 5001 {
		t.Errorf("handed over for %d ms, want the remaining life of the queue entry", left)
	}
}
