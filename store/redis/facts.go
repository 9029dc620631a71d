package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

const (
	// clockLimit is by how much a server's clock may differ from ours before it is told. Less is usual between hosts
	// that nobody looks after, and far less than a TTL.
	clockLimit = time.Second

	// fullness is the share of maxmemory from which on it is told. Above it a burst of data may leave no room for claims.
	fullness = 0.9
)

// facts are what a node says of itself: the fields of INFO by their names, settings as "config NAME", and
// fields of CLUSTER INFO. What it does not tell to this user is not there.
type facts map[string]string

// settings are what is asked for by CONFIG GET. One is asked at a time: servers before 7.0 know no other way.
var settings = []string{"save", "appendfsync", "min-replicas-to-write", "cluster-require-full-coverage"}

func ask(ctx context.Context, n Node) (facts, error) {
	all := facts{}
	if err := all.lines(ctx, n, "INFO"); err != nil {
		return nil, err
	}
	if all["cluster_enabled"] == "1" {
		if err := all.lines(ctx, n, "CLUSTER", "INFO"); err != nil {
			return nil, err
		}
	}
	for _, name := range settings {
		reply, err := n.Do(ctx, "CONFIG", "GET", name)
		if refused(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		if kv, _ := reply.([]any); len(kv) == 2 {
			v, _ := kv[1].(string)
			all["config "+name] = v
		}
	}
	return all, all.time(ctx, n)
}

// lines asks for a list of fields. One that is refused gives none.
func (f facts) lines(ctx context.Context, n Node, command ...string) error {
	reply, err := n.Do(ctx, command...)
	if refused(err) {
		return nil
	}
	text, _ := reply.(string)
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // some clients leave the kind of a text before it
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			f[k] = v
		}
	}
	return err
}

// time notes by how much the server's clock is ahead of ours, at least: what the question was on its way is not counted.
func (f facts) time(ctx context.Context, n Node) error {
	before := time.Now()
	reply, err := n.Do(ctx, "TIME")
	took := time.Since(before)
	if refused(err) {
		return nil
	}
	if err != nil {
		return err
	}
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return errAnswer
	}
	var at [2]int64
	for i := range at {
		text, _ := parts[i].(string)
		if at[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return errAnswer
		}
	}
	ahead := time.Unix(at[0], at[1]*1000).Sub(before)
	switch {
	case ahead > took:
		ahead -= took
	case ahead > 0:
		ahead = 0
	}
	f["ahead"] = ahead.String()
	return nil
}

// refused reports whether the server does not answer this user. One that asks who the user is has not been reached yet.
func refused(err error) bool {
	var reply ReplyError
	return errors.As(err, &reply) && !strings.HasPrefix(string(reply), "NOAUTH")
}

// version names the server. Valkey tells the version of Redis that it is like, too.
func (f facts) version() string {
	switch {
	case f["valkey_version"] != "":
		return "Valkey " + f["valkey_version"]
	case f["redis_version"] != "":
		return "Redis " + f["redis_version"]
	}
	return "Redis, version unknown"
}

func (f facts) findings(cluster bool, wait int) []driver.Finding {
	all := []driver.Finding{f.age(cluster), f.role(), f.eviction(), f.disk()}
	for _, more := range []driver.Finding{f.room(), f.trouble(), f.replicas(wait), f.cutOff(), f.clock()} {
		if more.What != "" {
			all = append(all, more)
		}
	}
	if cluster {
		all = append(all, f.slots(), f.coverage())
	}
	return all
}

// tooOld reports whether the server is older than firstServer. One whose version cannot be seen is
// not.
func (f facts) tooOld() bool {
	major, minor, ok := f.number()
	return ok && (major < 6 || major == 6 && minor < 2)
}

// number returns the version of Redis that the server is, or is like.
func (f facts) number() (major, minor int, ok bool) {
	n, _ := fmt.Sscanf(f["redis_version"], "%d.%d", &major, &minor)
	return major, minor, n == 2
}

// age finds out whether the server is too old.
func (f facts) age(cluster bool) driver.Finding {
	major, _, ok := f.number()
	switch {
	case !ok:
		return unknown("the version", "a server that is too old refuses claims, or wakes nobody", "allow this user INFO")
	case f.tooOld():
		return driver.Finding{
			Level: driver.Danger, What: f.version() + " is too old: " + firstServer + " is the first that will do",
			Means: "nothing can be claimed: it lacks commands of the scripts", Cure: "use Redis 7 or Valkey",
		}
	case major < 7 && cluster:
		return driver.Finding{
			Level: driver.Warning, What: f.version() + " has no channels for clusters (SSUBSCRIBE)",
			Means: "nobody is woken by a release: those who wait find out by asking again", Cure: "use Redis 7 or Valkey",
		}
	}
	return driver.Finding{Level: driver.OK, What: "the server is " + f.version()}
}

