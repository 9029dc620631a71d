package fence

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/proof"
)

// The errors of guards, for [errors.Is].
var (
	// ErrStale says that there is a higher fence, and nothing was changed: the caller does not hold
	// the lock any more. It is definite. The error is a *[StaleError].
	ErrStale = errors.New("fence: stale")

	// ErrInvalid says that a proof or an argument is invalid, and nothing was changed: a fence that
	// is not a number from 1 to 2^53-1 in its canonical form, a lease that is not exclusive, a bad
	// name of a table. It never matches distlock.ErrInvalid.
	ErrInvalid = errors.New("fence: invalid")
)

// A StaleError is an [ErrStale] with the numbers.
type StaleError struct {
	Name    string // the name of the lock, as [NameOf] returns it
	Fence   uint64 // the refused fence
	Current uint64 // the highest fence so far, or 0 if it could not be read
}

func (e *StaleError) Error() string {
	s := fmt.Sprintf("fence: %s: fence %d is stale", names.Quote(e.Name), e.Fence)
	if e.Current > 0 {
		s += fmt.Sprintf(", the highest so far is %d", e.Current)
	}
	return s
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// A Lease proves under which lock its holder acts. A *distlock.Lease implements it, and so does a
// [Proof].
type Lease interface {
	// Proof returns fence, mode and name of the lock as one word, with the kind before the name
	// unless it is a plain lock:
	// 1763191200000000;exclusive;invoice%2F42.
	Proof() string
}

// A Proof is a lease as another process sees it: the name of an exclusive lock, and the fence. All
// guards refuse the zero Proof.
type Proof struct {
	key   string // see NameOf
	fence uint64
}

const exclusive = "exclusive"

// NameOf returns the name of a lock of any kind as guards know it. A guard keeps the kinds apart:
// the fences of the lock "x" and of the election "x" are in no order. The name of a plain lock
// stays as it is, but a tilde at its beginning is doubled. Another kind is put before the name:
// NameOf(distlock.KindElection, "x") is "~lead/x". The result for a kind that does not exist is
// empty, which guards refuse.
func NameOf[K ~string](kind K, name string) string {
	k, ok := names.Parse(string(kind))
	if !ok {
		return ""
	}
	return k.Key(name)
}

// New returns the proof of a fence that does not come from a lease, but for example from the
// environment of a command. The name is that of a plain lock, or the result of [NameOf]. The caller
// guarantees that the lock is exclusive.
func New(name string, fence uint64) (Proof, error) {
	if fence == 0 || fence >= proof.MaxFence {
		return Proof{}, fmt.Errorf("%w: fence %d is not from 1 to 2^53-1", ErrInvalid, fence)
	}
	if why := proof.KeyFlaw(name); why != "" {
		return Proof{}, fmt.Errorf("%w: name: %s", ErrInvalid, why)
	}
	return Proof{name, fence}, nil
}

// Of returns the proof of a lease. The error is [ErrInvalid] if the lease is nil, such as the
// result of distlock.FromContext without a lease, is not exclusive, or has no fence.
func Of(l Lease) (Proof, error) {
	if v := reflect.ValueOf(l); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return Proof{}, fmt.Errorf("%w: no lease", ErrInvalid)
	}
	if p, ok := l.(Proof); ok {
		if p.fence == 0 {
			return Proof{}, fmt.Errorf("%w: the zero Proof", ErrInvalid)
		}
		return p, nil
	}
	return Parse(l.Proof())
}

// Parse reads the result of the method Proof of a lease. The error is [ErrInvalid].
func Parse(s string) (Proof, error) {
	fence, mode, key, err := proof.Parse(s)
	if err != nil {
		return Proof{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if mode != exclusive {
		return Proof{}, fmt.Errorf("%w: mode %s: only the fences of exclusive locks are in order", ErrInvalid, names.Quote(mode))
	}
	return New(key, fence)
}

// ParseFence reads a fence in its canonical form: digits, no sign, no leading zero, 1 to 2^53-1.
// The error is [ErrInvalid].
func ParseFence(s string) (uint64, error) {
	f, err := proof.ParseFence(s)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return f, nil
}

// Name returns the name of the lock, as [NameOf] does.
func (p Proof) Name() string { return p.key }

// Fence returns the fence.
func (p Proof) Fence() uint64 { return p.fence }

// Proof returns the proof as one word, for [Parse]. It makes a proof a [Lease].
func (p Proof) Proof() string {
	return proof.Format(p.fence, exclusive, p.key)
}

func (p Proof) String() string { return p.Proof() }

type contextKey struct{}

// NewContext returns a context that carries the proof of a lease: [Transport] sends it along.
func NewContext(parent context.Context, l Lease) (context.Context, error) {
	p, err := Of(l)
	if err != nil {
		return nil, err
	}
	return context.WithValue(parent, contextKey{}, p), nil
}

// FromContext returns the proof that [NewContext] or [Middleware] put into a context. It reports
// whether there is one.
func FromContext(ctx context.Context) (Proof, bool) {
	p, ok := ctx.Value(contextKey{}).(Proof)
	return p, ok
}
