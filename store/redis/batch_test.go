package redis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

func renewals(rs ...driver.Request) (all []driver.Renewal) {
	for _, r := range rs {
		all = append(all, driver.Renewal{ID: r.ID, TTL: time.Minute})
	}
	return all
}

// A renewed claim takes no more memory, so a full server renews it, shared claims too and in any
// order.
func TestStore_renewAll_full(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		srv := testenv.Redis(t)
		s := open(t, login{addr: srv.Addr})
		one, some := exclusive("one"), shared("some")
		grant(t, s, one)
		grant(t, s, some)
		do(t, srv, "CONFIG", "SET", "maxmemory", "1")
		for i, got := range s.RenewAll(t.Context(), renewals(some, one, some)) {
			if got.Err != nil {
				t.Errorf("renewal %d: %v", i, got.Err)
			}
		}
		if err := s.Release(t.Context(), some.ID); err != nil {
			t.Error(err)
		}
	})
}

// A Redis key in which another program keeps something else fails its own renewal, and no other.
func TestStore_renewAll_wrongType(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		srv := testenv.Redis(t)
		s := open(t, login{addr: srv.Addr})
		sound, name, hash, set := exclusive("sound"), exclusive("name"), shared("hash"), shared("set")
		memory := exclusive("memory")
		for _, r := range []driver.Request{sound, name, memory, hash, set} {
			grant(t, s, r)
		}
		for key, write := range map[string][]string{
			"lock:name": {"LPUSH", "lock:name", "x"}, "{lock:hash}:c": {"SET", "{lock:hash}:c",
				"x"}, "{lock:memory}:m": {"LPUSH", "{lock:memory}:m", "x"}, "{lock:set}:z": {"SET", "{lock:set}:z", "x"},
		} {
			if n := do(t, srv, "DEL", key); n != int64(1) {
				t.Fatalf("%s does not exist", key)
			}
			do(t, srv, write...)
		}
		for i, got := range s.RenewAll(t.Context(), renewals(name, sound, memory, sound, hash, sound, set, sound)) {
			if i%2 == 1 && got.Err != nil {
				t.Errorf("renewal %d, of a valid claim: %v", i, got.Err)
			}
			if i%2 == 0 && !errors.Is(got.Err, driver.ErrInvalid) {
				t.Errorf("renewal %d: %v, want ErrInvalid", i, got.Err)
			}
		}
	})
}

// The reason for breaking a claim is kept until the claim would have ended. Another client's lock
// without an end leaves nothing.
func TestStore_break_foreign(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	s := adapters["rueidis"](t, login{addr: srv.Addr})
	do(t, srv, "SET", "lock:forever", "another")
	do(t, srv, "SET", "lock:while", "another", "PX", "60000")
	for _, key := range []string{"forever", "while"} {
		if cs, err := driver.Break(t.Context(), s, key, 0, "test"); err != nil || len(cs) != 1 {
			t.Fatal(cs, err)
		}
	}
	if left := do(t, srv, "KEYS", "{lock:forever}*"); len(left.([]any)) > 0 {
		t.Errorf("%v is left for ever", left)
	}
	if left, _ := do(t, srv, "PTTL", "{lock:while}:b").(int64); left <= 0 || left > 60_001 {
		t.Errorf("the reason is kept for %d ms, want as long as the lock", left)
	}
}

// A call that was sent to a primary and not answered before another primary replaces it may have
// run: rueidis closes the connection then.
func TestStore_failover_underWay(t *testing.T) {
	t.Parallel()
	g := testenv.Sentinel(t)
	s := made(t)(rueidisstore.Open(t.Context(), "redis+sentinel://"+strings.Join(g.Addrs(),
		",")+"/0?master_name="+g.Name))
	grant(t, s, exclusive("warm"))
	old := g.Nodes[0]
	old.Pause()
	_, err := s.Acquire(t.Context(), exclusive("key"))
	if err == nil || errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%v, want an unknown outcome", err)
	}
	old.Resume()
}

// The same holds for a call in flight when the store is closed. Later calls are not sent.
func TestStore_close_underWay(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	way := testenv.Proxy(t, srv.Addr)
	s := made(t)(rueidisstore.Open(t.Context(), "redis://"+way.Addr))
	held := exclusive("held")
	grant(t, s, held)
	way.Cut(testenv.ToClient)
	under := make(chan error, 1)
	go func() {
		_, err := s.Acquire(t.Context(), exclusive("key"))
		under <- err
	}()
	for do(t, srv, "EXISTS", "lock:key") != int64(1) {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	if err := <-under; err == nil || errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%v, want an unknown outcome: the claim exists", err)
	}
	way.Heal()
	_, err := s.Acquire(t.Context(), exclusive("later"))
	_, renewed := s.Renew(t.Context(), renewals(held)[0])
	together := s.RenewAll(t.Context(), renewals(held))[0].Err
	for verb, err := range map[string]error{"Acquire": err, "Renew": renewed, "RenewAll": together} {
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s after Close: %v, want ErrUnavailable", verb, err)
		}
	}
}
