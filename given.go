package distlock

import (
	"math/bits"
	"slices"

	"github.com/distlock/distlock/internal/names"
)

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

// refuse returns an ErrInvalid if one of the options was given.
func (s optionSet) refuse(wrong optionSet, by string) error {
	if s &= wrong; s != 0 {
		return invalid("option", "%s has no effect on %s", optionNames[bits.TrailingZeros16(uint16(s))], by)
	}
	return nil
}

// noWait is the last option of a call that does not wait.
func noWait(o *options) error {
	o.wait = 0
	return o.given.refuse(givenWaiting, "a call that does not wait")
}

// inherited makes the options before it defaults.
func inherited(o *options) error {
	o.given = 0
	return nil
}

// kindOptions checks the options of a constructor. It returns them as the defaults of its calls.
func (l *Locker) kindOptions(k names.Kind, opts []Option) ([]Option, error) {
	if l == nil || l.store == nil {
		return nil, errNoNew
	}
	opt, err := l.defaults.with(opts, l.features)
	if err == nil {
		err = l.fits(&opt, k)
	}
	return slices.Concat(opts, []Option{inherited})[: len(opts)+1 : len(opts)+1], err
}

// fits refuses options that have no effect on the calls of a kind.
func (l *Locker) fits(opt *options, k names.Kind) error {
	if opt.preferred && k == names.Election && !l.features.Queue {
		return unsupported(l.features, "has no queue, as Preferred needs")
	}
	if opt.given&without[k] == 0 {
		return nil
	}
	return opt.given.refuse(without[k], "a call of kind "+k.Word())
}
