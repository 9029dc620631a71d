package distlock

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/handle"
	"github.com/distlock/distlock/internal/names"
)

// The bounds of durations that callers give.
const (
	minTTL  = handle.MinTTL
	maxTTL  = handle.MaxTTL
	maxKeep = 400 * 24 * time.Hour // of a result: more than a year
)

// The bounds of texts and values, in bytes.
const (
	maxName   = names.Max
	maxHolder = names.MaxHolder
	maxValue  = names.MaxValue // also of a result
)

const (
	defaultTTL   = 30 * time.Second
	defaultFirst = 20 * time.Millisecond
	defaultMost  = time.Second
)

// An Option changes how a lock is acquired and kept. Options of [New] are the defaults of that
// [Locker], those of the constructor of a kind are the defaults of its calls, and options of a call
// hold for that call. Of two that set the same, the later one counts. A nil Option changes nothing.
//
// An option without an effect on a call or a constructor is refused there with [ErrInvalid]. As a
// default of New or of a constructor it is ignored by the calls that have no use for it.
type Option func(*options) error

type options struct {
	ttl          time.Duration
	wait         time.Duration // < 0: for ever
	maxAttempts  int           // 0: any number
	weight       int64         // 0: not given
	first, most  time.Duration // pauses between attempts
	maxHold      time.Duration
	minHold      time.Duration
	delay        time.Duration
	paced        bool // attempts are made after the pauses also where the store notifies
	fixed        bool
	exact        bool // a Limiter takes no shares
	requireFence bool
	preferred    bool // a candidate for whom other leaders step down
	given        optionSet
	holder       string
	value        []byte
	meta         map[string]string // never changed, only replaced
	observe      Observer
	onClose      []func() // of New only
}

// An optionSet says which options were given to a call or to a constructor, and are no defaults.
type optionSet uint16

const (
	givenTTL optionSet = 1 << iota
	givenMaxWait
	givenMaxAttempts
	givenBackoff
	givenMaxHold
	givenMinHold
	givenLockDelay
	givenWeight
	givenNoRenewal
	givenExact
	givenPreferred
	givenHolder
	givenValue
	givenMeta
	givenOnClose

	givenWaiting = givenMaxWait | givenMaxAttempts | givenBackoff
)

var optionNames = [...]string{
	"TTL", "MaxWait", "MaxAttempts", "Backoff", "MaxHold", "MinHold", "LockDelay", "Weight", "NoRenewal", "Exact",
	"Preferred", "Holder", "Value", "Meta", "OnClose",
}

// without are the options without an effect on the calls of a kind.
var without = map[names.Kind]optionSet{
	names.Lock:      givenWeight | givenExact | givenPreferred | givenOnClose,
	names.Semaphore: givenExact | givenPreferred | givenOnClose,
	names.RateLimit: givenTTL | givenMaxHold | givenMinHold | givenLockDelay | givenNoRenewal | givenPreferred | givenOnClose,
	names.Once:      givenWeight | givenExact | givenPreferred | givenOnClose,
	names.Election:  givenWeight | givenExact | givenMaxWait | givenMaxAttempts | givenOnClose,
}

// withoutAttach are the options without an effect on Attach: the claim is there already.
const withoutAttach = givenTTL | givenWaiting | givenMinHold | givenLockDelay | givenWeight | givenExact | givenPreferred |
	givenHolder | givenValue | givenMeta | givenOnClose

// TTL sets how long the store keeps a lease after each renewal: 30 s by default, 100 ms to
// 24 h. If a holder dies, the next one gets the lock after at most this time. A lease is renewed
// after about a third of its TTL, so a short TTL costs round trips, and is lost sooner when the
// store is slow.
func TTL(d time.Duration) Option {
	return func(o *options) error {
		o.ttl, o.given = d, o.given|givenTTL
		return checkTTL(d)
	}
}

func checkTTL(d time.Duration) error {
	if d < minTTL || d > maxTTL {
		return invalid("TTL", "%v is not %v to %v", d, minTTL, maxTTL)
	}
	return nil
}

// MaxWait bounds how long a call waits for the lock, in addition to its context. With 0 the call
// does not wait. By default the context alone bounds the wait.
//
// MaxWait is for a lock that is held, not for a store that is down: if the store fails at the first
// attempt, the call returns [ErrUnavailable] or [ErrUnknown] at once, so that a wrong password
// shows. If it fails later, while the call waits in the queue, it is tried again until the wait
// ends.
func MaxWait(d time.Duration) Option {
	return func(o *options) error {
		o.wait, o.given = d, o.given|givenMaxWait
		return within("wait", d, 0, math.MaxInt64)
	}
}

