package fence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock/internal/backoff"
)

// ErrConflict says that other writers were faster each time, and nothing was saved. The error is a
// *[ConflictError].
var ErrConflict = errors.New("fence: conflict")

// A ConflictError is an [ErrConflict] with the number of attempts of [Update].
type ConflictError struct{ Tries int }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("fence: conflict: others were faster %d times", e.Tries)
}

// Is reports whether target is [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// The pauses after a conflict: the first is about as long as a save takes, the longest is for many
// writers.
const (
	firstPause   = 2 * time.Millisecond
	longestPause = 250 * time.Millisecond
	defaultTries = 100
)

// UpdateOptions are the options of [Update].
type UpdateOptions struct {
	Tries int // the maximum number of attempts; 0 means 100
}

// Update changes a value without a lock. It loads the value with its version, calls change for the
// new value, and saves that if the version is still the same. If not, it pauses for a moment and
// starts again. V is anything that distinguishes versions: a number, a time, a hash, the old value
// itself.
//
//	load     reads value and version
//	change   returns the new value; an error ends Update. It may run several times,
//	         so it has no side effects
//	save     compares the version and saves, in one step. False: the version is another one, and
//	         nothing was saved
//
// Update returns the saved value. After too many attempts the error is [ErrConflict]; if ctx ends
// before, the error also has the cause of ctx. Errors of load and save are returned as they are.
// After an error of save it is unknown whether the value was saved.
func Update[T, V any](
	ctx context.Context,
	load func(ctx context.Context) (T, V, error),
	change func(T) (T, error),
	save func(ctx context.Context, value T, version V) (bool, error),
	opt *UpdateOptions,
) (T, error) {
	var none T
	tries := defaultTries
	if opt != nil && opt.Tries != 0 {
		tries = opt.Tries
	}
	if tries < 0 {
		return none, fmt.Errorf("%w: %d tries", ErrInvalid, tries)
	}
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return none, ended(ctx, n-1)
		}
		old, version, err := load(ctx)
		if err != nil {
			return none, err
		}
		value, err := change(old)
		if err != nil {
			return none, err
		}
		saved, err := save(ctx, value, version)
		switch {
		case err != nil:
			return none, err
		case saved:
			return value, nil
		case n == tries:
			return none, &ConflictError{Tries: n}
		}
		pause := time.NewTimer(backoff.Pause(n, firstPause, longestPause))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return none, ended(ctx, n)
		}
	}
}

// ended returns the error for the end of ctx after so many conflicts.
func ended(ctx context.Context, conflicts int) error {
	if conflicts == 0 {
		return context.Cause(ctx)
	}
	return errors.Join(&ConflictError{Tries: conflicts}, context.Cause(ctx))
}
