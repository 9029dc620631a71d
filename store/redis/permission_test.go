package redis_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/goredisstore"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

// A user who may run scripts and lacks a command that a script needs is stopped half way. No answer
// says that nothing was changed if something was.
func TestStore_missingPermission(t *testing.T) {
	t.Parallel()
	line := documentedUser(t)
	for name, open := range adapters {
		t.Run(name, func(t *testing.T) {
			srv := testenv.Redis(t, testenv.ACL("user default on nopass ~* &* +@all", line))
			stopped := 0
			for _, permission := range strings.Fields(line) {
				if !strings.HasPrefix(permission, "+") || permission == "+evalsha" || permission == "+eval" {
					continue
				}
				without := "-" + permission[1:]
				opt := fresh()
				s := open(t, login{addr: srv.Addr, user: "distlock", password: "secret", opt: opt})
				a, w, b := exclusive("key"), exclusive("key"), shared("key")
				w.QueueTTL, b.QueueTTL = time.Minute, time.Minute
				for _, step := range []struct {
					name string
					do   func() error
				}{
					{"acquire", func() error { _, err := s.Acquire(t.Context(), a); return err }},
					{"wait", func() error { _, err := s.Acquire(t.Context(), w); return err }},
					{"wait for a share", func() error { _, err := s.Acquire(t.Context(), b); return err }},
					{"renew", func() error { _, err := s.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: time.Minute}); return err }},
					{"release", func() error { return s.Release(t.Context(), a.ID) }},
					{"take over", func() error { _, err := s.Acquire(t.Context(), w); return err }},
					{"break", func() error { _, err := s.Break(t.Context(), "key", 0, "test"); return err }},
					{"share", func() error { _, err := s.Acquire(t.Context(), b); return err }},
				} {
					do(t, srv, "ACL", "SETUSER", "distlock", without)
					before := contents(t, srv, opt.Prefix)
					err := step.do()
					after := contents(t, srv, opt.Prefix)
					do(t, srv, "ACL", "SETUSER", "distlock", permission)
					if err == nil {
						continue
					}
					stopped++
					if errors.Is(err, driver.ErrUnavailable) && before != after {
						t.Errorf("%s with %s: %v, and something was changed", step.name, without, err)
					}
					_ = step.do() // partial writes may block it
				}
			}
			if stopped == 0 {
				t.Error("no permission was missed: this tests nothing")
			}
		})
	}
}

// contents returns all data under a prefix, without the times to live.
func contents(t testing.TB, srv *testenv.RedisServer, prefix string) string {
	t.Helper()
	text, _ := do(t, srv, "EVAL", `
local all = {}
for _, k in ipairs(redis.call('KEYS', '*' .. ARGV[1] .. '*')) do all[#all + 1] = k .. ' ' .. redis.call('DUMP', k) end
table.sort(all)
return redis.sha1hex(table.concat(all, '\n'))`, "0", prefix).(string)
	return text
}

// documentedUser returns the line of docs/layout.md that creates the user of a store.
func documentedUser(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/layout.md")
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(text), "user distlock ")
	if at < 0 {
		t.Fatal("docs/layout.md has no user")
	}
	line, _, _ := strings.Cut(string(text)[at:], "\n")
	return strings.Replace(line, ">PASSWORD", ">secret", 1)
}

// documentedFor returns the documented user with the permissions that docs/layout.md adds in a
// case.
func documentedFor(t testing.TB, which string) string {
	t.Helper()
	return documentedUser(t) + " " + addition(t, which)
}

// addition returns the permissions that docs/layout.md adds in a case.
func addition(t testing.TB, which string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/layout.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(strings.Join(strings.Fields(string(text)), " "), which+" add `")
	more, _, ended := strings.Cut(rest, "`")
	if !found || !ended {
		t.Fatalf("docs/layout.md does not say what to add: %s", which)
	}
	return more
}

// allowNames gives the documented user the permissions that docs/layout.md adds for servers that
// know CLIENT SETINFO.
func allowNames(t testing.TB, nodes ...*testenv.RedisServer) {
	t.Helper()
	more := addition(t, "From Redis 7.2 on, and for Valkey,")
	for _, node := range nodes {
		if info := do(t, node, "COMMAND", "INFO", strings.TrimPrefix(more, "+")).([]any); info[0] != nil {
			do(t, node, "ACL", "SETUSER", "distlock", more)
		}
	}
}

// refusedNothing checks that the servers refused no command for lack of a permission.
func refusedNothing(t testing.TB, nodes ...*testenv.RedisServer) {
	t.Helper()
	for _, node := range nodes {
		if denied := do(t, node, "ACL", "LOG").([]any); len(denied) > 0 {
			t.Errorf("refused: %v", denied)
		}
	}
}

// A database other than 0, by the user in docs/layout.md.
func TestStore_database(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t, testenv.ACL("user default on nopass ~* &* +@all",
		documentedFor(t, "For a database other than 0")))
	allowNames(t, srv)
	for name, open := range map[string]func() *redis.Store{
		"goredis": func() *redis.Store {
			c := goclient.NewClient(&goclient.Options{Addr: srv.Addr, Username: "distlock",
				Password: "secret", DB: 1})
			t.Cleanup(func() { c.Close() })
			return made(t)(goredisstore.New(c, nil))
		},
		"URL": func() *redis.Store {
			return made(t)(rueidisstore.Open(t.Context(), "redis://distlock:secret@"+srv.Addr+"/1"))
		},
	} {
		s, a := open(), exclusive(name)
		grant(t, s, a)
		if _, err := s.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: time.Minute}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	refusedNothing(t, srv)
	if n := do(t, srv, "DBSIZE"); n != int64(0) {
		t.Errorf("%v keys in the database 0", n)
	}
}

// A cluster, by the user in docs/layout.md: the user may do all that a store does, and the server
// refuses no command of a client.
func TestStore_cluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t,
		testenv.Config("user default on nopass ~* &* +@all", documentedFor(t, "On a cluster")))
	allowNames(t, cluster.Nodes...)
	for name, open := range clusterAdapters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enter := func(t testing.TB) *redis.Store {
				return open(t, login{addr: strings.Join(cluster.Addrs(), ","), user: "distlock",
					password: "secret", opt: fresh()})
			}
			drivertest.Run(t, drivertest.Env{Many: 50,
				Open: func(t testing.TB) driver.Store { return enter(t) }})
			info, err := enter(t).Inspect(t.Context())
			if err != nil || info.Identity == "" || !strings.Contains(info.Version, "a cluster of 3") {
				t.Errorf("Inspect: %+v, %v", info, err)
			}
			for _, f := range info.Findings {
				if f.Level == driver.LevelUnknown {
					t.Errorf("unknown: %s", f.What)
				}
			}
			refusedNothing(t, cluster.Nodes...)
		})
	}
}