// MaxAttempts bounds how often a call attempts to acquire the lock, with the pauses of [Backoff] in
// between. After the last attempt the call returns the reason, for instance a [HeldError]. By
// default the number of attempts is not bounded.
//
// MaxAttempts(3), Backoff(200*time.Millisecond, 200*time.Millisecond) is a retry count of 3 with
// a retry delay of 200 ms in other libraries. A lock that becomes free after 300 ms is acquired. An
// attempt that comes earlier than its pause, because the store sent a notification, does not count.
// Behind another call of the same process, attempts are counted without a call of the store.
func MaxAttempts(n int) Option {
	return func(o *options) error {
		o.maxAttempts, o.paced, o.given = n, true, o.given|givenMaxAttempts
		if n < 1 {
			return invalid("attempts", "%d is below 1", n)
		}
		return nil
	}
}

// Backoff sets the pauses between attempts. The pause after attempt n is random between shortest
// and shortest times 2 to the power of n, and at most longest. So Backoff(d, d) pauses for exactly
// d. The default is 20 ms and 1 s.
//
// Most stores notify a call when the lock may be free. Without Backoff and [MaxAttempts] such a
// store is polled after the longest pause alone, in case a notification was lost, and about every
// 100 ms while another program holds the lock, whose release notifies nobody.
func Backoff(shortest, longest time.Duration) Option {
	return func(o *options) error {
		o.first, o.most, o.paced, o.given = shortest, longest, true, o.given|givenBackoff
		if shortest < time.Millisecond || longest < shortest || longest > time.Hour {
			return invalid("backoff", "from %v to %v is not 1ms to 1h", shortest, longest)
		}
		return nil
	}
}

// MaxHold bounds how long a lease may be held although its renewals succeed. After that it is lost
// with [ErrMaxHold], and its claim in the store expires.
func MaxHold(d time.Duration) Option {
	return func(o *options) error {
		o.maxHold, o.given = d, o.given|givenMaxHold
		return within("longest hold", d, 1, maxTTL)
	}
}

// MinHold keeps the lock held until d after the grant, even if it is unlocked earlier: for jobs
// that start on several machines whose clocks differ. The store must be able to keep a claim
// without the process.
func MinHold(d time.Duration) Option {
	return func(o *options) error {
		o.minHold, o.given = d, o.given|givenMinHold
		return within("shortest hold", d, 1, maxTTL)
	}
}

// LockDelay keeps the lock held for d after a lease was lost, so that work which is still under way
// can end. A lease that is unlocked is free at once. The store must be able to keep a claim without
// the process.
func LockDelay(d time.Duration) Option {
	return func(o *options) error {
		o.delay, o.given = d, o.given|givenLockDelay
		return within("lock delay", d, 0, maxTTL)
	}
}

func within(what string, d, least, most time.Duration) error {
	switch {
	case d < least:
		return invalid(what, "%v is below %v", d, least)
	case d > most:
		return invalid(what, "%v is above %v", d, most)
	}
	return nil
}

// Weight sets how many slots of a [Semaphore], or passes of a [Limiter], a call takes: 1 by
// default, and at most all of them. Locks have no weight.
func Weight(n int64) Option {
	return func(o *options) error {
		o.weight, o.given = n, o.given|givenWeight
		if n < 1 || n >= driver.Whole {
			return invalid("weight", "%d is not 1 to %d", n, driver.Whole-1)
		}
		return nil
	}
}

// NoRenewal makes a lease that is not renewed: it is lost after its TTL, unless [Lease.Extend] is
// called.
func NoRenewal() Option {
	return func(o *options) error {
		o.fixed, o.given = true, o.given|givenNoRenewal
		return nil
	}
}

// Exact makes a [Limiter] of more than 1,000 take from the store exactly what a call needs, and no
// share to spend later: for processes that end after a few calls, whose shares would be lost. Then
// every pass is a round trip and a claim that lives for the window, so a name has as many claims as
// there were passes. Smaller limits are always exact.
func Exact() Option {
	return func(o *options) error {
		o.exact, o.given = true, o.given|givenExact
		return nil
	}
}

// RequireFence refuses to work with a store that has no fences.
func RequireFence() Option {
	return func(o *options) error {
		o.requireFence = true
		return nil
	}
}

