package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

const (
	// Whole is the weight of an exclusive claim and the largest limit.
	// A claim of weight Whole leaves no capacity for any other claim.
	Whole int64 = 1 << 30

	// Span is the number of fences that every grant owns: Fence to Fence+Span-1. The next grant
	// of weight Whole on the key starts at Fence+Span or higher.
	Span = 128

	// MaxFence is the first number that is not a fence. Every fence is below it, so that a
	// float64 represents every fence exactly.
	MaxFence uint64 = 1 << 53

	// MaxAhead is how far a Floor may lie beyond both the store's clock and the key's last fence,
	// in the unit of fences. The bound prevents a client with a wrong clock from using up the
	// fences of a key. A fence that follows the clock is a count of microseconds, so MaxAhead is
	// one hour.
	MaxAhead uint64 = 3600 * 1e6

	// MaxKey is the longest key in bytes. [MaxValue] is the longest value in bytes: 64 KiB of a
	// user's value, and one byte for its type.
	MaxKey   = 512
	MaxValue = 64<<10 + 1

	// MaxOwner is the longest owner in bytes, and [MaxHolder] the longest holder and the longest
	// task. [MaxMeta] is the total of all keys and values of Meta. The library sends far less.
	MaxOwner  = 1024
	MaxHolder = 1024
	MaxMeta   = 16 << 10
)

var (
	// ErrNotHeld says that the claim (or, for Release, the claim or queue entry) is not live: it
	// was never granted, was released, expired or was broken. The call changed nothing.
	ErrNotHeld = errors.New("driver: not held")

	// ErrUnavailable says that the store cannot work at the moment, and that the call changed
	// nothing: the store is read-only, full, loading, without a majority, or shutting down. It
	// never means that another owner holds the key.
	ErrUnavailable = errors.New("driver: store unavailable")

	// ErrInvalid says that the call breaks a rule of this contract. The call changed nothing, and
	// the same call would fail again.
	ErrInvalid = errors.New("driver: invalid request")
)

// ID identifies one claim. The caller generates a new Owner of 128 random bits for every claim.
// Any caller that knows the ID can renew and release the claim.
type ID struct {
	Key   string // the key that is claimed: 1 to MaxKey bytes, opaque to the store
	Owner string // the secret that proves ownership of the claim: 1 to MaxOwner bytes
}

// A Request is the argument of [Store.Acquire]: it describes one claim.
type Request struct {
	ID
	Weight   int64         // share of the limit that the claim takes: 1 to Limit
	Limit    int64         // total weight that the key may carry: 1 to Whole
	TTL      time.Duration // life of the claim unless renewed: above 0, in the bounds of Features
	QueueTTL time.Duration // if refused: life of the queue entry; 0: do not join the queue

	// Floor is the lowest fence that the caller accepts: below MaxFence-Span; 0: any.
	Floor uint64

	// Holder names the caller, for people. Task names the caller's task, for deadlock detection.
	// Both are always stored and shown, and have at most MaxHolder bytes.
	Holder, Task string

	Meta  map[string]string // any data for people; at most MaxMeta bytes in all
	Value []byte            // any data for programs; at most MaxValue bytes
}

// A Result is a definite answer to a [Request]: granted, or refused.
type Result struct {
	Granted bool

	// Fresh says that this call created the claim: the owner did not have it before. False
	// carries no information.
	Fresh bool

	// Fence is the first of the fences that this grant owns. It is 0 if the claim was refused
	// or the store has no fences.
	Fence uint64

	// Used is the sum of the weights of the live claims on the key, this claim included if it
	// was granted.
	Used int64

	// Ahead is the number of live queue entries before the owner's, or in the whole queue if the
	// owner has none. It is 0 if granted. Up to 16 it is exact. Above, there are at least that
	// many: a store may stop counting at 17.
	Ahead int

	// Behind is the number of live queue entries behind the owner's, 0 if it has none. If
	// granted, it is the length of the queue. Above 16, there are at least that many, as for Ahead.
	Behind int

	// Retry is the time until the first blocker ends by itself. The blockers are all live claims
	// if there is no capacity, and the queue entries before the owner's, or all entries if it
	// has none. When Retry has passed by the store's clock, that blocker has ended, or was
	// renewed. 0 means that the store does not know, that 17 entries or more are ahead, or that
	// the claim was granted.
	Retry time.Duration

	// Blocker is one live claim if there is no capacity, and otherwise a queue entry before the
	// owner's. It is the zero Claim if granted.
	Blocker Claim

	// Age is how long the store has remembered its claims, as in Info. A majority of stores does
	// not count a store that may have forgotten a claim. 0 means unknown.
	Age time.Duration
}

