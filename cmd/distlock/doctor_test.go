package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/mem"
)

// diagnose runs doctor and returns its JSON output and its exit code.
func diagnose(t *testing.T, store string, args ...string) (v diagnosis, code int) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.toml") // not the configuration of the user
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = execute(t.Context(), append([]string{"doctor", "--json", "--config", config, "--store", store}, args...), nil, &out, &errs)
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		t.Fatalf("exit %d, %s%s: %v", code, out.String(), errs.String(), err)
	}
	if strings.Contains(out.String()+errs.String(), "hunter22") {
		t.Errorf("the password is shown: %s%s", out.String(), errs.String())
	}
	for _, f := range v.Findings {
		if f.What == "" || (f.Level == "ok") != (f.Means == "") || (f.Means == "") != (f.Cure == "") {
			t.Errorf("a finding without its consequence or its cure: %+v", f)
		}
	}
	return v, code
}

// has reports whether there is a finding "level: words".
func (v *diagnosis) has(want string) bool {
	level, words, _ := strings.Cut(want, ": ")
	return slices.ContainsFunc(v.Findings, func(f finding) bool { return f.Level == level && strings.Contains(f.What, words) })
}

// old starts a server and writes the mark of a store that has remembered claims for an hour.
func old(t *testing.T, name string) string {
	t.Helper()
	r := testenv.Redis(t)
	mark := fmt.Sprintf("%s %d %s", name, time.Now().Add(-time.Hour).UnixMicro(), r.Info(t.Context(), "master_replid"))
	if _, err := r.Do(t.Context(), "SET", "{lock:}:birth", mark); err != nil {
		t.Fatal(err)
	}
	return r.Addr
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	primary := testenv.Redis(t, testenv.Password("hunter22"), testenv.AOF())
	for name, tt := range map[string]struct {
		url   func(t *testing.T) string
		code  int
		wants []string
	}{
		"nothing wrong": {
			func(*testing.T) string { return primary.URL }, 0,
			[]string{
				"ok: every write is on disk", "ok: a lock was acquired, denied to a rival",
				"ok: waiters are notified", "ok: traffic stays on this host",
			},
		},
		"evicts": {
			func(t *testing.T) string {
				return "redis://" + testenv.Redis(t, testenv.Config("maxmemory 50mb", "maxmemory-policy volatile-ttl")).Addr
			}, exitFound, []string{
				"danger: keys are evicted when memory is full (maxmemory-policy volatile-ttl)",
				"warning: the URL has no password",
			},
		},
		"a replica": {
			func(t *testing.T) string { return testenv.Redis(t, testenv.ReplicaOf(primary)).URL }, exitFound,
			[]string{"danger: it is a replica", "danger: a lock could not be acquired: driver: store unavailable: READONLY"},
		},
		"Sentinel": {
			func(t *testing.T) string {
				g := testenv.Sentinel(t, testenv.Password("hunter22"))
				return "redis+sentinel://:hunter22@" + strings.Join(g.Addrs(), ",") + "?master_name=" + g.Name
			}, 0, []string{
				"warning: replicas receive claims after they are granted",
				"warning: a primary that is cut off from its replicas does not stop", "ok: a lock was acquired",
			},
		},
		"a cluster": {
			func(t *testing.T) string {
				return "redis+cluster://" + strings.Join(testenv.RedisCluster(t, testenv.Replicas(0)).Addrs(), ",")
			}, 0, []string{
				"ok: the cluster serves all slots", "warning: the loss of one shard stops the whole cluster",
				"ok: waiters are notified",
			},
		},
		"PostgreSQL behind a pooler": {
			func(t *testing.T) string {
				return testenv.PgBouncer(t, testenv.Postgres(t, testenv.Fsync()), testenv.PoolTransaction).URL
			}, 0, []string{"warning: a pooler is in front of the server", "ok: the schema", "ok: a lock was acquired"},
		},
		"may not look": {
			func(t *testing.T) string {
				r := testenv.Redis(t, testenv.ACL(
					"user default on nopass ~* &* +@all", "user u on >hunter22 ~* &* +@all -info -config -acl"))
				return "redis://u:hunter22@" + r.Addr
			}, 0, []string{
				"unknown: the eviction policy", "unknown: the persistence", "unknown: the role", "ok: a lock was acquired",
			},
		},
		"may not write": {
			func(t *testing.T) string {
				r := testenv.Redis(t, testenv.ACL("user default on nopass ~* &* +@all", "user u on >hunter22 ~* &* +@all -set"))
				return "redis://u:hunter22@" + r.Addr
			}, exitFound, []string{"danger: a lock could not be acquired"},
		},
		"no channels": {
			func(t *testing.T) string {
				r := testenv.Redis(t, testenv.ACL("user default on nopass ~* &* +@all", "user u on >hunter22 ~* resetchannels +@all"))
				return "redis://u:hunter22@" + r.Addr
			}, 0, []string{"warning: no notification of a release arrived within 1s"},
		},
		"a node down": {
			func(t *testing.T) string {
				return "redlock://" + old(t, "a") + "," + old(t, "b") + ",127.0.0.1:1?lock_node_limit=2s"
			}, 0,
			[]string{
				"warning: node 127.0.0.1:1: ", "ok: node 2: it is a primary", "unknown: the identity of 1 nodes",
				"ok: a lock was acquired",
			},
		},
		"a node down, another new": {
			func(t *testing.T) string {
				return "redlock://" + old(t, "a") + "," + testenv.Redis(t).Addr + ",127.0.0.1:1"
			}, exitFound,
			[]string{
				"warning: node 127.0.0.1:1: ", "warning: node 2: has remembered claims only for",
				"danger: a lock could not be acquired: quorum: no majority",
			},
		},
		"a majority down": {
			func(t *testing.T) string { return "redlock://" + testenv.Redis(t).Addr + ",127.0.0.1:1,localhost:1" }, exitFound,
			[]string{"danger: node localhost:1: ", "danger: a lock could not be acquired"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const late = "warning: no notification of a release arrived within 1s"
			at := tt.url(t)
			v, code := diagnose(t, at)
			// After a scheduler stall the notification may have arrived too late: doctor runs
			// again.
			for end := time.Now().Add(20 * time.Second); v.has(late) && !slices.Contains(tt.wants, late) && time.Now().Before(end); {
				v, code = diagnose(t, at)
			}
			if code != tt.code || !v.Reachable || v.Version == "" || v.Features == nil ||
				(v.Speed == nil) != v.has("danger: a lock could not be acquired") {
				t.Errorf("exit %d, want %d: %+v", code, tt.code, v)
			}
			hosts, _, _ := strings.Cut(strings.TrimPrefix(at, "redlock://"), "?")
			for _, want := range tt.wants {
				for i, host := range strings.Split(hosts, ",") {
					want = strings.Replace(want, fmt.Sprintf("node %d:", i+1), "node "+host+":", 1)
				}
				if !v.has(want) {
					t.Errorf("no finding is %q: %+v", want, v.Findings)
				}
			}
			if !slices.IsSortedFunc(v.Findings, func(a, b finding) int {
				order := []string{"danger", "warning", "unknown", "ok"}
				return slices.Index(order, a.Level) - slices.Index(order, b.Level)
			}) {
				t.Errorf("the worst finding is not the first: %+v", v.Findings)
			}
		})
	}
}

