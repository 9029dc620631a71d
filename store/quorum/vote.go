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
	errBusy       = errors.New("not asked: it has not answered the calls before")
	errDoubt      = errors.New("not asked: it has not answered a release")
)

// A VoteError says how the nodes voted when no majority came about.
type VoteError struct {
	Op    string
	Votes []Vote
	Err   error // driver.ErrNotHeld, driver.ErrUnavailable, driver.ErrInvalid, or none of these: the outcome is unknown
}

// A Vote is what one node said.
type Vote struct {
	Node    string // see Options.Nodes
	Granted bool   // or done
	Young   bool   // granted, but not counted: see Options.LongestTTL
	Err     error  // nil if it granted or refused

	Counted time.Duration // if Young: in how long it is counted
}

// String tells the vote in a few words.
func (v Vote) String() string {
	switch {
	case v.Err != nil:
		return v.Node + ": " + v.Err.Error()
	case v.Granted && v.Young:
		return fmt.Sprintf("%s: yes, but it may have forgotten claims: counted in %v", v.Node, ceil(v.Counted))
	case v.Granted:
		return v.Node + ": yes"
	default:
		return v.Node + ": no"
	}
}

// ceil rounds up to seconds: what was counted on must not come too early.
func ceil(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// Error tells every vote.
func (e *VoteError) Error() string {
	parts := make([]string, len(e.Votes))
	for i, v := range e.Votes {
		parts[i] = v.String()
	}
	return fmt.Sprintf("%v: %s: %s", e.Err, e.Op, strings.Join(parts, "; "))
}

// Unwrap returns what came of it. What single nodes said is not to be taken for that.
func (e *VoteError) Unwrap() error { return e.Err }

// failed makes an error of votes. If the caller left, it is the error of its ctx too.
func (s *Store) failed(ctx context.Context, op string, votes []Vote, err error) error {
	e := &VoteError{Op: op, Votes: votes, Err: err}
	if ctx.Err() != nil {
		return errors.Join(e, ctx.Err())
	}
	return e
}

// tell makes votes readable.
func tell[T any](s *Store, votes []vote[T]) []Vote {
	out := make([]Vote, len(votes))
	for i, v := range votes {
		out[i] = Vote{Node: s.names[i], Young: v.young, Err: v.err, Granted: v.err == nil}
		if r, ok := any(v.value).(driver.Result); ok {
			out[i].Granted = v.err == nil && r.Granted
			if v.young {
				out[i].Counted = s.longest - r.Age
			}
		}
	}
	return out
}
