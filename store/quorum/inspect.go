package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// Inspect describes all nodes. The age is that of the youngest node of the oldest majority. If no
// node answers, Inspect returns an error.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return driver.Info{}, err
	}
	defer leave()
	votes := begin(ctx, s, s.adminLimit(), nil, func(ctx context.Context, i int) (driver.Info, error) {
		return driver.Inspect(ctx, s.nodes[i])
	}).all(ctx)
	var heard, down, gone int
	for _, v := range votes {
		switch {
		case v.err == nil:
			heard++
		case errors.Is(v.err, errors.ErrUnsupported): // the node may still work
		case errors.Is(v.err, driver.ErrUnavailable):
			down++
			gone++
		default:
			gone++
		}
	}
	switch len(votes) {
	case down:
		return driver.Info{}, s.failed(ctx, "inspect", describe(s, votes), driver.ErrUnavailable)
	case gone:
		return driver.Info{}, s.failed(ctx, "inspect", describe(s, votes), errNoMajority)
	}
	info := driver.Info{Findings: s.duplicates(votes)}
	var ids, versions []string
	var ages []time.Duration
	for i, v := range votes {
		info.Findings = append(info.Findings, s.nodeFindings(i, v, gone)...)
		if v.err != nil {
			continue
		}
		if v.value.Identity != "" {
			ids = append(ids, v.value.Identity)
		}
		if v.value.Version != "" {
			versions = append(versions, v.value.Version)
		}
		ages = append(ages, v.value.Age)
	}
	if len(ids) == len(votes) {
		slices.Sort(ids)
		info.Identity = "quorum:" + strings.Join(ids, ",")
	}
	if heard >= s.majority() && !slices.Contains(ages, 0) {
		slices.Sort(ages)
		info.Age = ages[len(ages)-s.majority()]
	}
	info.Version = fmt.Sprintf("%d of %d nodes: %s", s.majority(), len(votes), strings.Join(slices.Compact(versions), ", "))
	return info, nil
}

const (
	sameStore  = "the same store"
	sameServer = "databases of the same server"
)

// together returns why two nodes do not fail independently, or "" if no reason is known.
func together(a, b vote[driver.Info]) string {
	switch {
	case a.err != nil || b.err != nil:
	case a.value.Identity != "" && a.value.Identity == b.value.Identity:
		return sameStore
	case a.value.Server != "" && a.value.Server == b.value.Server:
		return sameServer
	}
	return ""
}

// duplicates finds nodes that are the same store. [New] refuses those that it finds. A node that
// was down during New is found here.
func (s *Store) duplicates(votes []vote[driver.Info]) []driver.Finding {
	var out []driver.Finding
	unread := 0
	for i, v := range votes {
		if v.err != nil || v.value.Identity == "" {
			unread++
			continue
		}
		for j := range i {
			if same := together(v, votes[j]); same != "" {
				out = append(out, driver.Finding{
					Level: driver.LevelDanger, What: fmt.Sprintf("nodes %s and %s are %s", s.names[j], s.names[i], same),
					Means: "it counts twice in a majority: when it forgets a claim, another may be granted",
					Cure:  "give every node its own store, which copies from no other",
				})
			}
		}
	}
	switch {
	case len(out) > 0:
		return out
	case unread > 0:
		return []driver.Finding{{
			What:  fmt.Sprintf("the identity of %d nodes could not be read", unread),
			Means: "one store that counts as two nodes makes no majority",
			Cure:  "make sure that every node is its own store",
		}}
	}
	return []driver.Finding{{Level: driver.LevelOK, What: fmt.Sprintf("the %d nodes are different stores", len(votes))}}
}

// nodeFindings returns the findings of one node. gone is how many nodes did not answer.
func (s *Store) nodeFindings(i int, v vote[driver.Info], gone int) []driver.Finding {
	node := "node " + s.names[i] + ": "
	if v.err != nil {
		return []driver.Finding{s.silentNode(node, v.err, gone)}
	}
	var out []driver.Finding
	if age := v.value.Age; age > 0 && age < s.longest {
		out = append(out, driver.Finding{
			Level: driver.LevelWarning, What: node + fmt.Sprintf("has remembered claims only for %v", age.Round(time.Second)),
			Means: fmt.Sprintf("it does not count until that is %v, unless all nodes are as new", s.longest),
			Cure:  "wait; restart nodes one at a time, with that long in between",
		})
	}
	for _, f := range v.value.Findings {
		f.What = node + f.What
		out = append(out, f)
	}
	return out
}

// silentNode returns the finding of a node that returned no information.
func (s *Store) silentNode(node string, err error, gone int) driver.Finding {
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return driver.Finding{
			What:  node + "cannot describe itself",
			Means: "it is not known whether it is the same store as another node, or has forgotten claims",
			Cure:  "make sure that every node is its own store, and keeps its data",
		}
	case len(s.nodes)-gone >= s.majority():
		return driver.Finding{
			Level: driver.LevelWarning, What: node + err.Error(),
			Means: fmt.Sprintf("claims depend on the other nodes: %d more may fail", len(s.nodes)-gone-s.majority()), Cure: "bring it back",
		}
	}
	return driver.Finding{
		Level: driver.LevelDanger, What: node + err.Error(),
		Means: "too few nodes are left: no claim can be granted or renewed", Cure: "bring it back",
	}
}
