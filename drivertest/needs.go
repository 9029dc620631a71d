package drivertest

import (
	"context"
	"errors"
	"strings"

	"github.com/distlock/distlock/driver"
)

// A need is a set of features and verbs that a rule needs.
type need uint

const (
	fence need = 1 << iota
	floor
	count
	queue
	value
	keep
	expiry
	detached
	anyServer
	maxTTL // Features.MaxTTL is set
	watch
	show
	list
	breaks
	restart
	second // env has another store over the same claims
	virtual
	eve // Env.Raise, or the store is opened when the clock has nearly used up the fences
)

// String lists the set.
func (n need) String() string {
	texts := []string{
		"fence", "floor", "count", "queue", "value", "keep", "expiry", "detached", "any server", "a longest TTL",
		"watch", "show", "list", "break", "Env.Restart", "Env.Second or Env.Through", "virtual time",
		"Env.Raise, or centuries of virtual time",
	}
	var in []string
	for i, w := range texts {
		if n&(1<<i) != 0 {
			in = append(in, w)
		}
	}
	return strings.Join(in, ", ")
}

// abilities returns the features and verbs of the store, and the abilities of env. A store that
// wraps another may have a verb that returns errors.ErrUnsupported, so each verb is called once, on
// an unused key.
func abilities(ctx context.Context, env Env, s driver.Store, key string) need {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	has := func(err error) bool { return !errors.Is(err, errors.ErrUnsupported) }

	_, showErr := driver.Show(ctx, s, key)
	_, breakErr := driver.Break(ctx, s, key, 0, "an unused key")
	var listErr error
	for _, err := range driver.List(ctx, s, key) {
		listErr = err
	}
	f := s.Features()
	var n need
	for bit, ok := range map[need]bool{
		fence: f.Fence, floor: f.Floor, count: f.Count, queue: f.Queue, value: f.Value, keep: f.Keep,
		expiry: f.Expiry, detached: f.Detached, anyServer: f.AnyServer, maxTTL: f.MaxTTL > 0,
		watch: driver.Watch(ctx, s, driver.ID{Key: key, Owner: "nobody"}) != nil,
		show:  has(showErr), list: has(listErr), breaks: has(breakErr),
		restart: env.Restart != nil, second: env.hasSecond(), virtual: env.Virtual,
		eve: env.Virtual || env.Raise != nil,
	} {
		if ok {
			n |= bit
		}
	}
	return n
}
