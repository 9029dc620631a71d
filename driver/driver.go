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
	// A claim of weight Whole leaves room for nobody.
	Whole int64 = 1 << 30

	// Span is how many fences every grant owns: Fence to Fence+Span-1. The next grant
	// of weight Whole on the key begins at Fence+Span or higher.
	Span = 128

	// MaxFence is the first number that is no longer a fence. Every fence is
	// below it, so that it survives a trip through a float64.
	MaxFence uint64 = 1 << 53

	// MaxAhead is how far a Floor may lie beyond both the store's clock and the
	// key's last fence, in the unit of fences. It keeps a client with a mad clock
	// from using up the fences of a key. A fence is a count of microseconds where
	// it follows the clock, so this is an hour.
	MaxAhead uint64 = 3600 * 1e6

	// MaxKey and MaxValue bound what a request may carry, in bytes: 64 KiB of a user's value, and a byte that says what
	// it is.
	MaxKey   = 512
	MaxValue = 64<<10 + 1

	// MaxOwner and MaxHolder bound an owner, and a holder or a party, in bytes. MaxMeta bounds the
	// keys and values of Meta in all. What the library sends is far shorter.
	MaxOwner  = 1024
	MaxHolder = 1024
	MaxMeta   = 16 << 10
)

var (
	// ErrNotHeld says that the named claim (or, for Release, claim or place) is
	// not live: it was never granted, was released, ran out or was broken. The
	// call changed nothing.
	ErrNotHeld = errors.New("driver: not held")

	// ErrUnavailable says that the store refused to work for now, and that the call
	// changed nothing: it is read-only, full, loading, without a majority, shutting
	// down. It never means that a key is taken.
	ErrUnavailable = errors.New("driver: store unavailable")

	// ErrInvalid says that the call breaks a rule of this contract. The call
	// changed nothing, and made again now it would fail again.
	ErrInvalid = errors.New("driver: invalid request")
)

// ID names one claim. The caller makes a new Owner of 128 random bits for
// every claim it asks for; whoever knows the ID can renew and release the claim.
type ID struct {
	Key   string // what is claimed: 1 to MaxKey bytes, opaque to the store
	Owner string // the secret that makes the claim the caller's own: 1 to MaxOwner bytes
}

// A Request asks for one claim.
type Request struct {
	ID
	Weight   int64         // how much of the limit the claim takes: 1 to Limit
	Limit    int64         // how much may be taken on this key in all: 1 to Whole
	TTL      time.Duration // how long the claim lives unless renewed: above 0, in the bounds of Features
	QueueTTL time.Duration // if refused: keep a place in line for this long; 0: do not

	// Floor is the least fence the caller will take: below MaxFence-Span; 0: any.
	Floor uint64

	Holder string            // who asks, for people; always stored and shown, as is Task; at most MaxHolder bytes
	Task   string            // whose task it is, for deadlock detection; at most MaxHolder bytes
	Meta   map[string]string // anything, for people; at most MaxMeta bytes in all
	Value  []byte            // anything, for programs; at most MaxValue bytes
}

// A Result is a definite answer to a Request: granted, or refused.
type Result struct {
	Granted bool

	// Fresh says that this very call was granted the claim: the owner did not have it before. False
	// says nothing.
	Fresh bool

	// Fence is the first of the fences that this grant owns; 0 if the claim was
	// refused or the store has no fences.
	Fence uint64

	// Used is the sum of the weights of the live claims on the key, this one
	// included if it was granted.
	Used int64

	// Ahead is how many live places stand before the owner, or in the whole line if
	// the owner has none. It is 0 if granted.
	Ahead int

	// Behind is how many live places stand behind the owner's place, 0 if it has none; if
	// granted, how many stand in line at all.
	Behind int

	// Retry is how long until the first of what is in the way ends by itself: of all live
	// claims if there is no room, and of the places before the owner's, or of all places if
	// it has none. When it has passed by the store's clock, that one has ended. 0 means that the
	// store cannot tell, or that the claim was granted.
	Retry time.Duration

	// Blocker is one live claim if there is no room, and otherwise a place that
	// stands before the owner's. It is the zero Claim if granted.
	Blocker Claim

	// Age is for how long the store has remembered its claims, as in Info. A majority of
	// stores does not count one that may have forgotten a claim. 0 means unknown.
	Age time.Duration
}

// A Claim is what a store tells about a claim or a place in line.
type Claim struct {
	Key   string
	Owner string // Tag of the owner, never the owner itself

	Weight, Limit int64
	Fence         uint64 // 0 for a place
	Holder, Task  string
	Meta          map[string]string
	Value         []byte

	Held time.Duration // since the claim was granted, or the place was taken
	Left time.Duration // until it ends by itself; 0 if it does not

	Waiting bool // a place in line, not a claim
	Kept    bool // a record that nobody renews: see Renewal.Keep
}

// A Renewal asks for more time for a claim that is held.
type Renewal struct {
	ID
	TTL   time.Duration // how long the claim lives from now on
	Value []byte        // the new value; nil: as it was; empty: none

	// Keep makes the claim a record: it is marked Kept and lives for TTL with
	// nobody renewing it, and those in line are woken to look at it. A renewal without Keep
	// that comes late, after the claim became a record, is answered as ever and changes nothing.
	Keep bool
}

// Renewed is the answer to one Renewal of many.
type Renewed struct {
	Behind int   // how many stand in line for the key
	Err    error // nil, or what Renew would have returned
}

