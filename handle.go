package distlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/handle"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/proof"
)

// A Handle is a lock on its way from one process to another. A program that has it can renew and
// release the lock: it is a secret, and does not print it. [Handle.Secret] returns the secret. With
// direct access to the store a handle is no boundary: the store has all owners.
type Handle struct{ h handle.Handle }

// Kind returns the kind of the lock.
func (h Handle) Kind() Kind { return keyKind(h.h.Key) }

// Name returns the name of the lock.
func (h Handle) Name() string {
	_, name, _ := names.Split(h.h.Key)
	return name
}

// Fence returns the fence of the lease that the handle was made of.
func (h Handle) Fence() uint64 { return h.h.Fence }

// TTL returns how long the store keeps the lock after each renewal of the lease.
func (h Handle) TTL() time.Duration { return h.h.TTL }

// Secret returns the handle as one word, for [ParseHandle]. A program that has it can continue the
// lease.
func (h Handle) Secret() string { return h.h.Secret() }

// String returns a text without the secret.
func (h Handle) String() string {
	if h.h.Owner == nil {
		return "no handle"
	}
	return fmt.Sprintf("handle of %s (fence %d, owner %s)", h.Kind().title(h.Name()), h.h.Fence, driver.Tag(*h.h.Owner))
}

// Format prints what String returns, whatever the verb.
func (h Handle) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, h.String()) }

// LogValue returns what String returns.
func (h Handle) LogValue() slog.Value { return slog.StringValue(h.String()) }

// MarshalJSON returns an error: use [Handle.Secret] to put the secret into JSON.
func (h Handle) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("distlock: a handle is a secret: use Secret: %w", errors.ErrUnsupported)
}

// ParseHandle reads the result of [Handle.Secret]. The error is [ErrInvalid], and has nothing of
// the text.
func ParseHandle(text string) (Handle, error) {
	h, err := handle.Parse(text)
	if err != nil {
		return Handle{}, &ArgumentError{"handle", err.Error()}
	}
	return Handle{h}, nil
}

// Detach gives the lock away: the lease ends, and the lock stays held for the rest of its TTL. A
// process that calls [Locker.Attach] with the handle before that continues with the lock. A
// provisional lease is renewed first: see [Lease.Ensure]. If Detach fails, the lease is as it was.
// The store must be able to keep a claim without the process.
func (l *Lease) Detach(ctx context.Context) (Handle, error) {
	if ctx == nil {
		return Handle{}, errNilContext
	}
	if l.none() {
		return Handle{}, ErrReleased
	}
	if f := l.r.l.features; !f.Detached {
		return Handle{}, unsupported(f, "keeps no claim without its process, as Detach needs")
	}
	terms, err := l.q.GiveAway(ctx)
	if err != nil {
		return Handle{}, err
	}
	owner := l.q.ID().Owner
	return Handle{handle.Handle{
		Key: l.r.Key, Owner: &owner, Fence: l.q.Fence(), Mode: string(l.r.mode), TTL: terms.TTL, Delay: terms.Delay,
	}}, nil
}

// Attach continues with a lock that another process gave away, and renews it first. If it is no
// longer held, the error is [ErrLost]. A handle is good for one lease at a time: two processes that
// attach the same handle would both believe that they hold the lock.
//
// TTL, lock delay, holder, value and metadata stay as they were. [MaxHold] counts from here, and
// the [MinHold] of the lease does not count any more. Of the options, MaxHold, [NoRenewal],
// [RequireFence] and [Observe] apply.
func (l *Locker) Attach(ctx context.Context, h Handle, opts ...Option) (*Lease, error) {
	given := h.h
	if !given.Valid() {
		return nil, &ArgumentError{"handle", handle.ErrNotOurs.Error()}
	}
	if !l.features.Detached {
		return nil, unsupported(l.features, "keeps no claim without its process, as Attach needs")
	}
	k, name, _ := names.Split(given.Key)
	set := func(o *options) error {
		o.ttl, o.delay, o.minHold = given.TTL, given.Delay, 0
		return o.given.refuse(withoutAttach, "Attach")
	}
	r, err := l.request(ctx, k, name, Mode(given.Mode), append(opts[:len(opts):len(opts)], set))
	if err != nil {
		return nil, err
	}
	r.Owner, r.Weight, r.Limit = *given.Owner, 1, driver.Whole
	if r.mode == ModeExclusive {
		r.Weight = driver.Whole
	}
	lease, err := l.queue.Attach(ctx, &r.Call, given.Fence)
	if err != nil {
		return nil, err
	}
	return r.newLease(lease), nil
}

// Proof returns fence, mode, kind and name as one word, for the header Distlock-Fence or a message.
// A service that acts under the lock checks it with [ParseProof], and remembers the highest fence
// of the kind and name: a lock and an election of one name have nothing to do with each other. A
// proof is no secret, and no protection against a client that lies. Without a fence it proves
// nothing, and ParseProof refuses it.
func (l *Lease) Proof() string {
	if l.none() {
		return proof.Format(0, "", "")
	}
	return proof.Format(l.Fence(), string(l.r.mode), l.r.Key)
}

// A Proof has the fields of [Lease.Proof].
type Proof struct {
	Kind  Kind
	Name  string
	Mode  Mode
	Fence uint64
}

// ParseProof reads the result of [Lease.Proof]. The error is [ErrInvalid].
func ParseProof(s string) (Proof, error) {
	fence, mode, key, err := proof.Parse(s)
	if err != nil {
		return Proof{}, &ArgumentError{"proof", err.Error()}
	}
	_, name, _ := names.Split(key)
	p := Proof{Kind: keyKind(key), Name: name, Mode: Mode(mode), Fence: fence}
	if !p.Mode.valid() {
		return Proof{}, invalid("proof", "mode %s", names.Quote(mode))
	}
	return p, nil
}

// ParseFence reads a fence in its one form: digits, no sign, no leading zero, 1 to 2^53-1. The
// error is [ErrInvalid].
func ParseFence(s string) (uint64, error) {
	f, err := proof.ParseFence(s)
	if err != nil {
		return 0, &ArgumentError{"fence", err.Error()}
	}
	return f, nil
}
