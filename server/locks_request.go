package server

import (
	"cmp"
	"crypto/rand"
	"maps"
	"strings"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/handle"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/server/access"
)

const defaultTTL = 30 * time.Second

// The bounds of an owner that a caller makes. Two callers with one owner are one holder, so it must
// be random; 128 bits have 22 characters.
const (
	minOwner = 22
	maxOwner = 64
)

// parse checks a request. Nothing was sent to the store when it fails.
func (a *acquisition) parse(m *api.LocksAcquireRequest, f driver.Features, caller *access.Identity) error {
	parse := a.claim
	if m.GetHandle() != "" {
		parse = a.again
	}
	if err := parse(m); err != nil {
		return err
	}
	if err := a.size(m, f); err != nil {
		return err
	}
	var ok bool
	if a.wait, ok = message.Duration(m.GetWait()); !ok || a.wait < 0 {
		return flaw("wait", "it is not a duration from 0s")
	}
	a.request.ID, a.request.TTL = a.handle.ID(), a.handle.TTL+a.handle.Delay
	return a.data(m, caller)
}

// claim makes the handle of a new claim.
func (a *acquisition) claim(m *api.LocksAcquireRequest) error {
	kind, mode, owner := names.Lock, cmp.Or(m.GetMode(), handle.Exclusive), m.GetOwner()
	if m.GetSlots() != 0 {
		kind, mode = names.Semaphore, cmp.Or(m.GetMode(), handle.Counted)
	}
	if why := names.Flaw(m.GetName()); why != "" {
		return flaw("name", "%s", why)
	}
	switch {
	case mode != handle.Exclusive && mode != handle.Shared && mode != handle.Counted:
		return flaw("mode", "%s is not exclusive or shared", names.Quote(mode))
	case (mode == handle.Counted) != (kind == names.Semaphore):
		return flaw("mode", "a name with slots is a semaphore, which is not %s, and counted needs slots", mode)
	case owner == "":
		owner, a.made = rand.Text(), true
	default:
		if err := checkOwner(owner); err != nil {
			return err
		}
	}
	ttl, ok := message.Duration(m.GetTtl())
	if m.GetTtl() == nil {
		ttl = defaultTTL
	}
	if !ok || ttl < handle.MinTTL || ttl > handle.MaxTTL {
		return flaw("ttl", "it is not %gs to %gs", handle.MinTTL.Seconds(), handle.MaxTTL.Seconds())
	}
	a.handle = handle.Handle{Key: kind.Key(m.GetName()), Owner: &owner, Mode: mode, TTL: ttl}
	return nil
}

// checkOwner returns an error without the owner, which is a secret.
func checkOwner(owner string) error {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	switch {
	case len(owner) < minOwner || len(owner) > maxOwner:
		return flaw("owner", "it has %d characters, and not %d to %d: it must be random and new for every lock, because two callers with one owner are one holder",
			len(owner), minOwner, maxOwner)
	case strings.Trim(owner, allowed) != "":
		return flaw("owner", "it has other characters than A-Z, a-z, 0-9, - and _")
	}
	return nil
}

// again takes the handle of an earlier call.
func (a *acquisition) again(m *api.LocksAcquireRequest) error {
	h, err := handle.Parse(m.GetHandle())
	if err != nil {
		return flaw("handle", "%v", err)
	}
	kind, name, _ := names.Split(h.Key)
	ttl, ok := message.Duration(m.GetTtl())
	switch {
	case kind != names.Lock && kind != names.Semaphore:
		return flaw("handle", "it is of kind %s, and not of a lock or a semaphore", kind.Word())
	case m.GetOwner() != "":
		return flaw("owner", "the handle has one already")
	case m.GetName() != "" && m.GetName() != name:
		return flaw("name", "the handle is of another name")
	case m.GetMode() != "" && m.GetMode() != h.Mode:
		return flaw("mode", "the handle is %s", h.Mode)
	case m.GetTtl() != nil && (!ok || ttl != h.TTL):
		return flaw("ttl", "the handle has a TTL of %gs", h.TTL.Seconds())
	}
	a.handle, a.joined = h, true
	return nil
}

// size sets weight and limit.
func (a *acquisition) size(m *api.LocksAcquireRequest, f driver.Features) error {
	slots, weight := int64(m.GetSlots()), int64(m.GetWeight())
	if a.handle.Mode != handle.Counted {
		if slots != 0 || weight != 0 {
			return flaw("slots", "slots and weight are for semaphores, and this is %s", a.handle.Mode)
		}
		a.request.Weight, a.request.Limit = 1, driver.Whole
		if a.handle.Mode == handle.Exclusive {
			a.request.Weight = driver.Whole
		}
		return nil
	}
	weight = cmp.Or(weight, 1)
	switch {
	case !f.Count:
		return message.Error(&api.Reason{Kind: api.Reason_KIND_UNSUPPORTED, Text: "the store " + f.Name + " does not count, as slots need"})
	case slots < 1 || slots >= driver.Whole:
		return flaw("slots", "%d is not 1 to %d", slots, driver.Whole-1)
	case weight < 1 || weight > slots:
		return flaw("weight", "%d is not 1 to the %d slots", weight, slots)
	}
	a.request.Weight, a.request.Limit = weight, slots
	return nil
}

// data sets what the store shows with the claim.
func (a *acquisition) data(m *api.LocksAcquireRequest, caller *access.Identity) error {
	a.request.Holder = m.GetHolder()
	if a.request.Holder == "" {
		a.request.Holder = caller.Name
		if len(caller.Name) > names.MaxHolder {
			a.request.Holder = strings.ToValidUTF8(caller.Name[:names.MaxHolder], "")
		}
	} else if why := names.TextFlaw(a.request.Holder, names.MaxHolder); why != "" {
		return flaw("holder", "%s", why)
	}
	for k := range m.GetLabels() {
		if why := names.LabelFlaw(k); why != "" {
			return flaw("labels", "%s", why)
		}
	}
	a.request.Meta = maps.Clone(m.GetLabels())
	if m.GetNote() != "" {
		if a.request.Meta == nil {
			a.request.Meta = map[string]string{}
		}
		a.request.Meta[names.Note] = m.GetNote()
	}
	if why := names.MetaFlaw(a.request.Meta); why != "" {
		return flaw("labels", "%s", strings.ReplaceAll(why, names.Quote(names.Note), "the note"))
	}
	if n := len(m.GetValue()); n > names.MaxValue {
		return flaw("value", "%d bytes are over %d", n, names.MaxValue)
	}
	a.request.Value = m.GetValue()
	return nil
}
