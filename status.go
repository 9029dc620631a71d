package distlock

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/queue"
)

// A Kind is a kind of lock. More may be added. The names of one kind have nothing to do with those
// of another. Within a kind they are shared: two Limiters of one name share their passes, and two
// Onces their results, whatever their types. A [Cron] also takes the plain lock of the name of its
// job.
type Kind string

// The kinds of locks.
const (
	KindAny       Kind = ""     // all of them, for [Locker.Status] and [Locker.List]
	KindLock      Kind = "lock" // of Lock and RLock
	KindSemaphore Kind = "sem"
	KindRateLimit Kind = "rate"
	KindOnce      Kind = "once" // a result of Once, or its run
	KindElection  Kind = "lead"
)

// Noun returns the kind for people: "rate limit".
func (k Kind) Noun() string {
	switch k {
	case KindSemaphore:
		return "semaphore"
	case KindRateLimit:
		return "rate limit"
	case KindOnce:
		return "result"
	case KindElection:
		return "election"
	}
	return "lock"
}

// keyKind returns the kind of a key.
func keyKind(key string) Kind {
	k, _, _ := names.Split(key)
	return Kind(k.Word())
}

// title returns a name with its kind, for people. The kind of a plain lock is left out.
func (k Kind) title(name string) string {
	if k == KindLock || k == KindAny {
		return names.Quote(name)
	}
	return k.Noun() + " " + names.Quote(name)
}

// inner returns the kinds that k stands for.
func (k Kind) inner() ([]names.Kind, error) {
	if k == KindAny {
		return names.Shown[:], nil
	}
	one, ok := names.Parse(string(k))
	if !ok {
		return nil, invalid("kind", "there is no kind %s", names.Quote(string(k)))
	}
	return []names.Kind{one}, nil
}

// A Claim is a lock that is held, or waited for, as the store shows it.
type Claim struct {
	Name   string
	Kind   Kind
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
		Name: name, Kind: Kind(k.Word()), Owner: c.Owner, Holder: c.Holder, Note: c.Meta[names.Note],
		Meta: c.Meta, Value: c.Value, Fence: c.Fence, Weight: c.Weight, Limit: c.Limit, Mode: ModeCounted,
		Held: c.Held, Left: c.Left, Waiting: c.Waiting, Kept: c.Kept,
	}
	delete(out.Meta, names.Note)
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

// List yields the claims and queue entries of a kind, or of all kinds, under the names that begin
// with prefix. Their order is not promised, but those of one name come together: holders first,
// then the queue. It is no snapshot. An error is yielded last, and says that the list is not
// complete. It is [errors.ErrUnsupported] if the store cannot list.
func (l *Locker) List(ctx context.Context, kind Kind, prefix string) iter.Seq2[Claim, error] {
	return func(yield func(Claim, error) bool) {
		if err := l.mayRead(ctx); err != nil {
			yield(Claim{}, err)
			return
		}
		kinds, err := kind.inner()
		if err != nil {
			yield(Claim{}, err)
			return
		}
		prefixes := []string{""} // all keys of all kinds
		if prefix != "" || kind != KindAny {
			prefixes = nil
			for _, k := range kinds {
				prefixes = append(prefixes, k.Key(prefix))
			}
		}
		for _, p := range prefixes {
			for c, err := range driver.List(ctx, l.store, p) {
				if err != nil {
					yield(Claim{}, &OpError{Op: "list", Err: err}) // a read changes nothing
					return
				}
				claim, ok := newClaim(c)
				if ok && (kind == KindAny || claim.Kind == kind) && !yield(claim, nil) {
					return
				}
			}
		}
	}
}

// A Status says who holds a lock and who waits for it.
type Status struct {
	Name    string
	Kind    Kind
	Holders []Claim
	Waiters []Claim // in order
}

// Free reports whether nobody holds the lock and nobody waits for it.
func (s Status) Free() bool { return len(s.Holders)+len(s.Waiters) == 0 }

