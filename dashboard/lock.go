package dashboard

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
)

const maxLockEvents = 15 // on the page of a lock

// A lockBody is the page of one lock.
type lockBody struct {
	Kind          names.Kind
	Name          string
	Path          string
	Free          bool
	Headline      string
	Holders       []holderView
	HiddenHolders int
	Waiters       []claimView
	HiddenWaiters int
	Why           []sentence
	Events        []eventView
	Deadlocks     []deadlockView
	Fence         uint64 // the highest of the holders
	Break         *breakForm
	MayNot        string // why there is no Break
	Done, Failed  string // of a Break
	Recorded      bool
	Command, Run  string // for a terminal
}

// A holderView is a claim on the page of its lock.
type holderView struct {
	claimView
	Share  string
	Note   string
	Labels []label
	Late   bool
	Waits  []ref // what the holder itself waits for
}

type label struct{ Name, Value string }

// A ref is a lock that a page links to.
type ref struct {
	Kind names.Kind
	Name string
	Path string
}

func newRef(key string) ref {
	k, name, _ := names.Split(key)
	return ref{k, name, lockPath(k, name)}
}

// A sentence is part of the answer to "why is this waiting?".
type sentence struct {
	Level  string // "", "dim", "warn" or "bad"
	Pieces []piece
	Path   string // of another lock, or ""
	Link   string
}

// A piece of a sentence is a text, and then maybe a time. The script of the page counts the times
// up and down, with those of the tables.
type piece struct {
	Text      string
	Ago, Left time.Time // how long ago, or how long until; zero: none
}

// newSentence returns a sentence. A piece among the arguments is a time, for %s.
func newSentence(level, format string, args ...any) sentence {
	const mark = "\x00" // no other argument has it: text escapes it
	var times []piece
	for i, a := range args {
		if p, ok := a.(piece); ok {
			times, args[i] = append(times, p), mark
		}
	}
	s := sentence{Level: level}
	for i, part := range strings.Split(fmt.Sprintf(format, args...), mark) {
		one := piece{Text: part}
		if i < len(times) {
			one.Ago, one.Left = times[i].Ago, times[i].Left
		}
		s.Pieces = append(s.Pieces, one)
	}
	return s
}

// lockOf returns the kind and the name of the page of a lock.
func lockOf(r *http.Request) (names.Kind, string, bool) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/locks/")
	word, name, slash := strings.Cut(rest, "/")
	if name == "" {
		name = r.URL.Query().Get("name")
	}
	kind, known := names.Parse(word)
	return kind, name, ok && slash && known && name != ""
}

// lock returns the body of the page of a lock. A name that the identity does not see looks like one
// that is free.
func (d *Dashboard) lock(p *page, kind names.Kind, name string) any {
	p.Title = text(name)
	key := kind.Key(name)
	p.Snap = d.scanner.snapshot(p.r.Context(), scope{})
	l := p.Snap.byKey[key]
	may := sees(p.id, name)
	if l == nil && may && p.Snap.Partial != "" && len(key) <= driver.MaxKey {
		p.Snap = d.scanner.snapshot(p.r.Context(), scope{key: key})
		l = p.Snap.byKey[key]
	}
	if l == nil || !may {
		l = &lockView{Kind: kind, Name: name, Key: key}
	}
	b := &lockBody{Kind: kind, Name: name, Path: lockPath(kind, name), Recorded: d.recorder != nil, Free: len(l.Holders)+len(l.Waiters) == 0}
	b.Command, b.Run = "distlock show --store "+p.Address+" "+shellQuote(name), "distlock run --store "+p.Address+" "+shellQuote(name)+" -- sleep 60"
	for _, h := range l.Holders[:min(len(l.Holders), pageRows)] {
		b.Holders = append(b.Holders, p.newHolder(l, h))
		b.Fence = max(b.Fence, h.Fence)
	}
	for _, h := range l.Holders {
		b.Fence = max(b.Fence, h.Fence)
	}
	b.Waiters = l.Waiters[:min(len(l.Waiters), pageRows)]
	b.HiddenHolders, b.HiddenWaiters = len(l.Holders)-len(b.Holders), len(l.Waiters)-len(b.Waiters)
	if may {
		b.Events = d.events(p.id, maxLockEvents, func(e Event) bool { return e.Key == key })
	}
	for _, c := range d.deadlocks(p) {
		if slices.Contains(c.keys, key) {
			b.Deadlocks = append(b.Deadlocks, c)
		}
	}
	b.Headline = headline(l)
	b.Why = d.why(p, l, b)
	d.offerBreak(p, l, b)
	return b
}

// newHolder returns a claim for the page of its lock.
func (p *page) newHolder(l *lockView, c claimView) holderView {
	v := holderView{claimView: c, Share: c.share(), Note: c.Meta[noteKey], Late: l.Kind != names.RateLimit && c.late()}
	for _, k := range slices.Sorted(maps.Keys(c.Meta)) {
		if !strings.HasPrefix(k, "_") {
			v.Labels = append(v.Labels, label{k, c.Meta[k]})
		}
	}
	for _, n := range p.Snap.notices {
		if _, name, ok := names.Split(n.Wants); ok && n.Key == l.Key && n.Tag == c.Owner && sees(p.id, name) {
			v.Waits = append(v.Waits, newRef(n.Wants))
		}
	}
	return v
}

