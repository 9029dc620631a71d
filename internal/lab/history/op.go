package history

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// A Kind is the kind of an operation.
type Kind uint8

// The kinds.
const (
	Acquire Kind = iota + 1
	Renew        // the trust of a hold is extended, or shortened
	Lower        // the weight of a hold is lowered
	Release
	Lost  // the loss was reported to the holder
	Gone  // the holder's process ended: it cannot be notified
	Trust // the lease reported that it is held
	Write // to a register that compares fences
	Plain // a write to a register that does not compare fences
	Fault
)

// An Outcome is how an operation ended.
type Outcome uint8

// The outcomes.
const (
	Pending Outcome = iota // it did not return
	Granted                // Acquire
	Refused                // Acquire, Write: definitely not
	Failed                 // unavailable or invalid: definitely without effect
	Unknown                // it may have had an effect, now or later
	Done                   // Renew, Lower, Release, Trust, Write
	NotHeld                // Renew, Lower, Release: the claim is not live
	Untyped                // the caller could not determine the outcome: always a violation
)

// Answer returns the outcome of a call to a [driver.Store] other than Acquire. A failed Acquire has
// the same outcomes.
func Answer(err error) Outcome {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, driver.ErrNotHeld):
		return NotHeld
	case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrInvalid):
		return Failed
	default:
		return Unknown
	}
}

// A Stamp is the time of an event. Among events with the same At, Seq gives the order: in virtual
// time many events share one instant.
type Stamp struct {
	At  time.Duration `json:"at"`            // since the recorder was created
	Seq int64         `json:"seq,omitempty"` // rises with every event; 0: a time at which nothing was recorded
}

// An Op is one operation. The fields that are used depend on its Kind.
type Op struct {
	Kind    Kind    `json:"op"`
	Outcome Outcome `json:"outcome"`
	Key     string  `json:"key,omitempty"`
	Client  string  `json:"client,omitempty"` // the owner of the hold; for a Fault: the client it affects, empty: all clients
	Hold    int64   `json:"hold,omitempty"`   // number of the hold, from 1

	Call   Stamp `json:"call"`
	Return Stamp `json:"return,omitzero"` // zero: it did not return
	Wait   Stamp `json:"wait,omitzero"`   // Acquire: when it began to wait; zero: it did not

	Fence  uint64        `json:"fence,omitempty"`  // Acquire, Write
	Until  time.Duration `json:"until,omitempty"`  // Acquire, Renew: the end of trust; 0: none, or as it was
	TTL    time.Duration `json:"ttl,omitempty"`    // Acquire
	Weight int64         `json:"weight,omitempty"` // Acquire, Lower
	Limit  int64         `json:"limit,omitempty"`  // Acquire

	What string `json:"what,omitempty"` // Write, Plain: the register; Fault: its name; Acquire: GivenUp, or empty
	Saw  uint64 `json:"saw,omitempty"`  // Write, Plain: the value read before
	Put  uint64 `json:"put,omitempty"`  // Write, Plain: the value written
}

// GivenUp is the What of an Acquire whose caller ended its context. The library undoes the attempt
// in the background, so the outcome may be unknown without a fault.
const GivenUp = "given up"

// whole reports whether a grant leaves no capacity for others.
func (o *Op) whole() bool { return o.Weight >= o.Limit }

// String returns one line for readers.
func (o *Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v..", o.Call.At)
	if o.Return != (Stamp{}) {
		fmt.Fprintf(&b, "%v", o.Return.At)
	}
	fmt.Fprintf(&b, " %s %v", o.Client, o.Kind)
	if o.Hold != 0 {
		fmt.Fprintf(&b, " hold=%d", o.Hold)
	}
	if o.Kind != Fault {
		fmt.Fprintf(&b, " %v", o.Outcome)
	}
	if o.What != "" {
		fmt.Fprintf(&b, " %q", o.What)
	}
	if o.Fence != 0 {
		fmt.Fprintf(&b, " fence=%d", o.Fence)
	}
	if o.Until != 0 {
		fmt.Fprintf(&b, " until=%v", o.Until)
	}
	if o.Limit != 0 {
		fmt.Fprintf(&b, " weight=%d/%d", o.Weight, o.Limit)
	}
	if o.Kind == Write || o.Kind == Plain {
		fmt.Fprintf(&b, " saw=%d put=%d", o.Saw, o.Put)
	}
	return b.String()
}

var (
	kinds    = [...]string{"", "acquire", "renew", "lower", "release", "lost", "gone", "trust", "write", "plain write", "fault"}
	outcomes = [...]string{"pending", "granted", "refused", "failed", "unknown", "done", "not held", "untyped"}
)

func (k Kind) String() string    { return name(kinds[:], k) }
func (o Outcome) String() string { return name(outcomes[:], o) }

// MarshalText encodes a Kind as a word.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// MarshalText encodes an Outcome as a word.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the output of [Kind.MarshalText].
func (k *Kind) UnmarshalText(b []byte) error { return parse(kinds[:], b, k) }

// UnmarshalText reads the output of [Outcome.MarshalText].
func (o *Outcome) UnmarshalText(b []byte) error { return parse(outcomes[:], b, o) }

func name[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%d", uint8(v))
}

func parse[T ~uint8](names []string, b []byte, v *T) error {
	for i, n := range names {
		if n == string(b) {
			*v = T(i)
			return nil
		}
	}
	return fmt.Errorf("history: unknown word %q", b)
}