// doctor reports the settings of a MariaDB server that endanger locks.
func TestDoctor_mysql(t *testing.T) {
	t.Parallel()
	v, code := diagnose(t, testenv.MariaDB(t, testenv.Shared()).Database(t))
	if code != 0 || !strings.HasPrefix(v.Version, "MariaDB ") {
		t.Errorf("exit %d: %+v", code, v)
	}
	for _, want := range []string{
		"ok: the server is MariaDB", "ok: the tables are in InnoDB", "ok: a lock was acquired",
		"warning: commits are answered before they are on disk",
	} {
		if !v.has(want) {
			t.Errorf("no finding is %q: %+v", want, v.Findings)
		}
	}
}

// doctor reports a PostgreSQL server that answers but cannot be used, and a permission that is
// missing, with a cure. If the store itself reports that waiters poll, doctor does not report it
// again.
func TestDoctor_postgres(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Fsync())
	pooler := testenv.PgBouncer(t, srv, testenv.PoolTransaction)
	do := func(sql string) {
		t.Helper()
		if _, err := srv.Query(t.Context(), sql); err != nil {
			t.Fatal(sql, err)
		}
	}
	do("create role app login")
	app, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	app.User = url.User("app")
	owner := srv.URL
	for _, tt := range []struct {
		name, before, url, what, cure string
	}{
		{
			"may not create", "select 1", app.String(),
			`danger: the schema "distlock" is missing, and cannot be created`, "run distlock migrate as a role that may",
		},
		{
			"missing", "select 1", owner + "&lock_migrate=false",
			`danger: the schema "distlock" is missing`, "run distlock migrate",
		},
		{"fine", "select 1", owner, "ok: a lock was acquired", ""},
		{"its version, as migrate prints it", "select 1", owner, `ok: the schema "distlock" has version 3.`, ""},
		{
			"no usage", "select 1", app.String(),
			`danger: the schema "distlock" cannot be read by this role`, "docs/postgres.md",
		},
		{
			"no usage, by hand", "select 1", app.String() + "&lock_migrate=false",
			`danger: the schema "distlock" cannot be read by this role`, "docs/postgres.md",
		},
		{
			"may only read",
			"grant usage on schema distlock to app; grant select on all tables in schema distlock to app", app.String(),
			"danger: a lock could not be acquired", "docs/postgres.md",
		},
		{"a pooler", "select 1", pooler.URL, "warning: a pooler is in front of the server", "lock_listen"},
		{
			"older functions", "delete from distlock.meta where name = 'functions'", owner,
			"danger: the schema \"distlock\" has the functions of an older program", "as the owner",
		},
		{
			"newer", "update distlock.meta set value = '7' where name = 'version'", owner,
			`danger: the schema "distlock" has version 7`, "use a newer program",
		},
	} {
		do(tt.before)
		v, code := diagnose(t, tt.url)
		level, words, _ := strings.Cut(tt.what, ": ")
		if want := map[string]int{"danger": exitFound}[level]; code != want || !v.Reachable {
			t.Errorf("%s: exit %d: %+v", tt.name, code, v)
		}
		at := slices.IndexFunc(v.Findings, func(f finding) bool {
			return f.Level == level && strings.HasPrefix(f.What, words)
		})
		if at < 0 || !strings.Contains(v.Findings[at].Cure, tt.cure) {
			t.Errorf("%s: no finding is %q with the cure %q: %+v", tt.name, tt.what, tt.cure, v.Findings)
		}
		if v.has("warning: no notification") {
			t.Errorf("%s: reported twice: %+v", tt.name, v.Findings)
		}
	}
}

