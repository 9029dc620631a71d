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

// An ask is what run and acquire are told about the lock they take.
type ask struct {
	try, shared, fence, quiet bool
	wait, ttl                 time.Duration
	busy                      int
	slots                     int64 // 0: a lock
	holder, note              string
	labels                    []string
}

func (k *ask) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVarP(&k.try, "try", "n", false, "do not wait")
	f.DurationVarP(&k.wait, "wait", "w", 0, "wait at most `D` (for ever)")
	f.BoolVarP(&k.shared, "shared", "s", false, "share the lock with other readers")
	f.IntVarP(&k.busy, "busy-exit-code", "E", exitBusy, "exit with `N` if the lock is not acquired; 0 is silent")
	f.DurationVar(&k.ttl, "ttl", 30*time.Second, "how long the store keeps the lock after each renewal")
	f.StringVar(&k.holder, "holder", "", "who holds the lock, for people (host:process)")
	f.StringVar(&k.note, "note", "", "why it is held, for people")
	f.StringArrayVar(&k.labels, "label", nil, "a word and its meaning, `k=v`; may be given again")
	f.BoolVar(&k.fence, "require-fence", false, "refuse a store without fences")
	f.BoolVarP(&k.quiet, "quiet", "q", false, "say nothing about a lock that is busy")
}

// check refuses what cannot be meant. It comes after configure.
func (k *ask) check(a *app) error {
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

func (k *ask) options(a *app) ([]distlock.Option, error) {
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

// take takes the lock. A signal ends the wait, and its error is the signal.
func (k *ask) take(ctx context.Context, l *distlock.Locker, name string, opts []distlock.Option) (*distlock.Lease, error) {
	how := l.Lock
	if k.slots > 0 {
		s, err := l.Semaphore(k.slots)
		if err != nil {
			return nil, err
		}
		how = s.Acquire
		if k.try {
			how = s.TryAcquire
		}
	}
	switch {
	case k.slots > 0:
	case k.try && k.shared:
		how = l.TryRLock
	case k.try:
		how = l.TryLock
	case k.shared:
		how = l.RLock
	}
	lease, err := how(ctx, name, opts...)
	var sig signalError
	switch {
	case err == nil:
		return lease, nil
	case errors.As(context.Cause(ctx), &sig):
		return nil, &exitError{exitSignal + int(sig.sig), nil}
	case errors.Is(err, distlock.ErrHeld):
		return nil, &exitError{k.busy, k.unless(k.quiet || k.busy == 0, busyLine(name, err))}
	}
	return nil, err
}

func (k *ask) unless(silent bool, err error) error {
	if silent {
		return nil
	}
	return err
}

// busyLine names the holder in a few words.
func busyLine(name string, err error) error {
	var held *distlock.HeldError
	if !errors.As(err, &held) {
		return err
	}
	return errors.New(name + " is " + heldBy(distlock.Claim{Holder: held.Holder, Held: held.Held, Left: held.Left, Fence: held.Fence}))
}

// heldBy says who holds, and for how long. What another program holds has neither a fence nor an age, and may have no expiry.
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

// clean makes what others wrote into the store safe for a terminal: not all of them use this library.
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