// A Claim is the public view of a claim or of a queue entry.
type Claim struct {
	Key   string
	Owner string // Tag of the owner, never the owner itself

	Weight, Limit int64
	Fence         uint64 // 0 for a queue entry
	Holder, Task  string
	Meta          map[string]string
	Value         []byte

	Held time.Duration // since the claim was granted, or the entry was added
	Left time.Duration // until it ends by itself; 0 if it does not

	Waiting bool // a queue entry, not a claim
	Kept    bool // a record that is not renewed: see Renewal.Keep
}

// A Renewal is the argument of [Store.Renew]: it gives a held claim more time.
type Renewal struct {
	ID
	TTL   time.Duration // life of the claim from now on
	Value []byte        // the new value; nil: as it was; empty: none

	// Keep makes the claim a record: it is marked Kept, lives for TTL without renewals, and all
	// waiters are woken to read it. A late renewal without Keep, after the claim became a record,
	// gets the usual answer and changes nothing.
	Keep bool
}

// Renewed is the answer to one of the renewals of [RenewAll].
type Renewed struct {
	Behind int   // length of the queue of the key, as in Result
	Err    error // nil, or the error that Renew would have returned
}

// Features declare what a store supports. The library never uses a feature that is not declared.
type Features struct {
	Name string // a short lower-case word for messages and metrics: "redis"

	Fence bool // grants carry fences that grow
	Floor bool // Request.Floor is supported
	Count bool // limits other than Whole are supported
	Queue bool // Request.QueueTTL adds a queue entry; Watch is not needed for it
	Value bool // Value and Meta are stored and shown
	Keep  bool // Renewal.Keep is supported

	// Expiry says that the store itself ends a claim at the end of its TTL, even if the client
	// is alive. Without it a claim ends with the connection of the client.
	Expiry bool

	// Detached says that a claim outlives the process that acquired it.
	Detached bool

	// AnyServer says that the calls of one owner may go through several stores on the same backend
	// at the same time, as through two lock servers. See "Several stores" in the package comment.
	AnyServer bool

	// Batch says that Acquires at the same time cost less than the same calls one after another.
	// Then the waiters of a process that only keep their queue entries attempt together.
	Batch bool

	// MinTTL and MaxTTL bound Request.TTL and Renewal.TTL, but not Request.QueueTTL. MaxTTL 0
	// means that every TTL is supported, up to the longest Duration.
	MinTTL, MaxTTL time.Duration

	// MaxTTLOption is the name of the option that sets MaxTTL, for error messages; "": none.
	MaxTTLOption string
}

// A Store keeps claims. Its methods are safe for concurrent use.
//
// A store answers at once: it does not wait for a key, does not repeat a call and does not renew
// by itself. It returns soon after ctx ends; a store that never blocks may ignore ctx. The package
// comment describes the four outcomes of a call.
//
// Meta and Value of a request or a renewal belong to the caller, and so do those that a store
// returns: a store keeps and returns copies.
type Store interface {
	// Features returns what the store supports. The result never changes.
	Features() Features

	// Acquire grants the claim if the key has capacity for it and no other owner is before it in
	// the queue, and refuses it otherwise. A refusal is a Result, not an error.
	//
	// There is capacity if Weight plus the weights of the live claims on the key is at most
	// Limit. A granted claim lives for TTL and owns Span new fences: see Fences in the package
	// comment.
	//
	// If the claim is refused and r.QueueTTL > 0, the owner gets an entry at the end of the queue,
	// or keeps its entry and its position. The entry lives for r.QueueTTL from now, more or less
	// than before, and holds the data of this request. An entry that is not refreshed in time by
	// another Acquire drops out. An Acquire with r.QueueTTL 0 neither adds nor removes an entry,
	// and changes neither the data nor the life of the owner's entry. The call itself is decided
	// by its own Weight and Limit. A grant removes the owner's entry.
	//
	// An owner that has a live claim on the key is granted the same claim again, for TTL from now,
	// whether or not there is a queue. The weight becomes r.Weight if that is lower. The fence
	// becomes r.Floor if that is higher. Holder, Task, Meta, Value and Limit stay, and so does the
	// life of a record. So a caller that lost a reply repeats the call. An owner whose claim has
	// ended is granted a new claim with new fences: stores need not remember owners, and callers
	// never use an owner twice.
	Acquire(ctx context.Context, r Request) (Result, error)

	// Renew makes a live claim live for r.TTL from now, more or less than before, and replaces its
	// value if r.Value is not nil. It returns the length of the queue of the key. It never brings
	// back a claim that has ended: then it returns ErrNotHeld, or a *BrokenError if the store
	// knows that the claim was broken. A queue entry is not a claim.
	Renew(ctx context.Context, r Renewal) (behind int, err error)

	// Release ends a live claim, or removes a queue entry. If the owner has neither, or cannot
	// have either, it returns ErrNotHeld.
	Release(ctx context.Context, id ID) error
}