// doctor releases all that it acquires.
func TestDoctor_leavesNothing(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t)
	if v, code := diagnose(t, r.URL); code != 0 {
		t.Errorf("%d %+v", code, v)
	}
	if keys, err := r.Do(t.Context(), "KEYS", "lock:*"); err != nil || len(keys.([]any)) > 0 {
		t.Errorf("claims are left behind: %v, %v", keys, err)
	}
}

func TestDoctor_unreachable(t *testing.T) {
	t.Parallel()
	silent := testenv.Redis(t, testenv.Password("hunter22"))
	for name, url := range map[string]string{
		"refused":        "redis://:hunter22@127.0.0.1:1",
		"no node":        "redlock://:hunter22@127.0.0.1:1,localhost:1,127.0.0.2:1",
		"no Sentinel":    "redis+sentinel://:hunter22@127.0.0.1:1,127.0.0.2:1?master_name=m",
		"no cluster":     "redis+cluster://:hunter22@127.0.0.1:1,127.0.0.2:1",
		"wrong password": "redis://:hunter22x@" + silent.Addr,
		"silent":         silent.URL,
	} {
		t.Run(name, func(t *testing.T) {
			if name == "silent" {
				silent.Pause()
				defer silent.Resume()
			}
			watch := testenv.NewStopwatch(t)
			v, code := diagnose(t, url)
			if code != exitUnavailable || v.Reachable || v.Error == "" || len(v.Findings) > 0 {
				t.Errorf("exit %d: %+v", code, v)
			}
			if took := watch.Elapsed(); took > 15*time.Second {
				t.Error("it took", took)
			}
		})
	}
}