// ByKind returns the status of each kind that is not free, of a status of [KindAny].
func (s Status) ByKind() (all []Status) {
	for _, k := range names.Shown {
		one := Status{Name: s.Name, Kind: Kind(k.Word())}
		for _, c := range s.Holders {
			if c.Kind == one.Kind {
				one.Holders = append(one.Holders, c)
			}
		}
		for _, c := range s.Waiters {
			if c.Kind == one.Kind {
				one.Waiters = append(one.Waiters, c)
			}
		}
		if !one.Free() {
			all = append(all, one)
		}
	}
	return all
}

// String returns a text of one line, or of one for each kind.
func (s Status) String() string {
	if s.Kind == KindAny && !s.Free() {
		var texts []string
		for _, one := range s.ByKind() {
			texts = append(texts, one.String())
		}
		return strings.Join(texts, "\n")
	}
	name := s.Kind.title(s.Name)
	if s.Free() {
		return name + " is free"
	}
	var texts []string
	for i, c := range s.Holders {
		if i == maxHolders {
			texts = append(texts, fmt.Sprintf("and by %d others", len(s.Holders)-i))
			break
		}
		texts = append(texts, c.String())
	}
	if len(texts) == 0 {
		texts = append(texts, "held by nobody")
	}
	return fmt.Sprintf("%s is %s; %d in the queue", name, strings.Join(texts, ", "), len(s.Waiters))
}

// maxHolders is how many holders of one name the text of a Status has.
const maxHolders = 3

// Status returns who holds the lock of a name and who waits for it. With [KindAny] it has the
// claims of all kinds, see [Status.ByKind], and costs a round trip for each. The error is
// [errors.ErrUnsupported] if the store cannot show them.
func (l *Locker) Status(ctx context.Context, kind Kind, name string) (Status, error) {
	s := Status{Name: name, Kind: kind}
	kinds, err := kind.inner()
	if err != nil {
		return s, err
	}
	for _, k := range kinds {
		claims, err := l.show(ctx, k, name)
		if err != nil {
			return Status{}, err
		}
		for _, c := range claims {
			claim, _ := newClaim(c)
			if claim.Waiting {
				s.Waiters = append(s.Waiters, claim)
			} else {
				s.Holders = append(s.Holders, claim)
			}
		}
	}
	return s, nil
}

// AllFences ends all claims in [Locker.Break], also those without a fence: the claim of another
// program, or of a store without fences.
const AllFences uint64 = math.MaxUint64

// Break takes a lock from its holders, and returns their claims. Waiters stay in the queue. Break
// ends the claims whose fence is at most upTo, in one atomic step: a claim that was granted after
// the caller's look at the holders is not ended. Older claims of the name end too: with the fence
// of one reader, or of one holder of a semaphore, all that came before it. [AllFences] ends all.
//
// The reason is stored, and reported to the holder, which notices the loss at its next renewal, and
// may work until then: only the fence, checked by the resource, stops that.
//
// The error is [ErrInvalid] for [KindAny] and for 0, the fence of a waiter and of no lease, and
// [errors.ErrUnsupported] if the store cannot break claims, or has no fences to compare.
func (l *Locker) Break(ctx context.Context, kind Kind, name string, upTo uint64, reason string) ([]Claim, error) {
	if err := l.mayRead(ctx); err != nil {
		return nil, err
	}
	kinds, err := kind.inner()
	switch {
	case err != nil:
		return nil, err
	case kind == KindAny:
		return nil, invalid("kind", "Break needs one kind")
	case upTo == 0:
		return nil, invalid("fence", "0 is the fence of no claim: AllFences ends all")
	case upTo == AllFences:
		upTo = 0 // of the driver
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	call, cancel := l.queue.Call(ctx, queue.CallLimit)
	defer cancel()
	ended, err := driver.Break(call, l.store, kinds[0].Key(name), upTo, reason)
	if err != nil {
		return nil, &OpError{Op: "break", Kind: kind, Name: name, Unknown: queue.Unknown(err), Err: err}
	}
	var claims []Claim
	for _, c := range ended {
		claim, _ := newClaim(c)
		claims = append(claims, claim)
	}
	return claims, nil
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
		return nil, &OpError{Op: "show", Kind: Kind(k.Word()), Name: name, Err: err} // a read changes nothing
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
