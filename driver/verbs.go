package driver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"
)

// What follows are the verbs a store may have beside the three it must have. They are
// called through the functions of the same name and nothing else, so that a store that
// wraps another has no need to know what the other can do.

// A Watcher is a store that tells when to ask again.
type Watcher interface {
	Store
	// Watch is what the function Watch calls.
	Watch(ctx context.Context, id ID) <-chan Wake
}

// A Wake is what a store tells one who watches.
//
// A store may grant the claim of the one at the head of the line when another ends, without waiting to be asked. The claim lives
// for what is left of the owner's place then, so that it does not stand in anybody's way if its owner is gone; the
// owner's next Acquire gives it a full TTL. Granted tells so: the owner may count on the claim for a QueueTTL from the send of its last
// Acquire that was answered with a refusal, and on nothing if the store tells it later than that. A store that does not grant unasked, or whose grant needs more than
// itself (replicas, a majority), gives the zero Wake.
type Wake struct {
	Granted bool
	Fence   uint64 // of the grant, as in Result
	Behind  int    // how many wait behind it
}

// A Shower is a store that tells what stands on one key.
type Shower interface {
	Store
	// Show is what the function Show calls.
	Show(ctx context.Context, key string) ([]Claim, error)
}

// A Lister is a store that tells what stands on many keys.
type Lister interface {
	Store
	// List is what the function List calls.
	List(ctx context.Context, prefix string) iter.Seq2[Claim, error]
}

// An AllRenewer is a store that renews many claims in one round trip.
type AllRenewer interface {
	Store
	// RenewAll is what the function RenewAll calls.
	RenewAll(ctx context.Context, rs []Renewal) []Renewed
}

// A Breaker is a store that can end the claims of others.
type Breaker interface {
	Store
	// Break is what the function Break calls.
	Break(ctx context.Context, key, reason string) ([]Claim, error)
}

// A LossTeller is a store that knows at once when a claim is gone.
type LossTeller interface {
	Store
	// Losses is what the function Losses calls.
	Losses(ctx context.Context) <-chan []ID
}

// An Inspector is a store that tells about itself.
type Inspector interface {
	Store
	// Inspect is what the function Inspect calls.
	Inspect(ctx context.Context) (Info, error)
}

// Watch returns a channel that is ready when it may be worth asking again for id: its
// place has come to the head of the line, the key has room, or the store's connection was
// made anew and news may have been missed; or, see Wake, when it was granted. If id.Owner is empty, the channel is ready
// whenever a claim on id.Key ended or became a record.
//
// The watch is in force when Watch returns, and ends with ctx. It is a hint: it may be
// ready for no reason, and it may miss news, so whoever waits on it asks again from time
// to time without it. The channel is never closed. A store that cannot watch, or cannot
// now, gives nil, which is never ready; so it is for a key that cannot be one.
//
// The library watches before the Acquire by which an owner joins the queue, so what already holds
// when Watch begins need not make the channel ready. The end of a TTL need not either, with or
// without an owner. Without Watch the library attempts again after 20 ms, doubled up to a second.
// A store that can look up all that its process waits for with one query every 20 ms should rather
// watch in that way.
func Watch(ctx context.Context, s Store, id ID) <-chan Wake {
	if w, ok := s.(Watcher); ok {
		return w.Watch(ctx, id)
	}
	return nil
}

// Losses returns a channel that tells of claims of this store that have ended although nobody released them and their TTL is
// not over: those of a connection that died, for a store whose claims end with it. What is told is certain, and what
// is not told need not be held. It ends with ctx, and is never closed. A store whose claims end by their TTL alone gives nil.
func Losses(ctx context.Context, s Store) <-chan []ID {
	if l, ok := s.(LossTeller); ok {
		return l.Losses(ctx)
	}
	return nil
}

// Show returns the live claims on key, oldest first, then the line in order. An idle key gives
// none, and so does a key that cannot be one: that is no error, here and in List and Break. A
// store without Show is asked for its List; one without either gives an error that is
// errors.ErrUnsupported.
func Show(ctx context.Context, s Store, key string) ([]Claim, error) {
	if sh, ok := s.(Shower); ok {
		return sh.Show(ctx, key)
	}
	var claims []Claim
	for c, err := range List(ctx, s, key) {
		if err != nil {
			return nil, err
		}
		if c.Key == key {
			claims = append(claims, c)
		}
	}
	return claims, nil
}