// A faultyStore is a store with one wrong method.
type faultyStore struct {
	driver.Store
	features func(driver.Features) driver.Features
	acquire  func(driver.Request, driver.Result) (driver.Result, error)
	renew    error
	release  func(err error) error
}

func (s faultyStore) Features() driver.Features {
	if s.features != nil {
		return s.features(s.Store.Features())
	}
	return s.Store.Features()
}

func (s faultyStore) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	res, err := s.Store.Acquire(ctx, r)
	if s.acquire != nil && err == nil {
		return s.acquire(r, res)
	}
	return res, err
}

func (s faultyStore) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	if s.renew != nil {
		return 0, s.renew
	}
	return s.Store.Renew(ctx, r)
}

func (s faultyStore) Release(ctx context.Context, id driver.ID) error {
	err := s.Store.Release(ctx, id)
	if s.release != nil {
		return s.release(err)
	}
	return err
}

func TestProbe(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		b    faultyStore
		want string
	}{
		"grants twice": {faultyStore{acquire: func(_ driver.Request, res driver.Result) (driver.Result, error) {
			res.Granted = true
			return res, nil
		}}, "danger: two owners were granted one lock"},
		"grants nothing": {faultyStore{acquire: func(driver.Request, driver.Result) (driver.Result, error) {
			return driver.Result{}, nil
		}}, "danger: a name that nobody uses is refused"},
		"same fence": {faultyStore{acquire: func(_ driver.Request, res driver.Result) (driver.Result, error) {
			res.Fence = 7
			return res, nil
		}}, "danger: a fencing token did not grow: 7 after 7"},
		"cannot grant": {faultyStore{acquire: func(driver.Request, driver.Result) (driver.Result, error) {
			return driver.Result{}, broken
		}}, "danger: a lock could not be acquired: broken"},
		"cannot renew": {faultyStore{renew: broken}, "danger: a lock could not be renewed: broken"},
		"cannot release": {
			faultyStore{release: func(error) error { return broken }},
			"danger: a lock could not be released: broken",
		},
		"releases twice": {
			faultyStore{release: func(error) error { return nil }},
			"danger: a lock could not be found free after its release: it was still held",
		},
		"slow": {faultyStore{acquire: func(_ driver.Request, res driver.Result) (driver.Result, error) {
			time.Sleep(300 * time.Millisecond)
			return res, nil
		}}, "warning: acquiring a lock takes 300ms"},
		"silent": {faultyStore{}, "warning: no notification of a release arrived within 1s"},
		"short TTL": {
			faultyStore{features: func(f driver.Features) driver.Features { f.MaxTTL = time.Second; return f }},
			"ok: a lock was acquired",
		},
		"long TTL": {
			faultyStore{features: func(f driver.Features) driver.Features { f.MinTTL = time.Hour; return f }},
			"ok: a lock was acquired",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mem.New()
				tt.b.Store = m
				p := newProbe(tt.b) // the store has no Watch, so no waiter is notified
				p.run(t.Context())
				level, words, _ := strings.Cut(tt.want, ": ")
				if !slices.ContainsFunc(p.findings, func(f driver.Finding) bool {
					return f.Level.String() == level && strings.Contains(f.What, words)
				}) {
					t.Errorf("no finding is %q: %+v", tt.want, p.findings)
				}
				for c, err := range driver.List(t.Context(), m, "") {
					t.Errorf("%+v is left behind, %v", c, err)
				}
			})
		})
	}
}

