package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// Inspect returns the server's information about itself. Information that the server withholds from
// this user is Unknown.
//
// Identity and age come from a mark, a Redis key that the first Inspect writes without a time to
// live. The identity is a random name in the mark. It survives restarts and failovers, as far as
// the data does: a server that keeps nothing on disk has a new identity after a restart, because it
// has forgotten every claim. A server that was made from a copy of another's data has the identity
// of the other.
//
// The mark also names the replication ID of the primary, which a restart and a failover change. So
// a server that comes back with an old snapshot, or without the end of its log, has the mark of its
// predecessor. From the first Inspect on, [Store.Acquire] returns the age with every answer, and
// writes the mark again if it is missing or stale: a quorum, which inspects its nodes, must not
// count a node that may have lost a claim. A server that does not let this user run INFO always has
// the lowest age. On a cluster, where a script sees one name only, there is no age.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	s.aged.Store(!s.client.Cluster())
	var info driver.Info
	var nodes []facts
	err := s.client.Each(ctx, func(n Node) error {
		f, err := collect(ctx, n)
		nodes = append(nodes, f)
		return err
	})
	if err != nil {
		return driver.Info{}, definite("", err)
	}
	if len(nodes) > 0 {
		info.Version = nodes[0].version()
	}
	if s.client.Cluster() {
		info.Version += fmt.Sprintf(", a cluster of %d", len(nodes))
	} else if len(nodes) > 0 {
		info.Server = nodes[0]["run_id"]
	}
	info.Findings = s.findings(nodes)
	if slices.ContainsFunc(nodes, facts.tooOld) {
		return info, nil // an old server gets no mark
	}
	info.Identity, info.Age, err = s.birth(ctx)
	var reply ReplyError
	if err != nil && !errors.As(err, &reply) {
		return driver.Info{}, definite("", err)
	}
	return info, nil // a server that this user cannot write to has no mark: its identity is unknown
}

// findings returns the findings of all nodes, each once. A finding that only some nodes have names
// their ports.
func (s *Store) findings(nodes []facts) []driver.Finding {
	var all []driver.Finding
	who := map[driver.Finding][]string{}
	for _, n := range nodes {
		for _, f := range n.findings(s.client.Cluster(), s.opt.Replicas) {
			if who[f] == nil {
				all = append(all, f)
			}
			who[f] = append(who[f], n["tcp_port"])
		}
	}
	for i, f := range all {
		if len(who[f]) < len(nodes) {
			all[i].What = "on port " + strings.Join(who[f], ", ") + ": " + f.What
		}
	}
	return all
}

// birthKey is the Redis key of the mark. No key is empty, so no claim has this Redis key.
func (s *Store) birthKey() string { return "{" + s.prefix + "}:birth" }

// floorKey is the Redis key of the floor of fences. It is "" on a cluster, which has no floor.
func (s *Store) floorKey() string {
	if s.client.Cluster() {
		return ""
	}
	return "{" + s.prefix + "}:floor"
}

// birth returns the identity of the server, and how long it has had it.
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

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
