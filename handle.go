package distlock

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// A Handle is a lock on its way from one process to another. Whoever has it can renew and
// release the lock: it is a secret, and prints as one. Text gives the secret itself. With
// direct access to a store a handle is no boundary: the store knows all owners.
type Handle struct{ h handle }

// handle is what a handle carries, under the names that it has in the text.
type handle struct {
	Name  string        `json:"n"`
	Key   string        `json:"k"`
	Owner string        `json:"o"`
	Fence uint64        `json:"f,omitempty"`
	Mode  Mode          `json:"m"`
	TTL   time.Duration `json:"t"`
	Delay time.Duration `json:"d,omitempty"`
}

const handlePrefix = "dlh1." // the version of the text

// Key returns the name of the lock.
func (h Handle) Key() string { return h.h.Name }

// Fence returns the fence of the lease that the handle was made of.
func (h Handle) Fence() uint64 { return h.h.Fence }

// TTL returns how long the store keeps the lock after each renewal.
func (h Handle) TTL() time.Duration { return h.h.TTL }

// Text returns the handle as one word, for ParseHandle. It is a secret.
func (h Handle) Text() string {
	b, err := json.Marshal(h.h)
	if err != nil {
		panic(err) // strings and numbers have a JSON form
	}
	return handlePrefix + base64.RawURLEncoding.EncodeToString(b)
}

// String shows the handle without its secret.
func (h Handle) String() string {
	return fmt.Sprintf("handle of %s (fence %d, owner %s)", quote(h.h.Name), h.h.Fence, driver.Tag(h.h.Owner))
}

// GoString shows the handle without its secret.
func (h Handle) GoString() string { return h.String() }

// LogValue shows the handle without its secret.
func (h Handle) LogValue() slog.Value { return slog.StringValue(h.String()) }

// MarshalJSON refuses: a secret gets into JSON by Text or not at all.
func (h Handle) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("distlock: a handle is a secret: use Text: %w", errors.ErrUnsupported)
}

// ParseHandle reads what Text returned. The error is ErrInvalidHandle and shows nothing of the text.
func ParseHandle(text string) (Handle, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), handlePrefix)
	if !ok {
		return Handle{}, fmt.Errorf("%w: it does not begin with %q", ErrInvalidHandle, handlePrefix)
	}
	if len(rest) > 4096 {
		return Handle{}, fmt.Errorf("%w: too long", ErrInvalidHandle)
	}
	b, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil {
		return Handle{}, fmt.Errorf("%w: it is cut or changed", ErrInvalidHandle)
	}
	var h handle
	if err := json.Unmarshal(b, &h); err != nil {
		return Handle{}, fmt.Errorf("%w: it is cut or changed", ErrInvalidHandle)
	}
	_, name, ok := splitKey(h.Key)
	if !ok || name != h.Name || checkName(name) != nil || h.Owner == "" || checkTTL(h.TTL) != nil ||
		h.Delay < 0 || h.Delay > maxTTL || h.Fence >= driver.MaxFence {
		return Handle{}, fmt.Errorf("%w: it was not made by Lease.Handle", ErrInvalidHandle)
	}
	return Handle{h}, nil
}

// Handle gives the lock away: the lease is over, and the lock stays taken for the rest of its TTL.
// Whoever calls Attach with the handle before that goes on with it. If it fails, the
// lease is as it was. The store must be able to keep a claim without the process.
func (l *Lease) Handle() (Handle, error) {
	locker := l.t.l
	if !locker.features.Detached {
		return Handle{}, unsupported(locker.features, "keeps no claim without its process, as Handle needs")
	}
	if mine, _ := l.depart(false); !mine {
		return Handle{}, l.Err()
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.r.limit())
	defer cancel()
	if cause := l.t.hold.Stop(ctx); cause != nil {
		err := newLostError(l.r.name, l.fence, cause)
		l.part(ctx, Lost, err, true)
		return Handle{}, err
	}
	l.part(ctx, Detached, nil, true)
	terms := l.t.hold.Terms() // Extend may have changed them until now
	return Handle{handle{
		Name: l.r.name, Key: l.r.Key, Owner: l.t.id.Owner, Fence: l.fence, Mode: l.r.mode, TTL: terms.TTL, Delay: terms.Delay,
	}}, nil
}

