package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

// finds fails unless the store has the wanted findings: "level: words".
func finds(t *testing.T, s driver.Store, wants ...string) {
	t.Helper()
	info, err := driver.Inspect(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range wants {
		level, words, _ := strings.Cut(want, ": ")
		if !slices.ContainsFunc(info.Findings, func(f driver.Finding) bool {
			return f.Level.String() == level && strings.Contains(f.What, words)
		}) {
			t.Errorf("no finding is %q: %+v", want, info.Findings)
		}
	}
	for _, f := range info.Findings {
		if (f.Level == driver.LevelOK) != (f.Means == "") ||
			(f.Means == "") != (f.Cure == "") || f.What == "" {
			t.Errorf("a finding lacks its consequence or cure, or has one without need: %+v", f)
		}
	}
}

func at(t *testing.T, url string) *redis.Store {
	t.Helper()
	return made(t)(rueidisstore.Open(t.Context(), url))
}

func TestStore_Inspect(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opts  []testenv.Option
		wants []string
	}{
		"nothing kept": {nil, []string{
			"ok: it is a primary", "ok: nothing is evicted (maxmemory-policy noeviction, no maxmemory)",
			"warning: nothing is kept on disk", "ok: it has no replicas", "ok: the server's clock and ours agree",
		}},
		"always": {[]testenv.Option{testenv.AOF()}, []string{"ok: every write is on disk"}},
		"evicts": {
			[]testenv.Option{testenv.Config("maxmemory 100mb", "maxmemory-policy allkeys-lru",
				"appendonly yes", "appendfsync everysec")},
			[]string{"danger: keys are evicted when memory is full (maxmemory-policy allkeys-lru)",
				"warning: writes reach the disk up to a second later (appendfsync everysec)"},
		},
		"full": {
			[]testenv.Option{testenv.Config("maxmemory 100kb", "appendonly yes", "appendfsync no")},
			[]string{"ok: nothing is evicted (maxmemory-policy noeviction)",
				"warning: % of maxmemory is in use", "warning: writes reach the disk when the system likes"},
		},
		"snapshots": {[]testenv.Option{testenv.Config("save 3600 1")},
			[]string{"warning: there is no append-only file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t, tt.opts...)
			finds(t, at(t, srv.URL), append(tt.wants, "ok: the server is "+product(t, srv))...)
		})
	}
}

// product returns the name and the version of a server: Valkey also has the version of Redis that
// it is compatible with.
func product(t testing.TB, srv *testenv.RedisServer) string {
	t.Helper()
	if v := srv.Info(t.Context(), "valkey_version"); v != "" {
		return "Valkey " + v
	}
	return "Redis " + srv.Info(t.Context(), "redis_version")
}

func TestStore_Inspect_replication(t *testing.T) {
	t.Parallel()
	primary := testenv.Redis(t, testenv.Password("secret"))
	replica := testenv.Redis(t, testenv.ReplicaOf(primary))
	finds(t, at(t, primary.URL),
		"warning: replicas receive claims after they are granted (1 connected)",
		"warning: a primary that is cut off from its replicas does not stop (min-replicas-to-write 0)")
	finds(t, at(t, primary.URL+"?lock_replicas=1"), "warning: of 1 replicas, grants wait for 1")
	finds(t, at(t, replica.URL), "danger: it is a replica (of 127.0.0.1:")
	do(t, primary, "CONFIG", "SET", "min-replicas-to-write", "1")
	finds(t, at(t, primary.URL),
		"ok: a primary that is cut off from its replicas stops (min-replicas-to-write 1)")
}