// List yields the live claims and places of all keys that begin with prefix; those of one
// key together, as Show gives them. It is no snapshot: what changes meanwhile may or may
// not be seen. An error is yielded last, with the zero Claim, and means that
// the list is not complete; for a store that cannot list it is errors.ErrUnsupported.
func List(ctx context.Context, s Store, prefix string) iter.Seq2[Claim, error] {
	if l, ok := s.(Lister); ok {
		return l.List(ctx, prefix)
	}
	return func(yield func(Claim, error) bool) { yield(Claim{}, unsupported(s, "list")) }
}

// renewers is how many calls RenewAll makes at a time on a store without the verb.
const renewers = 8

// RenewAll renews many claims and returns one answer for each, in order. A store
// with the verb does it in one round trip for each of its nodes; on one without, Renew is called
// for each. One claim that is not held does not keep the others from being renewed. No claim is in
// it twice:
// a store may answer as it likes.
func RenewAll(ctx context.Context, s Store, rs []Renewal) []Renewed {
	if a, ok := s.(AllRenewer); ok && len(rs) > 1 {
		return a.RenewAll(ctx, rs)
	}
	out := make([]Renewed, len(rs))
	if len(rs) == 1 {
		out[0].Behind, out[0].Err = s.Renew(ctx, rs[0])
		return out
	}
	var wg sync.WaitGroup
	for w := range min(renewers, len(rs)) {
		wg.Go(func() {
			for i := w; i < len(rs); i += renewers {
				out[i].Behind, out[i].Err = s.Renew(ctx, rs[i])
			}
		})
	}
	wg.Wait()
	return out
}

// Break ends every live claim on key, whoever holds it, and returns what it ended; none is no
// error. The line stays and its head is woken. The reason is for the holders: a store that can
// tells it to them with the *BrokenError of their next Renew, for as long as the claim would have
// lived; an hour is enough for a longer one, and for a record nobody asks. On a store that cannot
// break, the error is errors.ErrUnsupported.
func Break(ctx context.Context, s Store, key, reason string) ([]Claim, error) {
	if b, ok := s.(Breaker); ok {
		return b.Break(ctx, key, reason)
	}
	return nil, unsupported(s, "break a claim")
}

// Inspect returns what the store knows about itself. On a store that cannot tell, the
// error is errors.ErrUnsupported.
func Inspect(ctx context.Context, s Store) (Info, error) {
	if i, ok := s.(Inspector); ok {
		return i.Inspect(ctx)
	}
	return Info{}, unsupported(s, "inspect itself")
}

// Info is what a store tells about itself.
type Info struct {
	// Identity is the same for two stores only if they keep the same claims, however they
	// are reached. Empty means unknown.
	Identity string

	// Age is for how long the store has remembered its claims. A store that lost its
	// memory is young again. 0 means unknown.
	Age time.Duration

	Version  string    // the server's own name and version, for people
	Findings []Finding // what people should know about this store
}

// A Finding is one thing that was looked at in a store.
type Finding struct {
	Level Level
	What  string // what was found, in a few words
	Means string // what follows for locks; empty if Level is OK
	Cure  string // what to do about it; empty if Level is OK
}

// A Level tells how bad a Finding is.
type Level int

// The levels. Unknown is the zero Level, and is no praise: it is what a store says of
// that which it was not allowed to look at.
const (
	Unknown Level = iota
	OK
	Warning
	Danger
)

func (l Level) String() string {
	switch l {
	case OK:
		return "ok"
	case Warning:
		return "warning"
	case Danger:
		return "danger"
	default:
		return "unknown"
	}
}

func unsupported(s Store, what string) error {
	name := s.Features().Name
	if name == "" {
		name = strings.TrimPrefix(fmt.Sprintf("%T", s), "*")
	}
	return fmt.Errorf("driver: %s cannot %s: %w", name, what, errors.ErrUnsupported)
}
