package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
)

// lockFlags are the flags of run and acquire that describe the lock.
type lockFlags struct {
	try, shared, fence, quiet bool
	wait, ttl                 time.Duration
	busy                      int
	slots                     int64 // 0: a lock, not a slot of a semaphore
	holder, note              string
	labels                    []string
}

func (k *lockFlags) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVarP(&k.try, "try", "n", false, "do not wait")
	f.DurationVarP(&k.wait, "wait", "w", 0, "wait at most `D` (for ever)")
	f.BoolVarP(&k.shared, "shared", "s", false, "share the lock with other readers")
	f.IntVarP(&k.busy, "busy-exit-code", "E", exitBusy, "exit with `N` if the lock is not acquired; 0 also prints nothing")
	f.DurationVar(&k.ttl, "ttl", 30*time.Second, "how long the store keeps the lock after each renewal")
	f.StringVar(&k.holder, "holder", "", "the name of the holder, shown to people (host:process)")
	f.StringVar(&k.note, "note", "", "why the lock is held, shown to people")
	f.StringArrayVar(&k.labels, "label", nil, "a label, `k=v`; may be given more than once")
	f.BoolVar(&k.fence, "require-fence", false, "refuse a store without fencing tokens")
	f.BoolVarP(&k.quiet, "quiet", "q", false, "print nothing if the lock is busy")
}

// check returns an error if the values of the flags are invalid or exclude each other, and fills
// in the defaults. [app.configure] must have run before.
func (k *lockFlags) check(a *app) error {
	from := a.config.from
	if k.try && from["wait"] > fromDefault {
		switch {
		case from["try"] == from["wait"]:
			return usage("--try and --wait exclude each other")
		case from["wait"] > from["try"]:
			k.try = false
		}
	}
	switch {
	case k.wait < 0:
		return usage("--wait is %v, want 0s or more", k.wait)
	case k.busy < 0 || k.busy > 255:
		return usage("--busy-exit-code is %d, want 0 to 255", k.busy)
	case from["holder"] > fromDefault && k.holder == "":
		return usage("--holder is empty")
	}
	if k.holder == "" {
		host, err := os.Hostname()
		if err != nil || host == "" {
			host = "unknown"
		}
		k.holder = fmt.Sprintf("%.100s:%d", host, os.Getpid())
	}
	if from["ttl"] == fromDefault && a.source.TTL > 0 {
		k.ttl = a.source.TTL
	}
	return nil
}

func (k *lockFlags) options(a *app) ([]distlock.Option, error) {
	opts := []distlock.Option{distlock.TTL(k.ttl), distlock.Holder(k.holder)}
	if k.note != "" {
		opts = append(opts, distlock.Note(k.note))
	}
	for _, l := range k.labels {
		key, value, ok := strings.Cut(l, "=")
		if !ok {
			return nil, usage("--label is %.64q, want k=v", l)
		}
		opts = append(opts, distlock.Meta(key, value))
	}
	if k.fence {
		opts = append(opts, distlock.RequireFence())
	}
	if a.config.from["wait"] > fromDefault && !k.try {
		opts = append(opts, distlock.MaxWait(k.wait))
	}
	return opts, nil
}

// acquire acquires the lock. If a signal ended the wait, the error has the exit code for the
// signal.
func (k *lockFlags) acquire(
	ctx context.Context, l *distlock.Locker, name string, opts []distlock.Option,
) (*distlock.Lease, error) {
	lock := l.Lock
	if k.slots > 0 {
		s, err := l.Semaphore(k.slots)
		if err != nil {
			return nil, err
		}
		lock = s.Acquire
		if k.try {
			lock = s.TryAcquire
		}
	}
	switch {
	case k.slots > 0:
	case k.try && k.shared:
		lock = l.TryRLock
	case k.try:
		lock = l.TryLock
	case k.shared:
		lock = l.RLock
	}
	lease, err := lock(ctx, name, opts...)
	var sig signalError
	switch {
	case err == nil:
		return lease, nil
	case errors.As(context.Cause(ctx), &sig):
		return nil, &exitError{exitSignal + int(sig.sig), nil}
	case errors.Is(err, distlock.ErrHeld):
		return nil, k.busyError(busyMessage(name, err))
	}
	return nil, err
}

// busyError returns the error for a lock that is not acquired. It prints no message with --quiet,
// and none with exit code 0.
func (k *lockFlags) busyError(message error) error {
	if k.quiet || k.busy == 0 {
		message = nil
	}
	return &exitError{k.busy, message}
}

// busyMessage returns a short message that names the holder.
func busyMessage(name string, err error) error {
	var held *distlock.HeldError
	if !errors.As(err, &held) {
		return err
	}
	c := distlock.Claim{Holder: held.Holder, Held: held.Held, Left: held.Left, Fence: held.Fence}
	return errors.New(name + " is " + heldBy(c))
}

// heldBy returns the holder of a claim, and for how long it has held the claim. A lock of a program
// that does not use this library has no fencing token and no age, and may have no expiry.
func heldBy(c distlock.Claim) string {
	s := "held by " + clean(cmp.Or(c.Holder, "another"))
	switch foreign := c.Holder != "" && c.Fence == 0 && c.Held == 0; {
	case !foreign:
		s += fmt.Sprintf(" for %v", short(c.Held))
	case c.Left == 0:
		s += ", no expiry"
	}
	if c.Fence > 0 {
		s += fmt.Sprintf(" (fence %d)", c.Fence)
	}
	return s
}

// clean replaces characters that are not safe for a terminal. Other programs than this library may
// have written the text to the store.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// short rounds a duration for people.
func short(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
