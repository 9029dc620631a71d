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

// The environment variables that describe the lock to the command.
const (
	nameVariable   = "DISTLOCK_LOCK_NAME"
	fenceVariable  = "DISTLOCK_LOCK_FENCE"
	holderVariable = "DISTLOCK_LOCK_HOLDER"
	modeVariable   = "DISTLOCK_LOCK_MODE"
	proofVariable  = "DISTLOCK_LOCK_PROOF"
	handleVariable = "DISTLOCK_LOCK_HANDLE"

	// fencesVariable contains the fencing tokens of all runs that enclose the command, the
	// outermost first. A nested run recognizes the locks of its parents by them.
	fencesVariable = "DISTLOCK_LOCK_FENCES"
)

// environment returns the environment of the child: that of this process and the variables that
// describe the lock.
func environment(l *distlock.Lease, holder string) []string {
	fence := fenceText(l.Fence())
	fences := fence
	if outer := os.Getenv(fencesVariable); outer != "" && os.Getenv(nameVariable) != "" {
		fences = outer + " " + fence
	}
	// The handle of an enclosing run belongs to another lock.
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, handleVariable+"=") })
	return append(env,
		nameVariable+"="+l.Name(), fenceVariable+"="+fence, holderVariable+"="+holder,
		modeVariable+"="+string(l.Mode()), proofVariable+"="+l.Proof(), fencesVariable+"="+fences)
}

// nested returns an error if an enclosing run holds the lock, because this run would wait for
// itself. It compares the fencing token of the holder with those of the enclosing runs. The name is
// not enough, because the enclosing run may use another store. The URL is not enough either,
// because one store has many URLs.
func (j *job) nested(ctx context.Context, locker *distlock.Locker) error {
	name := os.Getenv(nameVariable)
	if name == "" || j.slots > 0 { // another slot may be free
		return nil
	}
	own := usage("%s is held by your parent process: this run would wait for itself", j.name)
	fences := strings.Fields(cmp.Or(os.Getenv(fencesVariable), os.Getenv(fenceVariable)))
	if name == j.name && (len(fences) == 0 || slices.Contains(fences, "0")) {
		return own // the store has no fencing tokens
	}
	why, err := locker.Status(ctx, distlock.KindLock, j.name)
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
