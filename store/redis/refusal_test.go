package redis_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
)

// A trouble is a reason for a server to refuse commands.
type trouble struct {
	code     string // the beginning or a part of its answers
	opts     []testenv.Option
	login    login  // the login of the store, without the address
	password string // of the default user, if it has one

	// begin starts the trouble, and end ends it. Both use a connection that was made before.
	begin func(t *testing.T, v victim)
	end   func(t *testing.T, v victim)
}

// A victim is a server in trouble.
type victim struct {
	*testenv.RedisServer
	control *goclient.Client
	stuck   chan struct{} // closed when the call that begin left in flight has ended
}

func newVictim(t testing.TB, tr trouble) victim {
	t.Helper()
	v := victim{RedisServer: testenv.Redis(t, tr.opts...), stuck: make(chan struct{})}
	v.control = goclient.NewClient(&goclient.Options{Addr: v.Addr, Password: tr.password, PoolSize: 1})
	t.Cleanup(func() { v.control.Close() })
	v.send(t, "PING")
	return v
}

// send sends a command over the connection that was made before the trouble.
func (v victim) send(t testing.TB, args ...any) {
	t.Helper()
	if err := v.control.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// nothingLeft checks that there is no trace of the key that was never granted.
func (v victim) nothingLeft(t testing.TB) {
	t.Helper()
	left, err := v.control.Keys(t.Context(), "*free*").Result()
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left of a name that was never granted, error %v", left, err)
	}
}

// setting is a trouble that comes and goes with a setting, for new connections.
func setting(code, name, bad, good string) trouble {
	return trouble{
		code: code,
		begin: func(t *testing.T, v victim) {
			v.send(t, "CONFIG", "SET", name, bad)
			v.send(t, "CLIENT", "KILL", "TYPE", "normal")
		},
		end: func(t *testing.T, v victim) { v.send(t, "CONFIG", "SET", name, good) },
	}
}

// user is a trouble of a user whose permissions change.
func user(code, bad, good string) trouble {
	const rights = "user app on >secret ~* &* +@all"
	return trouble{
		code: code, login: login{user: "app", password: "secret"},
		opts: []testenv.Option{testenv.ACL("user default on nopass ~* &* +@all", rights)},
		begin: func(t *testing.T, v victim) {
			v.send(t, "ACL", "SETUSER", "app", bad)
			v.send(t, "CLIENT", "KILL", "USER", "app")
		},
		end: func(t *testing.T, v victim) { v.send(t, "ACL", "SETUSER", "app", good) },
	}
}

func troubles() map[string]trouble {
	return map[string]trouble{
		"no replicas": setting("NOREPLICAS", "min-replicas-to-write", "1", "0"),
		// NOAUTH, or for a command of many arguments: "Protocol error: unauthenticated multibulk
		// length".
		"no password": setting("uthenticat", "requirepass", "secret", ""),
		"wrong password": {
			code: "WRONGPASS", login: login{password: "secret"}, password: "secret", opts: []testenv.Option{testenv.Config("requirepass secret")},
			begin: setting("", "requirepass", "another", "").begin,
			end:   setting("", "requirepass", "", "secret").end,
		},
		"user gone": user("WRONGPASS", "off", "on"),
		"no right":  user("NOPERM", "-evalsha", "+evalsha"),
		"no key":    user("NOPERM", "resetkeys", "~*"),
		"loading":   loading(),
		"disk":      disk(),
		"busy":      busy(),
	}
}

// loading is a server that has just started and has much data to load.
func loading() trouble {
	return trouble{
		code: "LOADING",
		opts: []testenv.Option{testenv.Config("save 3600 1000000", "rdbcompression no",
			"key-load-delay 10000", // in microseconds
			"loading-process-events-interval-bytes 1024")},
		begin: func(t *testing.T, v victim) {
			v.send(t, "EVAL", "for i = 1, 2000 do redis.call('SET', 'data' .. i, string.rep('x', 2000)) end return 1", "0")
			go func() {
				defer close(v.stuck)
				v.Restart()
			}()
		},
		end: func(t *testing.T, v victim) {
			v.send(t, "CONFIG", "SET", "key-load-delay", "0")
			<-v.stuck
		},
	}
}

// disk is a server that cannot write to its disk.
func disk() trouble {
	file := func(t *testing.T, v victim) string {
		dir, _ := do(t, v.RedisServer, "CONFIG", "GET", "dir").([]any)
		return filepath.Join(dir[1].(string), "dump.rdb")
	}
	saved := func(t *testing.T, v victim, how string) {
		v.send(t, "BGSAVE")
		for v.Info(t.Context(), "rdb_bgsave_in_progress") != "0" ||
			v.Info(t.Context(), "rdb_last_bgsave_status") != how {
			time.Sleep(5 * time.Millisecond)
		}
	}
	return trouble{
		code: "MISCONF", opts: []testenv.Option{testenv.Config("save 3600 1000000")},
		begin: func(t *testing.T, v victim) {
			if err := os.Mkdir(file(t, v), 0o700); err != nil { // at the path of the file; stops root too
				t.Fatal(err)
			}
			saved(t, v, "err")
		},
		end: func(t *testing.T, v victim) {
			if err := os.Remove(file(t, v)); err != nil {
				t.Fatal(err)
			}
			saved(t, v, "ok")
		},
	}
}

