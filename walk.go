package distlock

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// maxLooks bounds how many keys one walk looks at. What lies beyond counts as free.
const maxLooks = 128

// A wait is a call that waits, as its notices tell.
type wait struct {
	party  string
	holder string
	wants  string
	waited time.Duration
	demand
	place string
	ahead []demand
	holds map[hold]holding // those that the walk came upon

	claims  []driver.Claim // that are held on the key it wants
	demands []demand       // its own, and those that are served before it
	free    bool           // it surely does not wait in vain
}

// A hold names a claim that is held: its key, and the tag of its owner.
type hold struct{ key, tag string }

// A holding is what is known of one.
type holding struct {
	fence uint64
	held  time.Duration
}

func (w *wait) hold(h hold, what holding) {
	if w.holds == nil {
		w.holds = map[hold]holding{}
	}
	w.holds[h] = what
}

// A walk goes from one who waits to those in its way, and on to those in theirs, as far as they wait.
type walk struct {
	l     *Locker
	looks int
	waits map[string]*wait // by party
	held  map[hold][]*wait // who waits under a claim that is held
}

// walk looks at all keys on the way from a wait, and returns the circle that it is in: nil if there is none.
//
// A wait is in vain if there will be no room for it, or for one that is served before it, although everybody else does what they can: that is, if
// the claims of those who wait in vain themselves leave too little room. So one reader that waits in vain stops a writer, but one of many holders of a
// semaphore stops nobody. A circle is a set of waits that are in vain because of each other, and of nobody else.
func (l *Locker) walk(ctx context.Context, self *wait) (*circle, error) {
	w := &walk{l: l, waits: map[string]*wait{self.party: self}, held: map[hold][]*wait{}}
	for todo := []*wait{self}; len(todo) > 0; todo = todo[1:] {
		next, err := w.visit(ctx, todo[0])
		if err != nil {
			return nil, err
		}
		todo = append(todo, next...)
	}
	vain := maps.Clone(w.waits)
	for {
		w.shrink(vain)
		ring := w.ring(self, vain)
		if ring[self.party] == nil {
			return nil, nil
		}
		if len(ring) == len(vain) {
			return &circle{w, self, ring}, nil
		}
		vain = ring // those outside of it can go on, or wait for what is none of this circle's
	}
}

// visit looks at what is in the way of a wait. It returns the waits that were not known before.
func (w *walk) visit(ctx context.Context, at *wait) (found []*wait, err error) {
	claims, err := w.show(ctx, at.wants)
	if err != nil {
		return nil, err
	}
	at.demands = append([]demand{at.demand}, at.ahead...)
	place := slices.IndexFunc(claims, func(c driver.Claim) bool { return c.Waiting && c.Owner == at.place })
	for i, c := range claims {
		switch {
		case c.Waiting && i < place:
			at.demands = append(at.demands, demand{c.Weight, c.Limit})
		case !c.Waiting && !c.Kept:
			at.claims = append(at.claims, c)
			at.free = at.free || c.Owner == at.place // it was granted just now
		}
	}
	used := int64(0) // by claims that may be held in vain
	for _, c := range at.claims {
		used += c.Weight
	}
	for _, c := range at.claims {
		if at.free = at.free || w.looks >= maxLooks || !at.inVain(used); at.free {
			return found, nil
		}
		news, err := w.holders(ctx, c)
		if err != nil {
			return nil, err
		}
		found = append(found, news...)
		if len(w.held[hold{c.Key, c.Owner}]) == 0 {
			used -= c.Weight // nobody waits under it: it will be given back
		}
	}
	at.free = !at.inVain(used)
	return found, nil
}

// inVain reports whether w waits in vain if so much is never given back.
func (w *wait) inVain(used int64) bool {
	return slices.ContainsFunc(w.demands, func(d demand) bool { return used+d.Weight > d.Limit })
}

// holders finds out who waits under a claim. It returns those who were not known before.
func (w *walk) holders(ctx context.Context, c driver.Claim) (found []*wait, err error) {
	h := hold{c.Key, c.Owner}
	if _, known := w.held[h]; known {
		return nil, nil
	}
	notices, err := w.show(ctx, kindWait.key(c.Owner))
	if err != nil {
		return nil, err
	}
	w.held[h] = nil
	for _, n := range notices {
		var told word
		if json.Unmarshal(n.Value, &told) != nil || told.Key != c.Key || n.Waiting { // tags are short: another key's may be the same
			continue
		}
		one := w.waits[n.Party]
		if one == nil {
			one = &wait{
				party: n.Party, holder: n.Holder, wants: told.Wants, waited: told.Waited + n.Held,
				demand: told.demand, place: told.Place, ahead: told.Ahead,
			}
			w.waits[n.Party] = one
			found = append(found, one)
		}
		one.hold(h, holding{told.Fence, told.Held + n.Held})
		w.held[h] = append(w.held[h], one)
	}
	return found, nil
}

