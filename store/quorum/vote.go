package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

var (
	errNoMajority = errors.New("quorum: no majority of the nodes agreed")
	errLate       = errors.New("no answer in time")
	errBusy       = errors.New("not called: it has not answered earlier calls")
	errDoubt      = errors.New("not called: it has not answered a release")
	errRisky      = errors.New("renewed, but not counted: it has not answered a release")
)

// A VoteError reports how the nodes voted when there was no majority.
type VoteError struct {
	Op    string
	Votes []Vote

	// Err is driver.ErrNotHeld, driver.ErrUnavailable or driver.ErrInvalid. With any other error
	// the outcome is unknown.
	Err error
}

// A Vote is the answer of one node.
type Vote struct {
	Node      string // see Options.Nodes
	Granted   bool   // or renewed, or released
	Uncounted bool   // granted, but the node may have forgotten claims: see Options.LongestTTL
	Err       error  // nil if the node granted or refused

	Counted time.Duration // if Uncounted: in how long the node counts again
}

// String returns the vote in a few words.
func (v Vote) String() string {
	switch {
	case v.Err != nil:
		return v.Node + ": " + v.Err.Error()
	case v.Granted && v.Uncounted:
		return fmt.Sprintf("%s: yes, but it may have forgotten claims: counted in %v", v.Node, ceil(v.Counted))
	case v.Granted:
		return v.Node + ": yes"
	default:
		return v.Node + ": no"
	}
}

// ceil rounds up to seconds: a retry after the printed time must not be too early.
func ceil(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// Error returns the outcome and every vote.
func (e *VoteError) Error() string {
	parts := make([]string, len(e.Votes))
	for i, v := range e.Votes {
		parts[i] = v.String()
	}
	return fmt.Sprintf("%v: %s: %s", e.Err, e.Op, strings.Join(parts, "; "))
}

// Unwrap returns e.Err. The errors of single nodes are not the outcome.
func (e *VoteError) Unwrap() error { return e.Err }

// failed returns a [*VoteError]. If ctx has ended, it is joined with the error of ctx.
func (s *Store) failed(ctx context.Context, op string, votes []Vote, err error) error {
	e := &VoteError{Op: op, Votes: votes, Err: err}
	if ctx.Err() != nil {
		return errors.Join(e, ctx.Err())
	}
	return e
}

// describe converts votes for a [VoteError].
func describe[T any](s *Store, votes []vote[T]) []Vote {
	out := make([]Vote, len(votes))
	for i, v := range votes {
		out[i] = Vote{Node: s.names[i], Uncounted: v.uncounted, Err: v.err, Granted: v.err == nil}
		if r, ok := any(v.value).(driver.Result); ok {
			out[i].Granted = v.err == nil && r.Granted
			if v.uncounted {
				out[i].Counted = s.longest - r.Age
			}
		}
	}
	return out
}