// Attach goes on with a lock that another process gave away, and renews it first. If it is no longer
// held the error is ErrLost. The TTL is the handle's.
func (l *Locker) Attach(ctx context.Context, h Handle, opts ...Option) (*Lease, error) {
	if _, err := ParseHandle(h.Text()); err != nil {
		return nil, err
	}
	k, _, _ := splitKey(h.h.Key)
	set := func(o *options) error {
		o.ttl, o.delay, o.atLeast = h.h.TTL, h.h.Delay, 0
		return nil
	}
	r, err := l.request(ctx, k, h.h.Name, h.h.Mode, append(opts[:len(opts):len(opts)], set))
	if err != nil {
		return nil, err
	}
	r.Weight, r.Limit = 1, driver.Whole
	if r.mode == Exclusive {
		r.Weight = driver.Whole
	}
	id := driver.ID{Key: h.h.Key, Owner: h.h.Owner}
	call, cancel := context.WithTimeout(ctx, r.limit())
	defer cancel()

	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	l.wg.Add(1)
	defer l.wg.Done()
	l.mu.Unlock()
	sent := l.clock.Now()
	behind, err := l.store.Renew(call, driver.Renewal{ID: id, TTL: r.TTL})
	switch {
	case errors.Is(err, driver.ErrNotHeld):
		return nil, newLostError(r.name, h.h.Fence, err)
	case err != nil:
		return nil, newOpError("attach", r.name, err)
	}
	l.mu.Lock()
	n := l.line(r.Key)
	lease := l.grant(n, r, id, driver.Result{Fence: h.h.Fence, Behind: behind}, sent)
	if lease != nil {
		lease.t.sealed = true // how many of its fences were used is not known
	}
	closed := l.closed
	l.tidy(n)
	l.mu.Unlock()
	switch {
	case closed && lease == nil:
		return nil, ErrClosed // the claim runs out, or the handle is attached elsewhere
	case lease == nil:
		return nil, &OpError{Op: "attach", Key: r.name, Unknown: true, Err: errTooLate}
	}
	return l.welcome(ctx, lease, false), nil
}

// Proof returns fence, mode and name as one word, for the header Distlock-Fence or a message: whoever is asked
// to act under the lock can check it with ParseProof and remember the highest
// fence. It is no secret, and no proof against those who lie.
func (l *Lease) Proof() string {
	return fmt.Sprintf("%d;%s;%s", l.fence, l.r.mode, url.QueryEscape(l.r.name))
}

// A Proof is what Lease.Proof says.
type Proof struct {
	Key   string
	Mode  Mode
	Fence uint64
}

// ParseProof reads what Lease.Proof returned. The error is ErrInvalidFence.
func ParseProof(s string) (Proof, error) {
	parts := strings.Split(s, ";")
	if len(parts) != 3 {
		return Proof{}, fmt.Errorf("%w: %s is not fence;mode;name", ErrInvalidFence, quote(s))
	}
	fence, err := ParseFence(parts[0])
	if err != nil {
		return Proof{}, err
	}
	p := Proof{Mode: Mode(parts[1]), Fence: fence}
	if p.Mode != Exclusive && p.Mode != Shared && p.Mode != Counted {
		return Proof{}, fmt.Errorf("%w: mode %s", ErrInvalidFence, quote(parts[1]))
	}
	p.Key, err = url.QueryUnescape(parts[2])
	if err != nil || checkName(p.Key) != nil {
		return Proof{}, fmt.Errorf("%w: name %s", ErrInvalidFence, quote(parts[2]))
	}
	return p, nil
}

// ParseFence reads a fence in its one form: digits, no sign, no leading zero, 1 to 2^53-1. The error is
// ErrInvalidFence.
func ParseFence(s string) (uint64, error) {
	f, err := strconv.ParseUint(s, 10, 64)
	if err != nil || f == 0 || f >= driver.MaxFence || strconv.FormatUint(f, 10) != s {
		return 0, fmt.Errorf("%w: %s", ErrInvalidFence, quote(s))
	}
	return f, nil
}
