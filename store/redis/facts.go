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
	// clockLimit is the difference between the server's clock and the local clock from which it is
	// reported. Smaller differences are usual between hosts without maintenance, and far smaller
	// than a TTL.
	clockLimit = time.Second

	// fullness is the share of maxmemory from which it is reported. Above it a burst of data may
	// leave no memory for claims.
	fullness = 0.9
)

// facts are the information of a node about itself: the fields of INFO by their names, settings as
// "config NAME", and fields of CLUSTER INFO. Fields that the node withholds from this user are
// missing.
type facts map[string]string

// settings are the settings that are read by CONFIG GET, one at a time: servers before 7.0 take
// only one.
var settings = []string{"save", "appendfsync", "min-replicas-to-write", "cluster-require-full-coverage"}

// collect reads the facts of a node.
func collect(ctx context.Context, n Node) (facts, error) {
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

// lines reads a list of fields. A refused command adds none.
func (f facts) lines(ctx context.Context, n Node, command ...string) error {
	reply, err := n.Do(ctx, command...)
	if refused(err) {
		return nil
	}
	text, _ := reply.(string)
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // some clients keep this prefix
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			f[k] = v
		}
	}
	return err
}

// time notes how far the server's clock is ahead of the local clock, at least: the time of the
// round trip is not counted.
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

// refused reports whether the server refuses the command for this user. NOAUTH is no refusal: the
// server does not know the user yet.
func refused(err error) bool {
	var reply ReplyError
	return errors.As(err, &reply) && !strings.HasPrefix(string(reply), "NOAUTH")
}

// version returns the name and version of the server. Valkey also reports the version of Redis that
// it is compatible with.
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
	for _, more := range []driver.Finding{f.memory(), f.trouble(), f.replicas(wait), f.cutOff(), f.clock()} {
		if more.What != "" {
			all = append(all, more)
		}
	}
	if cluster {
		all = append(all, f.slots(), f.coverage())
	}
	return all
}

// tooOld reports whether the server is older than firstServer. A server with an unknown version is
// not.
func (f facts) tooOld() bool {
	major, minor, ok := f.number()
	return ok && (major < 6 || major == 6 && minor < 2)
}

// number returns the version of Redis that the server is or is compatible with.
func (f facts) number() (major, minor int, ok bool) {
	n, _ := fmt.Sscanf(f["redis_version"], "%d.%d", &major, &minor)
	return major, minor, n == 2
}

// age checks whether the server is too old.
func (f facts) age(cluster bool) driver.Finding {
	major, _, ok := f.number()
	switch {
	case !ok:
		return unknown("the version", "a server that is too old refuses claims, or notifies no waiter", "allow this user INFO")
	case f.tooOld():
		return driver.Finding{
			Level: driver.LevelDanger, What: f.version() + " is too old: " + firstServer + " or newer is required",
			Means: "nothing can be claimed: it lacks commands of the scripts", Cure: "use Redis 7 or Valkey",
		}
	case major < 7 && cluster:
		return driver.Finding{
			Level: driver.LevelWarning, What: f.version() + " has no channels for clusters (SSUBSCRIBE)",
			Means: "a release does not notify waiters: they poll", Cure: "use Redis 7 or Valkey",
		}
	}
	return driver.Finding{Level: driver.LevelOK, What: "the server is " + f.version()}
}

// role checks whether the server accepts writes.
func (f facts) role() driver.Finding {
	switch f["role"] {
	case "":
		return unknown("the role", "a replica refuses every claim", "allow this user INFO")
	case "master":
		return driver.Finding{Level: driver.LevelOK, What: "it is a primary"}
	}
	return driver.Finding{
		Level: driver.LevelDanger, What: "it is a replica (of " + f["master_host"] + ":" + f["master_port"] + ")",
		Means: "nothing can be claimed here", Cure: "name the primary, or use redis+sentinel:// or redis+cluster://",
	}
}

// eviction checks whether claims may be evicted.
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
		return driver.Finding{Level: driver.LevelOK, What: what + ")"}
	default:
		return driver.Finding{
			Level: driver.LevelDanger,
			What:  "keys are evicted when memory is full (maxmemory-policy " + policy + ")",
			Means: "a claim or its last fence may vanish while it is held, and another is granted",
			Cure:  "set maxmemory-policy noeviction, or use a server of its own for locks",
		}
	}
}

// memory checks whether memory is nearly full. A server without a limit has no finding.
func (f facts) memory() driver.Finding {
	most, _ := strconv.ParseFloat(f["maxmemory"], 64)
	used, _ := strconv.ParseFloat(f["used_memory"], 64)
	if most == 0 || used < most*fullness {
		return driver.Finding{}
	}
	return driver.Finding{
		Level: driver.LevelWarning, What: fmt.Sprintf("%.0f %% of maxmemory is in use", 100*used/most),
		Means: "a server that is full refuses claims, or evicts them",
		Cure:  "raise maxmemory, or use a server of its own for locks",
	}
}

