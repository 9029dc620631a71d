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

// Inspect tells about all nodes. The age is that of the oldest majority. If no node is heard of it is an error.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return driver.Info{}, err
	}
	defer leave()
	votes := begin(ctx, s, s.lookLimit(), func(ctx context.Context, i int) (driver.Info, error) {
		return driver.Inspect(ctx, s.nodes[i])
	}).all(ctx)
	var heard, down, gone int
	for _, v := range votes {
		switch {
		case v.err == nil:
			heard++
		case errors.Is(v.err, errors.ErrUnsupported): // it may work all the same
		case errors.Is(v.err, driver.ErrUnavailable):
			down++
			gone++
		default:
			gone++
		}
	}
	switch len(votes) {
	case down:
		return driver.Info{}, s.failed(ctx, "inspect", tell(s, votes), driver.ErrUnavailable)
	case gone:
		return driver.Info{}, s.failed(ctx, "inspect", tell(s, votes), errNoMajority)
	}
	info := driver.Info{Findings: s.doubles(votes)}
	var ids, versions []string
	var ages []time.Duration
	for i, v := range votes {
		info.Findings = append(info.Findings, s.told(i, v, gone)...)
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

// doubles finds nodes that are one. New refuses those that it sees; a node that was down then is seen later.
func (s *Store) doubles(votes []vote[driver.Info]) []driver.Finding {
	var out []driver.Finding
	unseen := 0
	for i, v := range votes {
		if v.err != nil || v.value.Identity == "" {
			unseen++
			continue
		}
		for j := range i {
			if votes[j].err == nil && votes[j].value.Identity == v.value.Identity {
				out = append(out, driver.Finding{
					Level: driver.Danger, What: fmt.Sprintf("nodes %s and %s are one", s.names[j], s.names[i]),
					Means: "it counts twice in a majority: when it forgets a claim, another may be granted",
					Cure:  "give every node a store of its own, that copies from no other",
				})
			}
		}
	}
	switch {
	case len(out) > 0:
		return out
	case unseen > 0:
		return []driver.Finding{{
			What: fmt.Sprintf("the identity of %d nodes could not be seen", unseen), Means: "a node that is there twice is no majority",
			Cure: "make sure that every node is a store of its own",
		}}
	}
	return []driver.Finding{{Level: driver.OK, What: fmt.Sprintf("the %d nodes are different stores", len(votes))}}
}

// told is what there is to say of one node, when so many are gone.
func (s *Store) told(i int, v vote[driver.Info], gone int) []driver.Finding {
	node := "node " + s.names[i] + ": "
	if v.err != nil {
		return []driver.Finding{s.unheard(node, v.err, gone)}
	}
	var out []driver.Finding
	if age := v.value.Age; age > 0 && age < s.longest {
		out = append(out, driver.Finding{
			Level: driver.Warning, What: node + fmt.Sprintf("has remembered claims only for %v", age.Round(time.Second)),
			Means: fmt.Sprintf("it is not counted until that is %v, unless all nodes are as new", s.longest),
			Cure:  "wait; restart nodes one at a time, with that long in between",
		})
	}
	for _, f := range v.value.Findings {
		f.What = node + f.What
		out = append(out, f)
	}
	return out
}

// unheard is what is to be said of a node that told nothing.
func (s *Store) unheard(node string, err error, gone int) driver.Finding {
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return driver.Finding{
			What: node + "cannot tell about itself", Means: "it is not known whether it is another's double, or has forgotten claims",
			Cure: "make sure that every node is a store of its own, and keeps its data",
		}
	case len(s.nodes)-gone >= s.majority():
		return driver.Finding{
			Level: driver.Warning, What: node + err.Error(),
			Means: fmt.Sprintf("claims hang on the others: %d more may go", len(s.nodes)-gone-s.majority()), Cure: "bring it back",
		}
	}
	return driver.Finding{
		Level: driver.Danger, What: node + err.Error(), Means: "too few nodes are left: nothing can be claimed or renewed", Cure: "bring it back",
	}
}