// headline says in one line who holds a lock.
func headline(l *lockView) string {
	used, limit := l.free()
	switch n := len(l.Holders); {
	case n == 0 && len(l.Waiters) == 0:
		return "Free: nobody holds it and nobody waits for it."
	case n == 0:
		return "Nobody holds it at this moment, and the first waiter is about to get it."
	case l.Kind == names.RateLimit:
		return fmt.Sprintf("%d of %d passes are taken.", used, limit)
	case l.Kind == names.Semaphore:
		return fmt.Sprintf("%d of %d slots are held, %d of %d slots are free.", used, limit, max(0, limit-used), limit)
	case l.Kind == names.Once && l.Holders[0].Kept:
		return "A result is stored, by " + holder(l.Holders[0].Holder) + "."
	case l.Kind == names.Election:
		return holder(l.Holders[0].Holder) + " is the leader."
	case n == 1:
		return "Held by " + holder(l.Holders[0].Holder) + "."
	default:
		return fmt.Sprintf("Held by %d readers at the same time.", n)
	}
}

// why answers "why is this waiting?".
func (d *Dashboard) why(p *page, l *lockView, b *lockBody) (out []sentence) {
	say := func(level, format string, args ...any) {
		out = append(out, newSentence(level, format, args...))
	}
	for _, c := range b.Deadlocks {
		if c.Now {
			say("bad", "This is a deadlock: %s. None of them can go on. The Go library fails one of the calls within two seconds.", c.Summary)
		}
	}
	if len(l.Waiters) == 0 {
		return out
	}
	first := l.Waiters[0]
	d.whyHeld(p, l, b, &out)
	if waited := (piece{Ago: first.Since}); len(l.Waiters) == 1 {
		say("", "%s waits, for %s.", holder(first.Holder), waited)
	} else {
		say("", "%d callers wait in a queue, in order of arrival. First is %s, for %s.", len(l.Waiters), holder(first.Holder), waited)
	}
	if used, limit := l.free(); limit > 0 && used < limit && first.Weight > limit-used {
		say("warn", "%d of %d are free, but the first in the queue wants %d. Those behind it wait although they would fit: "+
			"otherwise a large demand would never be served.", limit-used, limit, first.Weight)
	}
	switch late := slices.ContainsFunc(b.Holders, func(h holderView) bool { return h.Late }); {
	case l.Kind == names.RateLimit || len(l.Holders) == 0:
	case late:
		say("", "What can be done: look whether the holder is alive. If it is gone, wait for the end of its lease, or break the lock.")
	default:
		say("", "What can be done: wait, or look at what the holder does. If it is alive, a break lets two work at the same time, "+
			"unless the resource checks the fencing token.")
	}
	if l.Kind != names.RateLimit {
		say("dim", "Whether a holder itself waits for another lock is known only from callers of the Go library that wait for longer than a second.")
	}
	return out
}

// whyHeld says what the holders do.
func (d *Dashboard) whyHeld(p *page, l *lockView, b *lockBody, out *[]sentence) {
	say := func(level, format string, args ...any) {
		*out = append(*out, newSentence(level, format, args...))
	}
	if len(l.Holders) == 0 {
		say("", "Nobody holds it at this moment. The first in the queue gets it with its next attempt, or its queue entry ends within seconds.")
		return
	}
	if l.Kind == names.RateLimit {
		used, limit := l.free()
		say("", "%d of %d passes are taken. A pass becomes free when its window has passed; nobody has to release it.", used, limit)
		return
	}
	for i, h := range b.Holders {
		if i == 3 {
			say("", "The others that hold it are in the table below.")
			break
		}
		level, words, args := h.lease(p.Now)
		say(level, "%s holds it (%s), for %s. "+words, append([]any{holder(h.Holder), h.Share, piece{Ago: h.Since}}, args...)...)
		for _, w := range h.Waits {
			s := newSentence("warn", "%s itself waits for another lock, so look there first:", holder(h.Holder))
			s.Path, s.Link = w.Path, text(w.Name)
			*out = append(*out, s)
		}
	}
}

// lease says whether the lease of a claim is renewed: the format of a sentence and its arguments.
func (h holderView) lease(now time.Time) (level, format string, args []any) {
	left, most := piece{Left: h.Until}, span(h.Most.Round(time.Second))
	switch {
	case h.Kept:
		return "", "It is a record that nobody renews. It ends in %s.", []any{left}
	case h.Until.IsZero():
		return "warn", "Its lease has no end: it stays until it is released or broken.", nil
	case h.Late:
		return "bad", "Its lease is not being renewed: %s are left, of at least %s. The holder may be gone, or cut off from the store. " +
			"If it does not renew, the lock is free then.", []any{left, most}
	case h.Renewed.IsZero() && now.Sub(h.Seen) < h.Most/3+2*scanEvery: // a renewal may not be due yet
		return "", "Its lease ends in %s unless it is renewed.", []any{left}
	case h.Renewed.IsZero():
		return "", "Its lease ends in %s unless it is renewed. In the %s that this page has looked, it was not. Most holders renew after a third of their TTL.",
			[]any{left, piece{Ago: h.Seen}}
	default:
		return "", "Its lease is alive: it was renewed %s ago, and %s are left, of at least %s.", []any{piece{Ago: h.Renewed}, left, most}
	}
}

// shellQuote returns a text for a shell.
func shellQuote(s string) string {
	if plainName.MatchString(s) && !strings.HasPrefix(s, "-") {
		return s
	}
	if t := text(s); t != s {
		return "$" + "'" + strings.ReplaceAll(strings.Trim(t, `"`), "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