// busy is a server on which another program's script does not end.
func busy() trouble {
	return trouble{
		code: "BUSY", opts: []testenv.Option{testenv.Config("busy-reply-threshold 1")},
		begin: func(t *testing.T, v victim) {
			go func() {
				defer close(v.stuck)
				_, _ = v.Do(context.Background(), "EVAL", "while true do end", "0")
			}()
		},
		end: func(t *testing.T, v victim) {
			v.send(t, "SCRIPT", "KILL")
			<-v.stuck
		},
	}
}

// Whatever the reason for a refusal, the store never reports a key as held, nothing is changed, and
// all continues when the trouble has ended.
func TestStore_refusals(t *testing.T) {
	t.Parallel()
	for name, tr := range troubles() {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
				t.Parallel()
				tr.play(t, open)
			})
		})
	}
}

func (tr trouble) play(t *testing.T, open func(testing.TB, login) *redis.Store) {
	v := newVictim(t, tr)
	l := tr.login
	l.addr = v.Addr
	s := open(t, l)
	a, w := exclusive("held"), exclusive("held")
	w.QueueTTL = time.Minute
	fence := grant(t, s, a).Fence
	refuse(t, s, w)

	tr.begin(t, v)
	refusing(t, s, tr.code)
	unavailable(t, s, a.ID, tr.code)
	tr.end(t, v)

	working(t, s, a.ID)
	if again := grant(t, s, a); again.Fence != fence {
		t.Errorf("fence %d, after the trouble %d; want the same claim", fence, again.Fence)
	}
	if err := s.Release(t.Context(), a.ID); err != nil {
		t.Errorf("Release after the trouble: %v", err)
	}
	grant(t, s, w)
	v.nothingLeft(t)
}

// refusing waits until the server refuses commands. Until then a connection may break, and the
// outcome of a call be unknown.
func refusing(t *testing.T, s *redis.Store, code string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		r := exclusive("before")
		res, err := s.Acquire(t.Context(), r)
		if err != nil && strings.Contains(err.Error(), code) {
			if !errors.Is(err, driver.ErrUnavailable) {
				t.Fatalf("%v: want ErrUnavailable", err)
			}
			return
		}
		if err == nil && !res.Granted {
			t.Fatalf("a key that is free was refused")
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("no %s: granted %v, error %v", code, res.Granted, err)
		}
		if err == nil {
			_ = s.Release(t.Context(), r.ID)
		}
	}
}

// working waits until the store can renew a claim. Until then each answer is ErrUnavailable or an
// unknown outcome.
func working(t *testing.T, s *redis.Store, held driver.ID) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		_, err := s.Renew(t.Context(), driver.Renewal{ID: held, TTL: time.Minute})
		if err == nil {
			return
		}
		if errors.Is(err, driver.ErrNotHeld) || time.Since(began) > 20*time.Second {
			t.Fatalf("Renew after the trouble: %v", err)
		}
	}
}

// A server without capacity for another connection answers so and closes it. The client may not
// read the answer: data that it sends meanwhile may make the system drop the answer. So the outcome
// may be unknown, and is never a grant or a refusal.
func TestStore_noConnections(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		t.Parallel()
		v := newVictim(t, trouble{})
		s := open(t, login{addr: v.Addr})
		a := exclusive("held")
		grant(t, s, a)
		v.send(t, "CONFIG", "SET", "maxclients", "1")
		grant(t, s, a) // an existing connection keeps working
		v.send(t, "CLIENT", "KILL", "TYPE", "normal")
		for range 10 {
			if res, err := s.Acquire(t.Context(), exclusive("free")); err == nil ||
				errors.Is(err, driver.ErrInvalid) {
				t.Fatalf("granted %v, error %v; want an error", res.Granted, err)
			}
			if _, err := s.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: time.Minute}); err == nil ||
				errors.Is(err, driver.ErrNotHeld) {
				t.Fatalf("Renew: error %v", err)
			}
		}
		v.send(t, "CONFIG", "SET", "maxclients", "1000")
		working(t, s, a.ID)
		v.nothingLeft(t)
	})
}

// A replica that lost its primary and serves no stale data refuses everything, and works after its
// promotion.
func TestStore_stale(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		t.Parallel()
		primary := testenv.Redis(t)
		replica := testenv.Redis(t, testenv.ReplicaOf(primary),
			testenv.Config("replica-serve-stale-data no"))
		a := exclusive("held")
		fence := grant(t, open(t, login{addr: primary.Addr}), a).Fence
		s := open(t, login{addr: replica.Addr})
		for do(t, replica, "GET", "lock:held") != a.Owner {
			time.Sleep(5 * time.Millisecond)
		}
		unavailable(t, s, a.ID, "READONLY")
		primary.Kill()
		refusing(t, s, "MASTERDOWN")
		unavailable(t, s, a.ID, "MASTERDOWN")
		if _, err := driver.Show(t.Context(), s, "held"); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Show: error %v, want ErrUnavailable", err)
		}
		do(t, replica, "REPLICAOF", "NO", "ONE")
		if again := grant(t, s, a); again.Fence != fence {
			t.Errorf("fence %d, of the replica %d; want the same claim", fence, again.Fence)
		}
		if n := len(claims(t, s, "free")); n != 0 {
			t.Errorf("%d claims on a key that was never granted", n)
		}
	})
}