// A probe that is interrupted leaves nothing in the store.
func TestProbe_interrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := mem.New()
		p := newProbe(faultyStore{Store: m, acquire: func(_ driver.Request, res driver.Result) (driver.Result, error) {
			cancel()
			return res, nil
		}})
		p.run(ctx)
		for c, err := range driver.List(t.Context(), m, "") {
			t.Errorf("%+v is left behind, %v", c, err)
		}
	})
}

func TestFeatures(t *testing.T) {
	none := featuresOf(driver.Features{MinTTL: time.Second, MaxTTL: time.Minute})
	p := &columns{}
	p.abilities(none)
	if n := strings.Count(p.String(), "cannot   "); n != len(none.abilities()) || !strings.Contains(p.String(), "TTLs: 1s to 1m0s") {
		t.Error(p.String())
	}
	for want, f := range map[string]driver.Features{
		"up to 1m0s": {MaxTTL: time.Minute}, "1ms and longer": {MinTTL: time.Millisecond}, "any": {},
	} {
		if got := featuresOf(f).ttls(); got != want {
			t.Errorf("%+v: %s, want %s", f, got, want)
		}
	}
}

func TestMergeNodes(t *testing.T) {
	got := mergeNodes([]finding{
		{Level: "warning", What: "node [::1]:7001: old"},
		{Level: "warning", What: "of all"},
		{Level: "warning", What: "node 2 (redis): old", Means: "another"},
		{Level: "warning", What: "node 3 (redis): old"},
		{Level: "ok", What: "node 3 (redis): old"},
	})
	want := []finding{
		{Level: "warning", What: "nodes [::1]:7001, 3 (redis): old"},
		{Level: "warning", What: "of all"},
		{Level: "warning", What: "node 2 (redis): old", Means: "another"},
		{Level: "ok", What: "node 3 (redis): old"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestSpeed(t *testing.T) {
	ms := time.Millisecond
	p := &probe{
		acquires: []time.Duration{9 * ms, 4 * ms, 2 * ms}, renews: []time.Duration{3 * ms},
		releases: []time.Duration{ms}, trips: []time.Duration{2 * ms},
	}
	if got := p.speed().String(); got != "a round trip takes 2.00 ms; acquire takes 2.0, renew 1.5, release 0.5 round trips" {
		t.Error(got)
	}
	p.trips = []time.Duration{time.Microsecond} // too short for a call to a server
	if got := p.speed().String(); got != "acquire takes 4.00 ms, renew 3.00 ms, release 1.00 ms" {
		t.Error(got)
	}
	if s := (&probe{}).speed(); s != nil {
		t.Error(s)
	}
}

// On a virtual machine doctor warns of pauses that no lease can notice. It does not if the store is
// on this host, because the store is then paused too.
func TestDoctor_virtualHost(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"sqlite:a.db": true, "memory:": true, "redis://host": false, "postgres://host/db": false, "redlock://a,b,c": false,
	} {
		if got := local(url); got != want {
			t.Errorf("%s is on this host: %v", url, got)
		}
	}
	for _, is := range []bool{true, false} {
		var out strings.Builder
		a := &app{out: &out}
		if err := a.printDiagnosis(&diagnosis{Store: "redis://host", Reachable: true, Virtual: is}); err != nil {
			t.Fatal(err)
		}
		if printed := strings.Contains(out.String(), "a virtual machine"); printed != is {
			t.Errorf("virtual %v: %s", is, out.String())
		}
	}
}

// doctor warns if the group may write to the file that names the store: its members can choose the
// store.
func TestDoctor_sharedFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no group")
	}
	url := filepath.Join(t.TempDir(), "url")
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o620: true} {
		if err := os.WriteFile(url, []byte("memory:\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(url, mode); err != nil { // the umask does not apply to Chmod
			t.Fatal(err)
		}
		if v, code := diagnose(t, "@"+url); code != 0 || v.has("warning: the group of "+url+" may write to it") != want {
			t.Errorf("mode %o: exit %d, %+v", mode, code, v.Findings)
		}
	}
}
