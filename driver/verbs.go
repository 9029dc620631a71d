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

// This file declares the optional verbs of a store. The library calls them only through the
// functions of the same name, so that a store that wraps another need not know which verbs the
// other has: see Forward.

// A Watcher is a store that reports when the next attempt is worthwhile.
type Watcher interface {
	Store
	// Watch implements the function [Watch].
	Watch(ctx context.Context, id ID) <-chan Wake
}

// A Wake is a message to a watcher.
//
// A store may grant the claim of the head of the queue when another claim ends, before the head
// attempts again. Such a claim lives for the time that is left of the owner's queue entry, so that
// it blocks nobody for long if its owner is gone. The owner's next [Store.Acquire] gives it a full
// TTL. Granted reports such a grant. The owner may trust the claim for QueueTTL, counted from the
// moment at which it sent its last Acquire that was refused. If the message arrives later than
// that, the owner must not trust it. A store that does not grant by itself, or whose grant needs
// more than itself (replicas, a majority), sends the zero Wake.
type Wake struct {
	Granted bool
	Fence   uint64 // of the grant, as in Result
	Behind  int    // length of the queue behind it, as in Result
}

// A Shower is a store that returns the claims and queue entries of one key.
type Shower interface {
	Store
	// Show implements the function [Show].
	Show(ctx context.Context, key string) ([]Claim, error)
}

// A Lister is a store that returns the claims and queue entries of many keys.
type Lister interface {
	Store
	// List implements the function [List].
	List(ctx context.Context, prefix string) iter.Seq2[Claim, error]
}

// An AllRenewer is a store that renews many claims in one round trip.
type AllRenewer interface {
	Store
	// RenewAll implements the function [RenewAll].
	RenewAll(ctx context.Context, rs []Renewal) []Renewed
}

// A Breaker is a store that can end the claims of others.
type Breaker interface {
	Store
	// Break implements the function [Break].
	Break(ctx context.Context, key string, upTo uint64, reason string) ([]Claim, error)
}

// A LossTeller is a store that knows at once when a claim has ended.
type LossTeller interface {
	Store
	// Losses implements the function [Losses].
	Losses(ctx context.Context) <-chan []ID
}

// An Inspector is a store that reports its own condition.
type Inspector interface {
	Store
	// Inspect implements the function [Inspect].
	Inspect(ctx context.Context) (Info, error)
}

// Watch returns a channel that is ready when an attempt for id may succeed: the owner's entry has
// come to the head of the queue, the key has capacity, or the store has connected again and
// messages may have been lost. It is also ready when the claim was granted: see [Wake]. If id.Owner
// is empty, the channel is ready whenever a claim on id.Key ended or became a record.
//
// The watch is active when Watch returns, and ends with ctx. It is a hint: it may be ready for no
// reason, and it may miss a message, so a waiter also attempts from time to time without it. The
// channel is never closed. A store that cannot watch, or cannot at the moment, returns nil, which
// is never ready. The same holds for a key that is not valid.
//
// The library watches before the [Store.Acquire] by which an owner joins the queue, so a state that
// holds when Watch begins need not make the channel ready. The end of a TTL need not either, with
// or without an owner. Without Watch the library attempts again after 20 ms, doubled up to a
// second. A store that can look up all waiters of its process with one query every 20 ms should
// watch in that way instead.
func Watch(ctx context.Context, s Store, id ID) <-chan Wake {
	if w, ok := s.(Watcher); ok {
		return w.Watch(ctx, id)
	}
	return nil
}

// Losses returns a channel that reports claims of this store that have ended although they were not
// released and their TTL has not passed: those of a connection that died, for a store whose claims
// end with the connection. A reported loss is certain. A claim that is not reported may be lost all
// the same. The watch ends with ctx, and the channel is never closed. A store whose claims end only
// by their TTL returns nil.
func Losses(ctx context.Context, s Store) <-chan []ID {
	if l, ok := s.(LossTeller); ok {
		return l.Losses(ctx)
	}
	return nil
}