// show looks at one key.
func (w *walk) show(ctx context.Context, key string) ([]driver.Claim, error) {
	w.looks++
	call, cancel := context.WithTimeout(ctx, noticeTTL)
	defer cancel()
	return driver.Show(call, w.l.store, key)
}

// shrink takes those out of a set who need not wait in vain if all others can go on.
func (w *walk) shrink(vain map[string]*wait) {
	for again := true; again; {
		again = false
		for party, one := range vain {
			used := int64(0)
			for _, c := range one.claims {
				if slices.ContainsFunc(w.held[hold{c.Key, c.Owner}], func(by *wait) bool { return vain[by.party] != nil }) {
					used += c.Weight
				}
			}
			if one.free || !one.inVain(used) {
				delete(vain, party)
				again = true
			}
		}
	}
}

// ring returns those of a set who are in the way of a wait, through others or directly, and in whose way it is.
func (w *walk) ring(self *wait, set map[string]*wait) map[string]*wait {
	behind := map[string][]*wait{}
	for _, one := range set {
		for _, b := range w.blockers(one, set) {
			behind[b.party] = append(behind[b.party], one)
		}
	}
	to := reach(self, func(one *wait) []*wait { return w.blockers(one, set) })
	from := reach(self, func(one *wait) []*wait { return behind[one.party] })
	maps.DeleteFunc(to, func(party string, _ *wait) bool { return from[party] == nil })
	return to
}

// blockers returns those of a set who hold what is in the way of one.
func (w *walk) blockers(one *wait, set map[string]*wait) (out []*wait) {
	for _, c := range one.claims {
		for _, by := range w.held[hold{c.Key, c.Owner}] {
			if set[by.party] != nil && !slices.Contains(out, by) {
				out = append(out, by)
			}
		}
	}
	slices.SortFunc(out, func(a, b *wait) int { return strings.Compare(a.party, b.party) })
	return out
}

// reach returns all who can be reached from one by at least one step.
func reach(from *wait, next func(*wait) []*wait) map[string]*wait {
	out := map[string]*wait{}
	for todo := next(from); len(todo) > 0; todo = todo[1:] {
		if one := todo[0]; out[one.party] == nil {
			out[one.party] = one
			todo = append(todo, next(one)...)
		}
	}
	return out
}

// A circle is a set of waits that are in vain because of each other.
type circle struct {
	w    *walk
	self *wait
	set  map[string]*wait
}

// stakes returns those leases of one that are in the way of others in the circle, in order.
func (c *circle) stakes(one *wait) (out []driver.Claim) {
	for _, other := range c.set {
		for _, claim := range other.claims {
			h := hold{claim.Key, claim.Owner}
			known := slices.ContainsFunc(out, func(o driver.Claim) bool { return o.Key == h.key && o.Owner == h.tag })
			if what, ok := one.holds[h]; ok && !known {
				claim.Fence, claim.Held = what.fence, what.held // a claim may have been handed on from lease to lease
				out = append(out, claim)
			}
		}
	}
	slices.SortFunc(out, byFence)
	return out
}

func byFence(a, b driver.Claim) int {
	return cmp.Or(cmp.Compare(a.Fence, b.Fence), strings.Compare(a.Key, b.Key), strings.Compare(a.Owner, b.Owner))
}

// victim returns the one to be told: that with the highest fence, which has worked for the shortest time. Everybody in
// the circle comes to the same answer.
func (c *circle) victim() *wait {
	var out *wait
	var highest driver.Claim
	for _, one := range c.set {
		last := c.stakes(one)
		top := last[len(last)-1]
		if out == nil || cmp.Or(byFence(top, highest), strings.Compare(one.party, out.party)) > 0 {
			out, highest = one, top
		}
	}
	return out
}

// mark tells circles apart by who waits for what, and by the owners and fences of what they hold.
func (c *circle) mark() string {
	var b strings.Builder
	for _, party := range slices.Sorted(maps.Keys(c.set)) {
		one := c.set[party]
		fmt.Fprintf(&b, "%q wants %q holds", party, one.wants)
		for _, s := range c.stakes(one) {
			fmt.Fprintf(&b, " %q %s %d", s.Key, s.Owner, s.Fence)
		}
	}
	return b.String()
}

// parties tells of all in the circle, in the order of who waits for whom.
func (c *circle) parties() (out []Party) {
	seen := map[string]bool{}
	var tell func(one *wait)
	tell = func(one *wait) {
		seen[one.party] = true
		p := Party{Holder: one.holder, Waits: one.claim()}
		for _, s := range c.stakes(one) {
			if held, ok := newClaim(s); ok {
				p.Holds = append(p.Holds, held)
			}
		}
		out = append(out, p)
		for _, next := range c.w.blockers(one, c.set) {
			if !seen[next.party] {
				tell(next)
			}
		}
	}
	tell(c.self)
	return out
}

// claim is what w waits for, as people see it.
func (w *wait) claim() Claim {
	out, _ := newClaim(driver.Claim{Key: w.wants, Holder: w.holder, Weight: w.Weight, Limit: w.Limit, Held: w.waited, Waiting: true})
	return out
}
