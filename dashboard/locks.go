package dashboard

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
)

// pageRows is how many locks, and how many waiters of one lock, a page has.
const pageRows = 100

// A rowView is a lock in a list.
type rowView struct {
	Kind    names.Kind
	Name    string
	Path    string
	By      string // the holder, or how many there are
	Note    string
	Holders int
	Since   time.Time // of the oldest holder
	Until   time.Time // the end of the first claim to end; zero: it has none
	Waiters int
	Waits   time.Time // since when the first one waits; zero: none does
	Late    bool      // the renewal of a holder is late
	Kept    bool
}

func newRow(l *lockView) rowView {
	r := rowView{Kind: l.Kind, Name: l.Name, Path: lockPath(l.Kind, l.Name), Holders: len(l.Holders), Waiters: len(l.Waiters)}
	used, limit := int64(0), int64(0)
	for i, h := range l.Holders {
		if i == 0 {
			r.Since, r.Until, r.By, r.Note, r.Kept = h.Since, h.Until, holder(h.Holder), h.Meta[noteKey], h.Kept
		}
		if !h.Until.IsZero() && h.Until.Before(r.Until) {
			r.Until = h.Until
		}
		r.Late = r.Late || l.Kind != names.RateLimit && h.late()
		used, limit = used+h.Weight, max(limit, h.Limit)
	}
	switch {
	case l.Kind == names.RateLimit && len(l.Holders) > 0:
		r.By = fmt.Sprintf("%d of %d passes", used, limit)
	case l.Kind == names.Semaphore && len(l.Holders) > 0:
		r.By = fmt.Sprintf("%d of %d slots", used, limit)
	case len(l.Holders) > 1:
		r.By = fmt.Sprintf("%s and %d more", r.By, len(l.Holders)-1)
	case len(l.Holders) == 0:
		r.By = "nobody"
	}
	for _, w := range l.Waiters {
		if r.Waits.IsZero() || w.Since.Before(r.Waits) {
			r.Waits = w.Since
		}
	}
	return r
}

// late reports whether a claim should have been renewed by now. Clients renew after a third of the
// TTL, so two thirds of it are left at least. Claims do not carry their TTL: the longest time that
// was left is at most that.
func (c claimView) late() bool {
	return !c.Kept && c.Left > 0 && c.Most > time.Second && c.Left < c.Most*6/10
}

// A locksBody is the list of locks.
type locksBody struct {
	Query                                 string
	Kind                                  string
	State                                 string
	Sort                                  string
	Kinds                                 []kindOption
	Rows                                  []rowView
	Found, From, To                       int
	Prev, Next                            string // addresses
	SortName, SortWait, SortHeld, SortAge string
	Any                                   bool // there are locks, but perhaps none that was searched for
	Store                                 string
}

type kindOption struct{ Word, Noun string }

// locks returns the body of the list.
func (d *Dashboard) locks(p *page) any {
	p.Title = "Locks"
	q := p.query
	b := &locksBody{Query: q.Get("q"), Kind: q.Get("kind"), State: q.Get("state"), Sort: q.Get("sort")}
	for _, k := range names.Shown {
		b.Kinds = append(b.Kinds, kindOption{k.Word(), nouns[k]})
	}
	p.Snap = d.scanner.snapshot(p.r.Context(), scope{})
	if p.Snap.Partial != "" && b.Query != "" {
		// The names that begin with the text are read by themselves, up to the same bounds.
		p.Snap = d.scanner.snapshot(p.r.Context(), scope{prefix: b.Query})
	}
	for _, l := range p.Snap.Locks {
		if !sees(p.id, l.Name) {
			continue
		}
		b.Any = true
		if b.matches(l) {
			b.Rows = append(b.Rows, newRow(l))
		}
	}
	b.sort()
	b.cut(q)
	for word, to := range map[string]*string{"": &b.SortName, "waiting": &b.SortWait, "holder": &b.SortHeld, "oldest": &b.SortAge} {
		*to = with(q, "sort", word, "page", "")
	}
	return b
}

// matches reports whether a lock was searched for.
func (b *locksBody) matches(l *lockView) bool {
	if b.Kind != "" && l.Kind.Word() != b.Kind || b.State == "waiting" && len(l.Waiters) == 0 || b.State == "held" && len(l.Holders) == 0 {
		return false
	}
	if b.Query == "" {
		return true
	}
	q := strings.ToLower(b.Query)
	return strings.Contains(strings.ToLower(l.Name), q) ||
		slices.ContainsFunc(l.Holders, func(c claimView) bool { return strings.Contains(strings.ToLower(c.Holder), q) })
}

// sort sorts the rows. They are in order of their names.
func (b *locksBody) sort() {
	never := time.Now().Add(time.Hour)
	or := func(t time.Time) time.Time {
		if t.IsZero() {
			return never
		}
		return t
	}
	slices.SortStableFunc(b.Rows, func(x, y rowView) int {
		switch b.Sort {
		case "waiting":
			return cmp.Or(cmp.Compare(y.Waiters, x.Waiters), or(x.Waits).Compare(or(y.Waits)))
		case "oldest":
			return or(x.Since).Compare(or(y.Since))
		case "holder":
			return cmp.Compare(x.By, y.By)
		}
		return 0
	})
}

// cut keeps the rows of one page.
func (b *locksBody) cut(q url.Values) {
	b.Found = len(b.Rows)
	n, _ := strconv.Atoi(q.Get("page"))
	n = max(0, min(n, (b.Found-1)/pageRows))
	b.From, b.To = n*pageRows, min((n+1)*pageRows, b.Found)
	b.Rows = b.Rows[b.From:b.To]
	if n > 0 {
		b.Prev = with(q, "page", strconv.Itoa(n-1))
	}
	if b.To < b.Found {
		b.Next = with(q, "page", strconv.Itoa(n+1))
	}
}

// with returns the address of the same page with other parameters, as name and value in turns.
func with(q url.Values, pairs ...string) string {
	out := url.Values{}
	for k, v := range q {
		if k != "live" {
			out[k] = v
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if out.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			out.Del(pairs[i])
		}
	}
	return "?" + out.Encode()
}

// free returns the part of a limit that is not taken, and whether the key has a limit.
func (l *lockView) free() (used, limit int64) {
	for _, h := range l.Holders {
		used += h.Weight
		limit = max(limit, h.Limit)
	}
	if limit == driver.Whole {
		limit = 0
	}
	return used, limit
}
