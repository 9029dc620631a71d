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

// Inspect tells what the server says of itself. What it does not tell to this user is Unknown.
//
// Identity and age come from a mark that the first Inspect leaves beside the claims, without a time
// to live. It names the primary's replication id, which a restart and a failover change: a server
// that comes back with an old snapshot, or without the end of its log, has the mark of a server
// that is no more. From the first call on, Acquire returns the age with every answer, and writes
// the mark again if it is gone or stale: a majority, which inspects its nodes, must not count a
// node that may have forgotten a claim. A server that does not let this user run INFO is always as
// young as can be. On a cluster, where a script sees one name only, there is no age.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	s.aged.Store(!s.client.Cluster())
	var info driver.Info
	var nodes []facts
	err := s.client.Each(ctx, func(n Node) error {
		f, err := ask(ctx, n)
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
	}
	info.Findings = s.findings(nodes)
	if slices.ContainsFunc(nodes, facts.tooOld) {
		return info, nil // nothing is written there
	}
	info.Identity, info.Age, err = s.birth(ctx)
	var reply ReplyError
	if err != nil && !errors.As(err, &reply) {
		return driver.Info{}, definite("", err)
	}
	return info, nil // a server that may not be written to has no mark: it is unknown who it is
}

// findings are what the nodes of the store tell. What all of them tell is told once; what only some do, with their ports.
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

// birthKey is where the mark is. No key is empty, so that no claim has this name.
func (s *Store) birthKey() string { return "{" + s.prefix + "}:birth" }

// floorKey is where the floor of fences is; it is empty on a cluster, which has none.
func (s *Store) floorKey() string {
	if s.client.Cluster() {
		return ""
	}
	return "{" + s.prefix + "}:floor"
}

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

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