// A BrokenError is the [ErrNotHeld] of a claim that was ended by [Break].
type BrokenError struct{ Reason string }

func (e *BrokenError) Error() string { return fmt.Sprintf("driver: broken: %q", e.Reason) }

// Is makes a BrokenError an [ErrNotHeld].
func (e *BrokenError) Is(target error) bool { return target == ErrNotHeld }

// Tag returns the public form of an owner: 8 hex digits of its hash. A Tag distinguishes owners
// without revealing them.
func Tag(owner string) string {
	h := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(h[:4])
}

// Validate returns an error that is [ErrInvalid] if r breaks a rule that holds for every store, or
// needs a feature that f does not declare. Stores call it first in [Store.Acquire]. It does not
// check how far a Floor is ahead: see [MaxAhead].
func (r *Request) Validate(f Features) error {
	switch {
	case r.Limit < 1 || r.Limit > Whole:
		return invalid("limit %d is not 1 to %d", r.Limit, Whole)
	case r.Weight < 1 || r.Weight > r.Limit:
		return invalid("weight %d is not 1 to the limit %d", r.Weight, r.Limit)
	case !f.Count && r.Limit != Whole:
		return invalid("%s cannot count: the limit must be %d", f.Name, Whole)
	case r.QueueTTL < 0:
		return invalid("queue TTL %v is negative", r.QueueTTL)
	case !f.Queue && r.QueueTTL > 0:
		return invalid("%s has no queue", f.Name)
	case !f.Floor && r.Floor > 0:
		return invalid("%s supports no floor", f.Name)
	case r.Floor >= MaxFence-Span:
		return invalid("floor %d leaves no fences", r.Floor)
	case !f.Value && (len(r.Value) > 0 || len(r.Meta) > 0):
		return invalid("%s stores no value", f.Name)
	case len(r.Holder) > MaxHolder || len(r.Task) > MaxHolder:
		return invalid("a holder of %d bytes or a task of %d is over %d bytes",
			len(r.Holder), len(r.Task), MaxHolder)
	}
	if n := metaBytes(r.Meta); n > MaxMeta {
		return invalid("metadata of %d bytes is over %d bytes", n, MaxMeta)
	}
	return validate(f, r.ID, r.TTL, r.Value)
}

func metaBytes(meta map[string]string) (n int) {
	for k, v := range meta {
		n += len(k) + len(v)
	}
	return n
}

// Validate returns an error that is [ErrInvalid] if r breaks a rule that holds for every store, or
// needs a feature that f does not declare. Stores call it first in [Store.Renew].
func (r *Renewal) Validate(f Features) error {
	switch {
	case !f.Keep && r.Keep:
		return invalid("%s keeps no records", f.Name)
	case !f.Value && len(r.Value) > 0:
		return invalid("%s stores no value", f.Name)
	}
	return validate(f, r.ID, r.TTL, r.Value)
}

func validate(f Features, id ID, ttl time.Duration, value []byte) error {
	switch {
	case len(id.Key) == 0 || len(id.Key) > MaxKey:
		return invalid("a key of %d bytes is not 1 to %d bytes", len(id.Key), MaxKey)
	case id.Owner == "" || len(id.Owner) > MaxOwner:
		return invalid("an owner of %d bytes is not 1 to %d bytes", len(id.Owner), MaxOwner)
	case ttl <= 0 || ttl < f.MinTTL:
		return invalid("TTL %v is below %v", ttl, max(f.MinTTL, 1))
	case f.MaxTTL > 0 && ttl > f.MaxTTL:
		return invalid("TTL %v is above %v", ttl, f.MaxTTL)
	case len(value) > MaxValue:
		return invalid("a value of %d bytes is over %d bytes", len(value), MaxValue)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
