package testenv

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

const (
	sentinels       = 3
	sentinelQuorum  = 2
	installSentinel = "apt-get install redis-sentinel, or scripts/servers, or brew install redis"
)

var errNoAnswer = errors.New("no address")

// A SentinelGroup is a primary with replicas, and the sentinels that watch them.
type SentinelGroup struct {
	Name      string         // the name by which clients look up the primary
	Nodes     []*RedisServer // the primary of the start, then its replicas
	Sentinels []*RedisServer
}

// Sentinel starts a primary, its replicas (1 if not given) and 3 sentinels, and returns when the
// sentinels can fail over. They fail over when the primary is gone for 500 ms.
func Sentinel(t testing.TB, opts ...Option) *SentinelGroup {
	t.Helper()
	o := collect(t, "Sentinel", opts, "Config", "AOF", "DebugCommand", "Password", "Replicas")
	s := &SentinelGroup{Name: "main"}
	own(t, func(g *group) error {
		s.Nodes, s.Sentinels = nil, nil
		return s.start(g, o)
	})
	return s
}

// NoFailover makes the sentinels keep the primary, also while the scheduler stalls it. It is for
// tests in which no primary dies.
func (s *SentinelGroup) NoFailover(t testing.TB) {
	t.Helper()
	for _, watch := range s.Sentinels {
		if _, err := watch.Do(t.Context(), "SENTINEL", "SET", s.Name, "down-after-milliseconds", "3600000"); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *SentinelGroup) start(g *group, o settings) error {
	for range 1 + o.replicas {
		node, err := startRedis(g, o)
		if err != nil {
			return err
		}
		s.Nodes = append(s.Nodes, node)
		o.redis = s.Nodes[0]
	}
	for range sentinels {
		watch, err := newSentinel(g)
		if err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, watch)
	}
	s.introduce(o.password)
	for _, watch := range s.Sentinels {
		if err := watch.up(); err != nil {
			return err
		}
	}
	return await("the sentinels agree", s.agreed)
}

// newSentinel prepares a sentinel of the group, still without a configuration.
func newSentinel(g *group) (*RedisServer, error) {
	program, err := find("redis-sentinel", installSentinel)
	if err != nil {
		return nil, err
	}
	s, err := g.add("redis-sentinel")
	if err != nil {
		return nil, err
	}
	r := &RedisServer{Server: s}
	s.URL = "redis://" + s.Addr
	s.stop = syscall.SIGTERM
	s.plan = plan{
		cmd:   func() *exec.Cmd { return exec.Command(program, s.path("sentinel.conf")) },
		ready: func(ctx context.Context) error { return r.ready(ctx, false) },
		death: os.Kill,
	}
	return r, nil
}

// introduce writes the primary, the replicas and the other sentinels into the configuration of each
// sentinel. They would discover each other, but that takes several seconds.
func (s *SentinelGroup) introduce(password string) {
	ids := make([]string, len(s.Sentinels))
	for i := range ids {
		var b [20]byte
		rand.Read(b[:])
		ids[i] = hex.EncodeToString(b[:])
	}
	for i, watch := range s.Sentinels {
		host, port, _ := net.SplitHostPort(watch.Addr)
		lines := []string{
			"bind " + host, "port " + port, "dir " + watch.data(), "sentinel myid " + ids[i],
			fmt.Sprintf("sentinel monitor %s %s %d", s.Name, spaced(s.Nodes[0].Addr), sentinelQuorum),
			"sentinel down-after-milliseconds " + s.Name + " 500",
			// After a failed attempt, the next one comes after twice this time.
			"sentinel failover-timeout " + s.Name + " 3000",
		}
		if password != "" {
			lines = append(lines, "sentinel auth-pass "+s.Name+" "+quote(password))
		}
		for _, replica := range s.Nodes[1:] {
			lines = append(lines, "sentinel known-replica "+s.Name+" "+spaced(replica.Addr))
		}
		for j, other := range s.Sentinels {
			if j != i {
				lines = append(lines, "sentinel known-sentinel "+s.Name+" "+spaced(other.Addr)+" "+ids[j])
			}
		}
		watch.plan.fill = func() error { return writeLines(watch.path("sentinel.conf"), lines) }
	}
}

// agreed returns nil when every sentinel reaches the others and every replica.
func (s *SentinelGroup) agreed(ctx context.Context) error {
	for _, watch := range s.Sentinels {
		if _, err := watch.Do(ctx, "SENTINEL", "CKQUORUM", s.Name); err != nil {
			return err
		}
		replicas, err := watch.Do(ctx, "SENTINEL", "REPLICAS", s.Name)
		if err != nil {
			return err
		}
		// A replica whose state has not been seen is not promoted.
		seen := 0
		for _, v := range replicas.([]any) {
			f := fields(v)
			if f["flags"] == "slave" && f["master-link-status"] == "ok" {
				seen++
			}
		}
		if seen != len(s.Nodes)-1 {
			return fmt.Errorf("%s sees %d of %d replicas", watch.Addr, seen, len(s.Nodes)-1)
		}
	}
	return nil
}

// Addrs returns the addresses of the sentinels.
func (s *SentinelGroup) Addrs() []string { return addrs(s.Sentinels) }

// Primary returns the node that most sentinels name as the primary, or an error if there is none.
func (s *SentinelGroup) Primary(ctx context.Context) (*RedisServer, error) {
	votes := map[string]int{}
	var errs []error
	for _, watch := range s.Sentinels {
		v, err := watch.probe(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name)
		pair, ok := v.([]any)
		if err != nil || !ok || len(pair) != 2 {
			errs = append(errs, fmt.Errorf("%s: %v, %w", watch.Addr, v, cmp.Or(err, errNoAnswer)))
			continue
		}
		votes[net.JoinHostPort(pair[0].(string), pair[1].(string))]++
	}
	for _, node := range s.Nodes {
		if votes[node.Addr] >= sentinelQuorum {
			return node, nil
		}
	}
	return nil, fmt.Errorf("the sentinels name no primary: %v: %w", votes, errors.Join(errs...))
}

// spaced writes an address as Redis's configuration wants it.
func spaced(addr string) string { return strings.Replace(addr, ":", " ", 1) }

// fields reads a reply that is a list of names and values.
func fields(v any) map[string]string {
	list, _ := v.([]any)
	out := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		out[name], _ = list[i+1].(string)
	}
	return out
}