// Show returns the live claims on key, oldest first, then the queue in order. An idle key has none,
// and neither has a key that is not valid: that is no error, here and in [List] and [Break]. For a
// store without Show, it uses List. For a store without either, the error is
// [errors.ErrUnsupported].
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

// List yields the live claims and queue entries of all keys that begin with prefix. Those of one
// key are together, in the order of [Show]. It is no snapshot: a change during the call may or may
// not be seen. An error is yielded last, with the zero [Claim], and means that the list is not
// complete. For a store that cannot list, the error is [errors.ErrUnsupported].
func List(ctx context.Context, s Store, prefix string) iter.Seq2[Claim, error] {
	if l, ok := s.(Lister); ok {
		return l.List(ctx, prefix)
	}
	return func(yield func(Claim, error) bool) { yield(Claim{}, unsupported(s, "list")) }
}

// renewers is the number of concurrent calls of RenewAll on a store without the verb.
const renewers = 8

// RenewAll renews many claims and returns one answer for each, in order. A store with the verb
// needs one round trip for each of its nodes. For a store without it, RenewAll calls [Store.Renew]
// for each. A claim that is not held does not prevent the renewal of the others.
//
// A claim may be listed twice, as a lock server does that renews for two callers with one handle.
// Both answers are alike then: both renewed, or both not held, unless the claim ends during the
// call. If the two renewals differ, either may be the one that counts.
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

// Break ends live claims on key, of any owner, and returns the claims that it ended; none is no
// error. With upTo 0 it ends all of them. Otherwise it ends only claims whose fence is at most
// upTo. The store compares and ends in one atomic step: a claim granted meanwhile, with a higher
// fence, is never ended. So a caller that has seen a claim breaks that claim and no later one. A
// claim without a fence, such as the claim of a foreign client, is ended by upTo 0 only.
//
// The queue stays, and its head is woken. The reason is for the holders: a store that can returns
// it in the *[BrokenError] of their next [Store.Renew], for as long as the claim would have lived.
// One hour is enough for a longer claim, and a record needs no reason. For a store that cannot
// break claims, and for a bound on a store without fences, the error is [errors.ErrUnsupported].
func Break(ctx context.Context, s Store, key string, upTo uint64, reason string) ([]Claim, error) {
	b, ok := s.(Breaker)
	switch {
	case !ok:
		return nil, unsupported(s, "break a claim")
	case upTo > 0 && !s.Features().Fence:
		return nil, unsupported(s, "break a claim by its fence")
	}
	return b.Break(ctx, key, upTo, reason)
}

// Inspect returns what the store knows about itself. For a store that cannot inspect itself, the
// error is [errors.ErrUnsupported].
func Inspect(ctx context.Context, s Store) (Info, error) {
	if i, ok := s.(Inspector); ok {
		return i.Inspect(ctx)
	}
	return Info{}, unsupported(s, "inspect itself")
}

// Info describes the condition of a store.
type Info struct {
	// Identity is equal for two stores only if they keep the same claims, by whatever address
	// they are reached. It stays the same when the server restarts, unless the server forgets its
	// data: then it keeps other claims. Empty means unknown.
	Identity string

	// Server is equal for two stores if one server process keeps their claims, in one database or
	// in two. A restart of the server changes it. Empty means unknown.
	Server string

	// Age is how long the store has remembered its claims. It starts again when the store loses
	// its memory. 0 means unknown.
	Age time.Duration

	Version  string    // name and version of the server, for people
	Findings []Finding // facts that an operator of this store should know
}

// A Finding is the result of one check of a store.
type Finding struct {
	Level Level
	What  string // the fact, in a few words
	Means string // the consequence for locks; empty if Level is LevelOK
	Cure  string // the remedy; empty if Level is LevelOK
}

// A Level is the severity of a [Finding].
type Level int

// The levels. LevelUnknown is the zero Level. It does not mean LevelOK: the store was not allowed
// to make the check.
const (
	LevelUnknown Level = iota
	LevelOK
	LevelWarning
	LevelDanger
)

func (l Level) String() string {
	switch l {
	case LevelOK:
		return "ok"
	case LevelWarning:
		return "warning"
	case LevelDanger:
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