func TestStore_Inspect_cluster(t *testing.T) {
	t.Parallel()
	c := testenv.RedisCluster(t, testenv.Replicas(0))
	s := at(t, "redis+cluster://"+strings.Join(c.Addrs(), ","))
	finds(t, s, "ok: the cluster serves all slots",
		"warning: the loss of one shard stops the whole cluster")
	port := c.Nodes[1].Addr[strings.LastIndex(c.Nodes[1].Addr, ":")+1:]
	do(t, c.Nodes[1], "CONFIG", "SET", "cluster-require-full-coverage", "no")
	finds(t, s, "ok: on port "+port+": the loss of one shard leaves the others working")
	do(t, c.Nodes[0], "CLUSTER", "DELSLOTS", "0") // only this node forgets who has the slot
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(fmt.Sprint(do(t, c.Nodes[0], "CLUSTER", "INFO")), "cluster_state:fail"); {
		if time.Now().After(deadline) {
			t.Fatal("the node still calls the cluster whole")
		}
		time.Sleep(10 * time.Millisecond)
	}
	finds(t, s, "danger: on port "+c.Nodes[0].Addr[strings.LastIndex(c.Nodes[0].Addr,
		":")+1:]+": the cluster is down (cluster_state fail, 16383 of 16384")
}

// A fact that the user may not see is unknown, not fine.
func TestStore_Inspect_permissions(t *testing.T) {
	t.Parallel()
	const locks = "on >secret ~* &* +@all -acl "
	srv := testenv.Redis(t, testenv.ACL("user default on nopass ~* &* +@all",
		"user blind "+locks+"-info -config -time",
		"user half "+locks+"-config"), testenv.AOF())
	replica := testenv.Redis(t, testenv.ReplicaOf(srv))
	defer replica.Stop()
	finds(t, at(t, "redis://blind:secret@"+srv.Addr), "unknown: the version", "unknown: the role",
		"unknown: the eviction policy",
		"unknown: the persistence", "unknown: the server's clock")
	finds(t, at(t, "redis://half:secret@"+srv.Addr),
		"unknown: when writes reach the disk (appendfsync)", "ok: nothing is evicted",
		"unknown: whether a primary that is cut off stops (min-replicas-to-write)")
}

// A stub is a server with fixed answers. It runs no script.
type stub struct {
	redis.Client
	cluster bool
	answers map[string]any
}

func (c stub) Cluster() bool { return c.cluster }
func (c stub) Close() error  { return nil }

func (c stub) Each(_ context.Context, f func(redis.Node) error) error { return f(c) }

func (c stub) Run(context.Context, redis.Call) (string, error) { return "", redis.ReplyError("NOPERM") }

func (c stub) Do(_ context.Context, args ...string) (any, error) {
	switch v := c.answers[strings.Join(args, " ")].(type) {
	case nil:
		return nil, redis.ReplyError("NOPERM")
	case error:
		return nil, v
	case func() any:
		return v(), nil
	default:
		return v, nil
	}
}