// role finds out whether the server takes writes.
func (f facts) role() driver.Finding {
	switch f["role"] {
	case "":
		return unknown("the role", "a replica refuses every claim", "allow this user INFO")
	case "master":
		return driver.Finding{Level: driver.OK, What: "it is a primary"}
	}
	return driver.Finding{
		Level: driver.Danger, What: "it is a replica (of " + f["master_host"] + ":" + f["master_port"] + ")",
		Means: "nothing can be claimed here", Cure: "name the primary, or use redis+sentinel:// or redis+cluster://",
	}
}

// eviction finds out whether claims may be evicted.
func (f facts) eviction() driver.Finding {
	switch policy := f["maxmemory_policy"]; {
	case policy == "":
		return unknown("the eviction policy (maxmemory-policy)",
			"if keys are evicted, a claim may vanish while it is held", "allow this user INFO, or make sure that it is noeviction")
	case policy == "noeviction" || f["maxmemory"] == "0":
		what := "nothing is evicted (maxmemory-policy " + policy
		if f["maxmemory"] == "0" {
			what += ", no maxmemory"
		}
		return driver.Finding{Level: driver.OK, What: what + ")"}
	default:
		return driver.Finding{
			Level: driver.Danger,
			What:  "keys are evicted when memory is full (maxmemory-policy " + policy + ")",
			Means: "a claim or its last fence may vanish while it is held, and another is granted",
			Cure:  "set maxmemory-policy noeviction, or use a server of its own for locks",
		}
	}
}

// room finds out whether memory is nearly full. It says nothing of a server without bounds.
func (f facts) room() driver.Finding {
	most, _ := strconv.ParseFloat(f["maxmemory"], 64)
	used, _ := strconv.ParseFloat(f["used_memory"], 64)
	if most == 0 || used < most*fullness {
		return driver.Finding{}
	}
	return driver.Finding{
		Level: driver.Warning, What: fmt.Sprintf("%.0f %% of maxmemory is in use", 100*used/most),
		Means: "a server that is full refuses claims, or evicts them",
		Cure:  "raise maxmemory, or use a server of its own for locks",
	}
}

// disk finds out what a crash forgets.
func (f facts) disk() driver.Finding {
	save, known := f["config save"]
	switch sync := f["config appendfsync"]; {
	case f["aof_enabled"] == "":
		return unknown("the persistence", "a restart may forget every claim", "allow this user INFO and CONFIG|GET")
	case f["aof_enabled"] == "1" && sync == "always":
		return driver.Finding{Level: driver.OK, What: "every write is on disk before it is answered (appendfsync always)"}
	case f["aof_enabled"] == "1" && sync == "":
		return unknown("when writes reach the disk (appendfsync)",
			"a power failure may forget the last claims; the clock keeps fences rising", "allow this user CONFIG|GET")
	case f["aof_enabled"] == "1":
		late := "up to a second later"
		if sync == "no" {
			late = "when the system likes, often half a minute later"
		}
		return driver.Finding{
			Level: driver.Warning,
			What:  "writes reach the disk " + late + " (appendfsync " + sync + ")",
			Means: "a power failure forgets the claims since then; the clock keeps fences rising",
			Cure:  "set appendfsync always, or let protected resources check the fence",
		}
	case !known || save != "":
		return driver.Finding{
			Level: driver.Warning,
			What:  "there is no append-only file (appendonly no)",
			Means: "a restart forgets at least the claims since the last snapshot; the clock keeps fences rising",
			Cure:  "set appendonly yes, or let protected resources check the fence",
		}
	default:
		return driver.Finding{
			Level: driver.Warning,
			What:  "nothing is kept on disk (appendonly no, no save)",
			Means: "a restart forgets every claim; the clock keeps fences rising",
			Cure:  "set appendonly yes, or let protected resources check the fence",
		}
	}
}

// trouble finds out whether the disk fails.
func (f facts) trouble() driver.Finding {
	for _, field := range []string{"aof_last_write_status", "rdb_last_bgsave_status"} {
		if v := f[field]; v != "" && v != "ok" {
			return driver.Finding{
				Level: driver.Danger, What: "the server cannot write to its disk (" + field + " " + v + ")",
				Means: "it refuses claims and renewals (MISCONF), or forgets them when it restarts", Cure: "free or mend the disk: see the server's log",
			}
		}
	}
	return driver.Finding{}
}

