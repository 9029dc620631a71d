package distlock

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/queue"
)

// A Claim is a lock that is held, or waited for, as the store shows it.
type Claim struct {
	Name   string
	Kind   string // "" for locks, "sem", "rate", "once", "lead" for the others
	Owner  string // distinguishes claims; it is no secret
	Holder string
	Note   string
	Meta   map[string]string
	Value  []byte
	Fence  uint64 // 0 while waiting
	Weight int64  // how much of Limit it takes
	Limit  int64
	Mode   Mode
	Held   time.Duration // since it was granted, or began to wait
	Left   time.Duration // until it expires unless renewed; 0: it does not expire

	Waiting bool // a queue entry, not held
	Kept    bool // a record that nobody renews
}

func newClaim(c driver.Claim) (Claim, bool) {
	k, name, ok := names.Split(c.Key)
	if !ok {
		return Claim{}, false
	}
	out := Claim{
		Name: name, Kind: k.Word(), Owner: c.Owner, Holder: c.Holder, Note: c.Meta[noteKey],
		Meta: c.Meta, Value: c.Value, Fence: c.Fence, Weight: c.Weight, Limit: c.Limit, Mode: ModeCounted,
		Held: c.Held, Left: c.Left, Waiting: c.Waiting, Kept: c.Kept,
	}
	delete(out.Meta, noteKey)
	switch {
	case c.Weight == driver.Whole:
		out.Mode = ModeExclusive
	case c.Limit == driver.Whole:
		out.Mode = ModeShared
	}
	return out, true
}

// String returns in a few words who holds or waits, and for how long. A lock of another program has
// neither a fence nor an age, and may have no expiry.
func (c Claim) String() string {
	verb := "held"
	switch {
	case c.Waiting:
		verb = "waited for"
	case c.Kept:
		verb = "kept"
	}
	s := verb + " by " + label(c.Holder)
	switch theirs := c.Fence == 0 && c.Held == 0 && !c.Waiting; {
	case !theirs:
		s += fmt.Sprintf(" for %v", round(c.Held))
	case c.Left == 0:
		s += ", no expiry"
	}
	if c.Fence > 0 {
		s += fmt.Sprintf(" (fence %d)", c.Fence)
	}
	return s
}

// Claims yields the claims and queue entries of all names that begin with prefix. Their order is not
// promised, but those of one name come together: holders first, then the queue. It is no snapshot.
// An error is yielded last, and says that the list is not complete. It is [errors.ErrUnsupported] if
// the store cannot list.
func (l *Locker) Claims(ctx context.Context, prefix string) iter.Seq2[Claim, error] {
	return func(yield func(Claim, error) bool) {
		if err := l.mayRead(ctx); err != nil {
			yield(Claim{}, err)
			return
		}
		prefixes := []string{""} // all keys of all kinds
		if prefix != "" {
			prefixes = nil
			for _, k := range names.Shown {
				prefixes = append(prefixes, k.Key(prefix))
			}
		}
		for _, p := range prefixes {
			for c, err := range driver.List(ctx, l.store, p) {
				if err != nil {
					yield(Claim{}, &OpError{Op: "list", Err: err}) // a look changes nothing
					return
				}
				if claim, ok := newClaim(c); ok && !yield(claim, nil) {
					return
				}
			}
		}
	}
}

// A Reason says why a lock cannot be acquired now.
type Reason struct {
	Name    string
	Kind    string  // as in Claim: "" for a lock
	Holders []Claim // none: it is free
	Waiters []Claim // in order
}

// String returns a text of one line.
func (r Reason) String() string {
	name := names.Quote(r.Name)
	switch names.Kind("~" + r.Kind + "/") {
	case names.Semaphore:
		name = "semaphore " + name
	case names.RateLimit:
		name = "rate limit " + name
	case names.Once:
		name = "result " + name
	case names.Election:
		name = "election " + name
	}
	if len(r.Holders)+len(r.Waiters) == 0 {
		return name + " is free"
	}
	var parts []string
	for i, c := range r.Holders {
		if i == maxReasons {
			parts = append(parts, fmt.Sprintf("and by %d others", len(r.Holders)-i))
			break
		}
		parts = append(parts, c.String())
	}
	if len(parts) == 0 {
		parts = append(parts, "held by nobody")
	}
	return fmt.Sprintf("%s is %s; %d in the queue", name, strings.Join(parts, ", "), len(r.Waiters))
}

// maxReasons is how many holders of one name the text of a Reason has.
const maxReasons = 3

// Why returns who holds the lock of a name and who waits for it. The error is
// [errors.ErrUnsupported] if the store cannot show it. Semaphores, rate limits, results and elections
// are apart, whatever their names: see [Locker.WhyAll].
func (l *Locker) Why(ctx context.Context, name string) (Reason, error) {
	return l.why(ctx, names.Lock, name)
}

// Why returns who holds the slots of a name and who waits for some.
func (s *Semaphore) Why(ctx context.Context, name string) (Reason, error) {
	return s.l.why(ctx, names.Semaphore, name)
}

// Why returns who took the passes of a name that count now, and who waits for one.
func (m *Limiter) Why(ctx context.Context, name string) (Reason, error) {
	return m.l.why(ctx, names.RateLimit, name)
}

// WhyAll is [Locker.Why] for all kinds of a name: lock, semaphore, rate limit, remembered result and
// election. Kinds that nobody holds or waits for are left out. It costs a round trip for each kind.
func (l *Locker) WhyAll(ctx context.Context, name string) ([]Reason, error) {
	var all []Reason
	for _, k := range names.Shown {
		r, err := l.why(ctx, k, name)
		if err != nil {
			return nil, err
		}
		if len(r.Holders)+len(r.Waiters) > 0 {
			all = append(all, r)
		}
	}
	return all, nil
}

func (l *Locker) why(ctx context.Context, k names.Kind, name string) (Reason, error) {
	claims, err := l.show(ctx, k, name)
	if err != nil {
		return Reason{}, err
	}
	r := Reason{Name: name, Kind: k.Word()}
	for _, c := range claims {
		claim, _ := newClaim(c)
		if claim.Waiting {
			r.Waiters = append(r.Waiters, claim)
		} else {
			r.Holders = append(r.Holders, claim)
		}
	}
	return r, nil
}

// show returns the claims and queue entries of a name.
func (l *Locker) show(ctx context.Context, k names.Kind, name string) ([]driver.Claim, error) {
	if err := l.mayRead(ctx); err != nil {
		return nil, err
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	call, cancel := l.queue.Call(ctx, queue.CallLimit)
	defer cancel()
	claims, err := driver.Show(call, l.store, k.Key(name))
	if err != nil {
		return nil, &OpError{Op: "show", Name: name, Err: err} // a look changes nothing
	}
	return claims, nil
}

// mayRead returns an error if the Locker cannot read its store.
func (l *Locker) mayRead(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if l.store == nil {
		return errNoNew
	}
	cause := context.Cause(ctx) // before the mutex is locked: a look at a lease's context may end the lease
	if l.queue.Closed() {
		return ErrClosed
	}
	return cause
}