func TestStore_Inspect_answers(t *testing.T) {
	clock := func(ahead time.Duration) func() any { // returns the time of the call
		return func() any {
			now := time.Now().Add(ahead)
			return []any{fmt.Sprint(now.Unix()), fmt.Sprint(now.Nanosecond() / 1000)}
		}
	}
	for name, tt := range map[string]struct {
		c    stub
		want string
	}{
		"too old": {stub{answers: map[string]any{"INFO": "redis_version:4.0.14\r\n"}},
			"danger: Redis 4.0.14 is too old"},
		"a little too old": {stub{answers: map[string]any{"INFO": "redis_version:6.0.16\r\n"}},
			"danger: Redis 6.0.16 is too old: 6.2 or newer is required"},
		"old": {stub{answers: map[string]any{"INFO": "redis_version:6.2.1\r\n"}},
			"ok: the server is Redis 6.2.1"},
		"old cluster": {stub{cluster: true,
			answers: map[string]any{"INFO": "redis_version:6.2.1\r\n"}},
			"warning: Redis 6.2.1 has no channels"},
		"Valkey": {stub{answers: map[string]any{"INFO": "redis_version:7.2.4\r\nvalkey_version:9.0.0\r\n"}}, "ok: the server is Valkey 9.0.0"},
		"no version": {stub{answers: map[string]any{"INFO": "role:master\r\n"}},
			"unknown: the version"},
		"disk": {stub{answers: map[string]any{"INFO": "aof_last_write_status:err\r\n"}},
			"danger: the server cannot write to its disk"},
		"snapshot": {stub{answers: map[string]any{"INFO": "rdb_last_bgsave_status:err\r\n"}},
			"danger: the server cannot write to its disk"},
		"clock ahead": {stub{answers: map[string]any{"TIME": clock(time.Minute)}},
			"warning: the server's clock is "},
		"clock behind": {stub{answers: map[string]any{"TIME": clock(-time.Minute)}}, " behind ours"},
		"clock right":  {stub{answers: map[string]any{"TIME": clock(0)}}, "ok: the server's clock"},
		"cluster not shown": {stub{cluster: true,
			answers: map[string]any{"INFO": "cluster_enabled:1\r\n"}}, "unknown: the state of the cluster"},
		"coverage": {stub{cluster: true, answers: map[string]any{}},
			"unknown: what the loss of one shard does"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(tt.want, ": ") {
				tt.want = "warning: " + tt.want
			}
			finds(t, made(t)(redis.New(tt.c, nil)), tt.want)
		})
	}
	for name, answers := range map[string]map[string]any{
		"gone":       {"INFO": errors.New("gone")},
		"gone later": {"INFO": "", "TIME": errors.New("gone")},
		"no clock":   {"INFO": "", "TIME": []any{"1"}},
		"no number":  {"INFO": "", "TIME": []any{"x", "y"}},
		"no name":    {"INFO": redis.ReplyError("NOAUTH Authentication required.")},
	} {
		if info, err := driver.Inspect(t.Context(), made(t)(redis.New(stub{answers: answers}, nil))); err == nil {
			t.Errorf("%s: %+v, want an error", name, info)
		}
	}
}

// shift moves the clock of a program that loads it. It calls the kernel itself: the allocator of
// Redis reads the clock before the library is ready.
const shift = `
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long by(void) { const char *s = getenv("SHIFT"); return s ? atol(s) : 0; }
int clock_gettime(clockid_t c, struct timespec *t) {
	int r = syscall(SYS_clock_gettime, c, t);
	if (c == CLOCK_REALTIME) t->tv_sec += by();
	return r;
}
int gettimeofday(struct timeval *restrict v, void *restrict z) {
	struct timespec t;
	int r = clock_gettime(CLOCK_REALTIME, &t);
	v->tv_sec = t.tv_sec; v->tv_usec = t.tv_nsec / 1000;
	return r;
}
time_t time(time_t *p) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (p) *p = t.tv_sec;
	return t.tv_sec;
}
`

// A real server whose clock is a minute off.
func TestStore_Inspect_clock(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		testenv.Missing(t, "C compiler", "apt-get install gcc libc6-dev")
	}
	source, lib := filepath.Join(t.TempDir(), "shift.c"), filepath.Join(t.TempDir(), "shift.so")
	if err := os.WriteFile(source, []byte(shift), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", lib, source).CombinedOutput(); err != nil {
		t.Logf("%v\n%s", err, out)
		testenv.Missing(t, "C compiler that can make a library", "apt-get install gcc libc6-dev")
	}
	for shift, want := range map[string]string{"60": "ahead of", "-60": "behind"} {
		t.Run(want, func(t *testing.T) {
			t.Setenv("LD_PRELOAD", lib)
			t.Setenv("SHIFT", shift)
			srv := testenv.Redis(t)
			info, err := driver.Inspect(t.Context(), at(t, srv.URL))
			if err != nil {
				t.Fatal(err)
			}
			off := time.Duration(0)
			for _, f := range info.Findings {
				if text, ok := strings.CutPrefix(f.What, "the server's clock is "); ok &&
					f.Level == driver.LevelWarning {
					text, _ = strings.CutSuffix(text, " "+want+" ours")
					off, _ = time.ParseDuration(text)
				}
			}
			if off < 50*time.Second || off > time.Minute { // the time of the round trip is not counted
				t.Errorf("the clock is reported to be %v %s ours, want 1m0s: %+v", off, want, info.Findings)
			}
		})
	}
}