// replicas finds out what a failover forgets. Of a replica there is nothing to say: see role.
func (f facts) replicas(wait int) driver.Finding {
	n := f["connected_slaves"]
	switch {
	case f["role"] != "master" || n == "":
		return driver.Finding{}
	case n == "0":
		return driver.Finding{Level: driver.OK, What: "it has no replicas: no failover can forget claims"}
	case wait > 0:
		return driver.Finding{
			Level: driver.Warning,
			What:  fmt.Sprintf("of %s replicas, grants wait for %d", n, wait),
			Means: "a failover to a replica that was not waited for forgets the last claims",
			Cure:  "let protected resources check the fence",
		}
	}
	return driver.Finding{
		Level: driver.Warning,
		What:  "replicas are told of claims after they are granted (" + n + " connected)",
		Means: "a failover may forget the last claims, and another is granted; fences rise unless the clock is behind",
		Cure:  "set lock_replicas (Options.Replicas), let protected resources check the fence, or use several servers as a quorum",
	}
}

// cutOff finds out whether a primary that lost its replicas, one of which may be primary by now, goes on granting.
func (f facts) cutOff() driver.Finding {
	if f["role"] != "master" || f["connected_slaves"] == "0" || f["connected_slaves"] == "" {
		return driver.Finding{}
	}
	const means = "a primary that is cut off goes on granting while a replica takes its place, and two hold one name"
	switch n := f["config min-replicas-to-write"]; n {
	case "":
		return unknown("whether a primary that is cut off stops (min-replicas-to-write)", means, "allow this user CONFIG|GET")
	case "0":
		return driver.Finding{
			Level: driver.Warning, What: "a primary that is cut off from its replicas does not stop (min-replicas-to-write 0)",
			Means: means, Cure: "set min-replicas-to-write 1 and min-replicas-max-lag to less than your TTLs",
		}
	default:
		return driver.Finding{Level: driver.OK, What: "a primary that is cut off from its replicas stops (min-replicas-to-write " + n + ")"}
	}
}

// clock finds out whether the server's clock is one that somebody will set.
func (f facts) clock() driver.Finding {
	ahead, err := time.ParseDuration(f["ahead"])
	const means = "when it is set right at once, claims end early or late by as much; after a failover from it fences may go back"
	switch {
	case err != nil:
		return unknown("the server's clock", means, "allow this user TIME")
	case ahead.Abs() < clockLimit:
		return driver.Finding{Level: driver.OK, What: fmt.Sprintf("the server's clock and ours agree within %v", clockLimit)}
	}
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	return driver.Finding{
		Level: driver.Warning, What: fmt.Sprintf("the server's clock is %v %s ours", ahead.Abs().Round(100*time.Millisecond), way),
		Means: means, Cure: "let both follow NTP, by a daemon that slews the clock and does not set it while locks are held",
	}
}

// slots finds out whether the cluster serves all names.
func (f facts) slots() driver.Finding {
	switch state := f["cluster_state"]; state {
	case "":
		return unknown("the state of the cluster", "names whose slots nobody serves cannot be claimed", "allow this user CLUSTER|INFO")
	case "ok":
		return driver.Finding{Level: driver.OK, What: "the cluster serves all slots"}
	default:
		return driver.Finding{
			Level: driver.Danger, What: "the cluster is down (cluster_state " + state + ", " + f["cluster_slots_ok"] + " of 16384 slots are served)",
			Means: "claims and renewals are refused, and holders lose theirs", Cure: "bring the missing nodes back",
		}
	}
}

// coverage finds out whether the loss of one shard stops all.
func (f facts) coverage() driver.Finding {
	const means = "while one shard has no node, names of all shards are refused and cannot be renewed"
	switch v := f["config cluster-require-full-coverage"]; v {
	case "":
		return unknown("what the loss of one shard does (cluster-require-full-coverage)", "if it stops the cluster, "+means, "allow this user CONFIG|GET")
	case "no":
		return driver.Finding{Level: driver.OK, What: "the loss of one shard leaves the others working (cluster-require-full-coverage no)"}
	default:
		return driver.Finding{
			Level: driver.Warning, What: "the loss of one shard stops the whole cluster (cluster-require-full-coverage " + v + ")",
			Means: means, Cure: "set cluster-require-full-coverage no",
		}
	}
}

func unknown(what, means, cure string) driver.Finding {
	return driver.Finding{What: what + " could not be seen", Means: means, Cure: cure}
}
