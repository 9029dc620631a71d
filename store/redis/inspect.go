package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// Inspect tells what the server says of itself. What it does not tell to this user is Unknown.
//
// Identity and age come from a mark that the first Inspect leaves beside the claims, for good: a server that forgot
// its claims forgot the mark as well. From the first call on, Acquire tells the age with every answer, and renews the mark of a server that
// forgot it: a majority, which inspects its nodes, must not count one that has just forgotten a claim. On a cluster, where
// a script sees one name only, it is not told.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	s.aged.Store(!s.client.Cluster())
	var info driver.Info
	var findings []driver.Finding
	nodes := 0
	err := s.client.Each(ctx, func(n Node) error {
		facts, err := ask(ctx, n)
		if err != nil {
			return err
		}
		nodes++
		info.Version = facts.version()
		findings = append(findings, facts.memory(), facts.disk(), facts.replication(s.opt.Replicas))
		return nil
	})
	if err != nil {
		return driver.Info{}, definite("", err)
	}
	if s.client.Cluster() {
		info.Version += fmt.Sprintf(", a cluster of %d", nodes)
	}
	for _, f := range findings { // nodes that are alike are told once
		if !slices.Contains(info.Findings, f) {
			info.Findings = append(info.Findings, f)
		}
	}
	info.Identity, info.Age, err = s.birth(ctx)
	var reply ReplyError
	if err != nil && !errors.As(err, &reply) {
		return driver.Info{}, definite("", err)
	}
	return info, nil // a server that may not be written to has no mark: it is unknown who it is
}

// birthKey is where the mark lies. No key is empty, so that no claim has this name.
func (s *Store) birthKey() string { return "{" + s.prefix + "}:birth" }

// birth returns who the server is, and for how long it has been.
func (s *Store) birth(ctx context.Context) (identity string, age time.Duration, err error) {
	f := newFrame()
	defer f.free()
	f.text(s.birthKey())
	f.keys = 1
	f.text(rand.Text())
	text, err := s.run(ctx, f, &s.scripts.birth)
	if err != nil {
		return "", 0, err
	}
	r := reader{rest: text}
	identity = "redis:" + r.word()
	age = time.Duration(r.number()) * time.Microsecond
	return identity, age, r.err
}

// facts are what a node says of itself: the fields of INFO, and some of CONFIG.
type facts map[string]string

func ask(ctx context.Context, n Node) (facts, error) {
	all := facts{}
	reply, err := n.Do(ctx, "INFO")
	if refused(err) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[k] = v
		}
	}
	for _, field := range []string{"save", "appendfsync"} {
		reply, err := n.Do(ctx, "CONFIG", "GET", field)
		if refused(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		if kv, _ := reply.([]any); len(kv) == 2 {
			v, _ := kv[1].(string)
			all["config "+field] = v
		}
	}
	return all, nil
}

// refused reports whether the server does not answer this user.
func refused(err error) bool {
	var reply ReplyError
	return errors.As(err, &reply)
}

func (f facts) version() string {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if server, ok := strings.CutSuffix(name, "_version"); ok && server == "valkey" {
			return "Valkey " + f[name]
		}
	}
	if v := f["redis_version"]; v != "" {
		return "Redis " + v
	}
	return "Redis, version unknown"
}

// memory finds out whether claims may be evicted.
func (f facts) memory() driver.Finding {
	switch policy := f["maxmemory_policy"]; {
	case policy == "":
		return unknown("the eviction policy")
	case policy == "noeviction" || f["maxmemory"] == "0":
		return driver.Finding{Level: driver.OK, What: "nothing is evicted (maxmemory-policy " + policy + ")"}
	default:
		return driver.Finding{
			Level: driver.Danger,
			What:  "keys are evicted when memory is full (maxmemory-policy " + policy + ")",
			Means: "a claim or its last fence may vanish while it is held, and another is granted",
			Cure:  "set maxmemory-policy noeviction, or use a server of its own for locks",
		}
	}
}

// disk finds out what a crash forgets.
func (f facts) disk() driver.Finding {
	save, known := f["config save"]
	switch {
	case f["aof_enabled"] == "":
		return unknown("the persistence")
	case f["aof_enabled"] == "1" && f["config appendfsync"] == "always":
		return driver.Finding{Level: driver.OK, What: "every write is on disk before it is answered (appendfsync always)"}
	case f["aof_enabled"] == "1":
		return driver.Finding{
			Level: driver.Warning,
			What:  "writes reach the disk up to a second later (appendonly yes)",
			Means: "a power failure forgets the claims of the last second; the clock keeps fences rising",
			Cure:  "set appendfsync always, or let protected resources check the fence",
		}
	case !known || save != "":
		return driver.Finding{
			Level: driver.Warning,
			What:  "there is no append-only file (appendonly no)",
			Means: "a restart forgets the claims since the last snapshot; the clock keeps fences rising",
			Cure:  "set appendonly yes, or let protected resources check the fence",
		}
	default:
		return driver.Finding{
			Level: driver.Warning,
			What:  "nothing is kept on disk",
			Means: "a restart forgets every claim; the clock keeps fences rising",
			Cure:  "set appendonly yes, or let protected resources check the fence",
		}
	}
}

// replication finds out what a failover forgets.
func (f facts) replication(wait int) driver.Finding {
	switch {
	case f["role"] == "":
		return unknown("the role and the replicas")
	case f["role"] != "master":
		return driver.Finding{
			Level: driver.Danger, What: "this is a replica",
			Means: "nothing can be claimed here", Cure: "name the primary, or use Sentinel or the cluster",
		}
	case f["connected_slaves"] == "0":
		return driver.Finding{Level: driver.OK, What: "a primary without replicas: no failover can forget claims"}
	case wait > 0:
		return driver.Finding{
			Level: driver.Warning,
			What:  fmt.Sprintf("%s replicas, and grants wait for %d of them", f["connected_slaves"], wait),
			Means: "a failover to a replica that was not waited for forgets the last claims",
			Cure:  "let protected resources check the fence",
		}
	default:
		return driver.Finding{
			Level: driver.Warning,
			What:  f["connected_slaves"] + " replicas, which are told of claims after they are granted",
			Means: "a failover may forget the last claims, and another is granted; fences rise unless the clock is behind",
			Cure:  "set Options.Replicas, let protected resources check the fence, or use several servers as a quorum",
		}
	}
}

func unknown(what string) driver.Finding {
	return driver.Finding{
		What:  what + " could not be seen",
		Means: "nobody knows what a crash or a full memory does to claims",
		Cure:  "allow this user INFO and CONFIG|GET",
	}
}

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