// Holder sets who holds the lock, for errors and for people who inspect the store: host and process
// by default.
func Holder(s string) Option {
	return func(o *options) error {
		o.holder, o.given = s, o.given|givenHolder
		if why := names.TextFlaw(s, maxHolder); why != "" {
			return &ArgumentError{"holder", why}
		}
		return nil
	}
}

// Value stores bytes with the claim, for other programs to read: at most 64 KiB.
func Value(b []byte) Option {
	return func(o *options) error {
		if len(b) > maxValue {
			return tooLong(b)
		}
		o.value, o.given = slices.Clone(b), o.given|givenValue
		return nil
	}
}

func tooLong(value []byte) error {
	return invalid("value", "%d bytes are over %d", len(value), maxValue)
}

// Meta stores a key and a value with the claim, for people to read: up to 64 and 256 bytes. The
// option may be given up to 16 times, with 4 KiB in all. The same key again replaces the value.
func Meta(key, value string) Option {
	return func(o *options) error {
		if why := names.LabelFlaw(key); why != "" {
			return &ArgumentError{"metadata", why}
		}
		return o.setMeta(key, value)
	}
}

// Note stores in a few words why the lock is held, for people to read: up to 256 bytes. It counts
// as a [Meta].
func Note(s string) Option {
	return func(o *options) error { return o.setMeta(names.Note, s) }
}

func (o *options) setMeta(key, value string) error {
	meta := maps.Clone(o.meta) // it may be a default that other calls share
	if meta == nil {
		meta = map[string]string{}
	}
	meta[key] = value
	if why := names.MetaFlaw(meta); why != "" {
		return &ArgumentError{"metadata", why}
	}
	o.meta, o.given = meta, o.given|givenMeta
	return nil
}

// Observe adds an observer to those that were given before. Nil adds none.
func Observe(o Observer) Option {
	return func(opts *options) error {
		switch {
		case o == nil:
		case opts.observe == nil:
			opts.observe = o
		default:
			opts.observe = both(opts.observe, o)
		}
		return nil
	}
}

// OnClose has [Locker.Close] call f at its end, when all leases were released: for a [Locker] that
// owns its store. Several functions are called in the order of their options. Calls of the Locker
// that only read the store may still be under way. f must not call Close. It is an option of [New]
// only.
func OnClose(f func()) Option {
	return func(o *options) error {
		if f == nil {
			return errNilFunc
		}
		o.given |= givenOnClose
		o.onClose = append(o.onClose[:len(o.onClose):len(o.onClose)], f)
		return nil
	}
}

// with returns the options with more of them applied, checked against each other and against the
// features of the store.
func (o options) with(opts []Option, f driver.Features) (options, error) {
	for _, opt := range opts {
		if opt == nil {
			continue
		}
		if err := opt(&o); err != nil {
			return options{}, err
		}
	}
	return o, o.check(f)
}

func (o *options) check(f driver.Features) error {
	all := o.terms().StoreTTL()
	switch {
	case o.ttl < f.MinTTL:
		return invalid("TTL", "%v is below the %v of store %s", o.ttl, f.MinTTL, f.Name)
	case f.MaxTTL > 0 && all > f.MaxTTL:
		return invalid("TTL", "%v is above the %v of store %s%s", all, f.MaxTTL, f.Name, raise(f))
	case f.MaxTTL > 0 && o.minHold > f.MaxTTL:
		return invalid("shortest hold", "%v is above the %v of store %s%s", o.minHold, f.MaxTTL, f.Name, raise(f))
	case o.requireFence && !f.Fence:
		return unsupported(f, "gives no fences")
	case o.minHold > 0 && !f.Detached:
		return unsupported(f, "keeps no claim without its process, as MinHold needs")
	case o.delay > 0 && !f.Detached:
		return unsupported(f, "keeps no claim without its process, as LockDelay needs")
	case !f.Value && len(o.value)+len(o.meta) > 0:
		return unsupported(f, "stores no values")
	}
	return nil
}

// raise returns which option raises the longest TTL of a store, if there is one.
func raise(f driver.Features) string {
	if f.MaxTTLOption == "" {
		return ""
	}
	return ", which " + f.MaxTTLOption + " raises"
}

func unsupported(f driver.Features, what string) error {
	return fmt.Errorf("distlock: store %s %s: %w", f.Name, what, errors.ErrUnsupported)
}