// Features declare what a store can do. What is not declared is never asked for.
type Features struct {
	Name string // a short lower-case word for messages and metrics: "redis"

	Fence bool // grants carry fences that rise
	Floor bool // Request.Floor is obeyed
	Count bool // limits other than Whole are obeyed
	Queue bool // Request.QueueTTL keeps a place in line; it needs no Watch
	Value bool // Value and Meta are stored and shown
	Keep  bool // Renewal.Keep is obeyed

	// Expiry says that the store itself ends a claim when its TTL is over, though
	// the claimant is alive. Without it a claim ends with the claimant's connection.
	Expiry bool

	// Detached says that a claim outlives the process that asked for it.
	Detached bool

	// MinTTL and MaxTTL bound Request.TTL and Renewal.TTL, but not Request.QueueTTL. MaxTTL 0 means
	// that every TTL is obeyed, up to the longest Duration.
	MinTTL, MaxTTL time.Duration

	// MaxTTLOption names the option that sets MaxTTL, for error messages; "": there is none.
	MaxTTLOption string
}

// A Store keeps claims. Its methods may be called by many goroutines at once.
//
// A store answers at once: it does not wait for a key, does not repeat a call and does
// not renew by itself. It returns soon after ctx ends; one that never blocks need not look at
// it. See the package comment for the four kinds of answers.
//
// What a request or a renewal carries stays the caller's, and what a store returns is the
// caller's: a store keeps and gives copies of Meta and Value.
type Store interface {
	// Features tells what the store can do. The answer never changes.
	Features() Features

	// Acquire grants the claim if there is room for it and nobody stands in line
	// before it, and refuses it otherwise. Refusal is a Result, not an error.
	//
	// The claim has room if its Weight and those of the live claims on the key are
	// at most its Limit together. A grant begins a life of TTL and is given Span new
	// fences: see Fences in the package comment.
	//
	// If refused and r.QueueTTL > 0, the owner gets a place at the end of the line that lives for
	// r.QueueTTL, or keeps the place it has and that place lives for r.QueueTTL from now, be that more or
	// less than it had. The place stands for what its owner asked last. A place that is not asked for
	// again in time drops out. Asking with r.QueueTTL 0 neither takes a place nor gives one up, and
	// changes neither what the owner's place stands for nor how long it lives. The call itself is
	// judged by its own Weight and Limit. Being granted gives the place up.
	//
	// An owner that has a live claim on the key is granted again what it has, with a
	// life of TTL from now, whoever stands in line. Its weight becomes r.Weight if that is lower
	// and stays otherwise. Its fence becomes r.Floor if that is higher and stays
	// otherwise. Holder, Task, Meta, Value and Limit stay, and so does the life of a record. So a call whose answer was
	// lost can be made again. An owner whose claim has ended is granted a new one, with new
	// fences: stores need not remember owners, and callers do not use one twice.
	Acquire(ctx context.Context, r Request) (Result, error)

	// Renew gives a live claim a life of r.TTL from now, be that more or less than it
	// had, and, if r.Value is not nil, a new value. It tells how many stand in line
	// for the key. It never brings back a claim that has ended: then it returns
	// ErrNotHeld, or a *BrokenError if the store knows that the claim was broken. A
	// place in line is not a claim.
	Renew(ctx context.Context, r Renewal) (behind int, err error)

	// Release ends a live claim, or gives up a place in line. If the owner has
	// neither, or could not have, it returns ErrNotHeld.
	Release(ctx context.Context, id ID) error
}

// A BrokenError is the ErrNotHeld of a claim that was ended by Break.
type BrokenError struct{ Reason string }

func (e *BrokenError) Error() string { return fmt.Sprintf("driver: broken: %q", e.Reason) }

// Is makes a BrokenError an ErrNotHeld.
func (e *BrokenError) Is(target error) bool { return target == ErrNotHeld }

// Tag is how an owner is shown: 8 hex digits of its hash. It tells owners apart and
// gives none of them away.
func Tag(owner string) string {
	h := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(h[:4])
}

// Validate returns an error that is ErrInvalid if r breaks a rule that holds for
// every store, or asks for what f does not declare. Stores call it first in Acquire. What it
// cannot check is how far a Floor is ahead: see MaxAhead.
func (r *Request) Validate(f Features) error {
	switch {
	case r.Limit < 1 || r.Limit > Whole:
		return invalid("limit %d is not 1 to %d", r.Limit, Whole)
	case r.Weight < 1 || r.Weight > r.Limit:
		return invalid("weight %d is not 1 to the limit %d", r.Weight, r.Limit)
	case !f.Count && r.Limit != Whole:
		return invalid("%s cannot count: the limit must be %d", f.Name, Whole)
	case r.QueueTTL < 0:
		return invalid("place %v is negative", r.QueueTTL)
	case !f.Queue && r.QueueTTL > 0:
		return invalid("%s has no line", f.Name)
	case !f.Floor && r.Floor > 0:
		return invalid("%s obeys no floor", f.Name)
	case r.Floor >= MaxFence-Span:
		return invalid("floor %d leaves no fences", r.Floor)
	case !f.Value && (len(r.Value) > 0 || len(r.Meta) > 0):
		return invalid("%s stores no value", f.Name)
	case len(r.Holder) > MaxHolder || len(r.Task) > MaxHolder:
		return invalid("a holder of %d bytes or a party of %d is over %d bytes", len(r.Holder), len(r.Task), MaxHolder)
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

// Validate returns an error that is ErrInvalid if r breaks a rule that holds for
// every store, or asks for what f does not declare. Stores call it first in Renew.
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
