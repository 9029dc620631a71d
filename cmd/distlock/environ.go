package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/distlock/distlock"
)

// The variables that tell the command about the lock.
const (
	nameVariable   = "DISTLOCK_LOCK_NAME"
	fenceVariable  = "DISTLOCK_LOCK_FENCE"
	holderVariable = "DISTLOCK_LOCK_HOLDER"
	modeVariable   = "DISTLOCK_LOCK_MODE"
	handleVariable = "DISTLOCK_LOCK_HANDLE"

	// fencesVariable has the fences of all runs that the command runs in, the outermost first. A
	// run within finds its parents by them.
	fencesVariable = "DISTLOCK_LOCK_FENCES"
)

// environment is ours, and what the child learns about the lock.
func environment(l *distlock.Lease, holder string) []string {
	fence := fenceText(l.Fence())
	fences := fence
	if outer := os.Getenv(fencesVariable); outer != "" && os.Getenv(nameVariable) != "" {
		fences = outer + " " + fence
	}
	// The handle of a run around this one is of another lock.
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, handleVariable+"=") })
	return append(env,
		nameVariable+"="+l.Name(), fenceVariable+"="+fence, holderVariable+"="+holder, modeVariable+"="+string(l.Mode()),
		fencesVariable+"="+fences)
}

// nested refuses a lock that a run holds in which this one runs: it would wait for itself. Names do not tell, since the other
// may be in another store; URLs do not either, since one store has many. The fence of who holds the name does.
func (j *job) nested(ctx context.Context, locker *distlock.Locker) error {
	name := os.Getenv(nameVariable)
	if name == "" || j.slots > 0 { // there may be another slot
		return nil
	}
	own := usage("%s is held by your parent process: it would wait for itself", j.name)
	fences := strings.Fields(cmp.Or(os.Getenv(fencesVariable), os.Getenv(fenceVariable)))
	if name == j.name && (len(fences) == 0 || slices.Contains(fences, "0")) {
		return own // a store without fences
	}
	why, err := locker.Why(ctx, j.name)
	switch {
	case errors.Is(err, errors.ErrUnsupported) && name == j.name:
		return own
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err != nil:
		return err
	}
	for _, c := range why.Holders {
		if c.Fence > 0 && slices.Contains(fences, fenceText(c.Fence)) {
			return own
		}
	}
	return nil
}

func fenceText(f uint64) string { return strconv.FormatUint(f, 10) }