// disk checks which claims a crash loses.
func (f facts) disk() driver.Finding {
	save, known := f["config save"]
	switch sync := f["config appendfsync"]; {
	case f["aof_enabled"] == "":
		return unknown("the persistence", "a restart may forget every claim", "allow this user INFO and CONFIG|GET")
	case f["aof_enabled"] == "1" && sync == "always":
		return driver.Finding{Level: driver.LevelOK, What: "every write is on disk before it is answered (appendfsync always)"}
	case f["aof_enabled"] == "1" && sync == "":
		return unknown("when writes reach the disk (appendfsync)",
			"a power failure may forget the last claims; the clock keeps fences rising", "allow this user CONFIG|GET")
	case f["aof_enabled"] == "1":
		late := "up to a second later"
		if sync == "no" {
			late = "when the system likes, often half a minute later"
		}
		return driver.Finding{
			Level: driver.LevelWarning,
			What:  "writes reach the disk " + late + " (appendfsync " + sync + ")",
			Means: "a power failure forgets the claims since then; the clock keeps fences rising",
			Cure:  "set appendfsync always, or let protected resources check the fence",
		}
	case !known || save != "":
		return driver.Finding{
			Level: driver.LevelWarning,
			What:  "there is no append-only file (appendonly no)",
			Means: "a restart forgets at least the claims since the last snapshot; the clock keeps fences rising",
			Cure:  "set appendonly yes, or let protected resources check the fence",
		}
	default:
		return driver.Finding{
			Level: driver.LevelWarning,
			What:  "nothing is kept on disk (appendonly no, no save)",
			Means: "a restart forgets every claim; the clock keeps fences rising",
			Cure:  "set appendonly yes, or let protected resources check the fence",
		}
	}
}

// trouble checks whether the disk fails.
func (f facts) trouble() driver.Finding {
	for _, field := range []string{"aof_last_write_status", "rdb_last_bgsave_status"} {
		if v := f[field]; v != "" && v != "ok" {
			return driver.Finding{
				Level: driver.LevelDanger, What: "the server cannot write to its disk (" + field + " " + v + ")",
				Means: "it refuses claims and renewals (MISCONF), or forgets them when it restarts",
				Cure:  "free or repair the disk: see the server's log",
			}
		}
	}
	return driver.Finding{}
}

// replicas checks which claims a failover loses. A replica has no finding: see role.
func (f facts) replicas(wait int) driver.Finding {
	n := f["connected_slaves"]
	switch {
	case f["role"] != "master" || n == "":
		return driver.Finding{}
	case n == "0":
		return driver.Finding{Level: driver.LevelOK, What: "it has no replicas: no failover can forget claims"}
	case wait > 0:
		return driver.Finding{
			Level: driver.LevelWarning,
			What:  fmt.Sprintf("of %s replicas, grants wait for %d", n, wait),
			Means: "a failover to a replica that was not waited for forgets the last claims",
			Cure:  "let protected resources check the fence",
		}
	}
	return driver.Finding{
		Level: driver.LevelWarning,
		What:  "replicas receive claims after they are granted (" + n + " connected)",
		Means: "a failover may forget the last claims, and another is granted; fences rise unless the clock is behind",
		Cure: "set lock_replicas (Options.Replicas), let protected resources check the fence, " +
			"or use several servers as a quorum",
	}
}

// cutOff checks whether a primary that lost its replicas, one of which may have become primary,
// continues to grant.
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
			Level: driver.LevelWarning, What: "a primary that is cut off from its replicas does not stop (min-replicas-to-write 0)",
			Means: means, Cure: "set min-replicas-to-write 1 and min-replicas-max-lag to less than your TTLs",
		}
	default:
		return driver.Finding{Level: driver.LevelOK, What: "a primary that is cut off from its replicas stops (min-replicas-to-write " + n + ")"}
	}
}

// clock checks whether the server's clock is wrong, and so may be set.
func (f facts) clock() driver.Finding {
	ahead, err := time.ParseDuration(f["ahead"])
	const means = "when it is set right at once, claims end early or late by as much; after a failover from it fences may go back"
	switch {
	case err != nil:
		return unknown("the server's clock", means, "allow this user TIME")
	case ahead.Abs() < clockLimit:
		return driver.Finding{Level: driver.LevelOK, What: fmt.Sprintf("the server's clock and ours agree within %v", clockLimit)}
	}
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	return driver.Finding{
		Level: driver.LevelWarning, What: fmt.Sprintf("the server's clock is %v %s ours", ahead.Abs().Round(100*time.Millisecond), way),
		Means: means, Cure: "let both follow NTP, by a daemon that slews the clock and does not set it while locks are held",
	}
}

// slots checks whether the cluster serves all names.
func (f facts) slots() driver.Finding {
	switch state := f["cluster_state"]; state {
	case "":
		return unknown("the state of the cluster", "names in slots without a node cannot be claimed",
			"allow this user CLUSTER|INFO")
	case "ok":
		return driver.Finding{Level: driver.LevelOK, What: "the cluster serves all slots"}
	default:
		return driver.Finding{
			Level: driver.LevelDanger,
			What: "the cluster is down (cluster_state " + state + ", " + f["cluster_slots_ok"] +
				" of 16384 slots are served)",
			Means: "claims and renewals are refused, and holders lose theirs", Cure: "bring the missing nodes back",
		}
	}
}

// coverage checks whether the loss of one shard stops all.
func (f facts) coverage() driver.Finding {
	const means = "while one shard has no node, names of all shards are refused and cannot be renewed"
	switch v := f["config cluster-require-full-coverage"]; v {
	case "":
		return unknown("what the loss of one shard does (cluster-require-full-coverage)",
			"if it stops the cluster, "+means, "allow this user CONFIG|GET")
	case "no":
		return driver.Finding{Level: driver.LevelOK, What: "the loss of one shard leaves the others working (cluster-require-full-coverage no)"}
	default:
		return driver.Finding{
			Level: driver.LevelWarning, What: "the loss of one shard stops the whole cluster (cluster-require-full-coverage " + v + ")",
			Means: means, Cure: "set cluster-require-full-coverage no",
		}
	}
}

func unknown(what, means, cure string) driver.Finding {
	return driver.Finding{What: what + " could not be seen", Means: means, Cure: cure}
}
