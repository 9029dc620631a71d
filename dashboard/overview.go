package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/server/access"
)

const (
	maxContended = 8  // names on the overview
	maxShown     = 12 // events on the overview
	maxAttention = 6
)

// An overviewBody is the first page.
type overviewBody struct {
	Names, Held, Waiting int
	Longest              *rowView // the lock with the longest wait
	LongestSince         time.Time
	Rate                 string // grants each second in the last minute
	Minute, Total        counts
	Mean                 time.Duration // of a call of the store, in the last minute
	Attention            []attention
	Contended            []rowView
	Events               []eventView
	Span                 string // "1h" or "24h"
	Chart                string // JSON
	Summary              string // the chart in words
	Health               health
	Recorded             bool
}

// An attention is something that somebody should look at.
type attention struct {
	Bad   bool // a person has to act; otherwise it is good to know
	Text  string
	Path  string // of the page that says more
	Since time.Time
}

// overview returns the body of the first page.
func (d *Dashboard) overview(p *page) any {
	p.Title = "Overview"
	p.Snap = d.scanner.snapshot(p.r.Context(), scope{})
	b := &overviewBody{Span: "1h", Recorded: d.recorder != nil}
	var rows []rowView
	for _, l := range p.Snap.Locks {
		if !sees(p.id, l.Name) {
			continue
		}
		r := newRow(l)
		b.Names++
		b.Held += len(l.Holders)
		if l.Kind == names.Election || len(l.Waiters) == 0 {
			continue // candidates wait for as long as there is a leader
		}
		b.Waiting += len(l.Waiters)
		rows = append(rows, r)
		if b.Longest == nil || r.Waits.Before(b.LongestSince) {
			b.Longest, b.LongestSince = &r, r.Waits
		}
	}
	slices.SortStableFunc(rows, func(a, b rowView) int {
		return cmp.Or(cmp.Compare(b.Waiters, a.Waiters), a.Waits.Compare(b.Waits))
	})
	b.Contended = rows[:min(len(rows), maxContended)]
	b.Health = d.health(p)
	b.Attention = d.attention(p, rows, b.Health)
	if d.recorder == nil {
		return b
	}
	if p.query.Get("span") == "24h" {
		b.Span = "24h"
	}
	b.Events = d.events(p.id, maxShown, func(Event) bool { return true })
	d.recorder.mu.Lock()
	defer d.recorder.mu.Unlock()
	var span time.Duration
	b.Minute, span = d.recorder.hour.sum(p.Now, 6)
	b.Rate = rate(float64(b.Minute.Grants) / span.Seconds())
	b.Total = d.recorder.total
	if b.Minute.Calls > 0 {
		b.Mean = b.Minute.CallSum / time.Duration(b.Minute.Calls)
	}
	b.Chart, b.Summary = d.chart(b.Span, p.Now)
	return b
}

func rate(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 0.1:
		return "under 0.1"
	case f < 10:
		return fmt.Sprintf("%.1f", f)
	}
	return number(int(f))
}

// chart returns the series of a span as JSON, and in words. The numbers are about all names: they
// reveal none.
func (d *Dashboard) chart(span string, now time.Time) (text, words string) {
	s := &d.recorder.hour
	if span == "24h" {
		s = &d.recorder.day
	}
	from, points := s.points(now)
	var out struct {
		From    int64     `json:"from"`
		Step    float64   `json:"step"`
		Grants  []float64 `json:"grants"`
		Waits   []float64 `json:"waits"`
		Lost    []int     `json:"lost"`
		Longest []float64 `json:"longest"`
	}
	out.From, out.Step = from.Unix(), s.step.Seconds()
	var all counts
	for i, c := range points {
		seconds := s.step.Seconds()
		if i == len(points)-1 {
			seconds = s.seconds(now)
		}
		out.Grants = append(out.Grants, round(float64(c.Grants)/seconds))
		out.Waits = append(out.Waits, round(float64(c.Waits)/seconds))
		out.Longest = append(out.Longest, round(c.WaitMax.Seconds()))
		out.Lost = append(out.Lost, c.Lost+c.Broken)
		all.Grants += c.Grants
		all.Waits += c.Waits
		all.Lost += c.Lost
		all.WaitMax = max(all.WaitMax, c.WaitMax)
	}
	b, _ := json.Marshal(out) // numbers have a JSON form
	return string(b), fmt.Sprintf("%s, %s waited, the longest for %s; leases that ran out or were found lost: %s.",
		count(all.Grants, "grant"), number(all.Waits), span0(all.WaitMax), number(all.Lost))
}

func span0(d time.Duration) string {
	if d == 0 {
		return "0 s"
	}
	return span(d)
}

func round(f float64) float64 { return float64(int(f*100+0.5)) / 100 }

// attention returns what somebody should look at: deadlocks, leases that end while others wait, and
// a store that fails.
func (d *Dashboard) attention(p *page, waiting []rowView, h health) (out []attention) {
	if err := p.Snap.Err; err != nil {
		out = append(out, attention{Bad: true, Text: "The store could not be read: the page shows what was seen before. " + text(err.Error())})
	}
	for _, c := range d.deadlocks(p) {
		if c.Now || p.Now.Sub(c.At) < 10*time.Minute {
			word := "Deadlock"
			if !c.Now {
				word = "A deadlock has ended, because one of its calls failed"
			}
			if c.Often != "" {
				word += " (" + c.Often + ")"
			}
			out = append(out, attention{Bad: c.Now, Text: word + ": " + c.Summary, Path: "graph", Since: c.At})
		}
		if len(out) >= maxAttention/2 {
			break
		}
	}
	for _, r := range waiting {
		if r.Late && len(out) < maxAttention {
			out = append(out, attention{
				Bad: true, Path: r.Path,
				Text: fmt.Sprintf("%s is held by %s, who does not renew it, while %s.", text(r.Name), r.By, waitersWait(r.Waiters)),
			})
		}
	}
	for _, f := range h.Findings {
		if f.Level >= driver.LevelWarning && len(out) < maxAttention {
			out = append(out, attention{Bad: f.Level == driver.LevelDanger, Text: "Store: " + text(f.What) + ": " + text(f.Means)})
		}
	}
	slices.SortStableFunc(out, func(a, b attention) int { return cmp.Compare(badness(b), badness(a)) })
	return out
}

func badness(a attention) int {
	if a.Bad {
		return 1
	}
	return 0
}

func waitersWait(n int) string {
	if n == 1 {
		return "1 caller waits"
	}
	return number(n) + " callers wait"
}

// health is the condition of the store.
type health struct {
	Version  string
	Findings []driver.Finding
	Took     time.Duration // of the look at it
	Err      error
}

// Words returns the condition of a store that answers: "answers; 1 warning".
func (h health) Words() string {
	out := "answers"
	for _, level := range []driver.Level{driver.LevelDanger, driver.LevelWarning} {
		n := 0
		for _, f := range h.Findings {
			if f.Level == level {
				n++
			}
		}
		if n > 0 {
			out += "; " + count(n, level.String())
		}
	}
	if out == "answers" {
		out += "; no warnings"
	}
	return out
}

// Quiet reports whether there is no warning.
func (h health) Quiet() bool {
	return !slices.ContainsFunc(h.Findings, func(f driver.Finding) bool { return f.Level >= driver.LevelWarning })
}

// An inspection remembers the health, so that open pages do not inspect the store.
type inspection struct {
	mu   sync.Mutex
	at   time.Time
	last health
}

// inspectEvery is how old the health may be. Findings are about the configuration of the store.
const inspectEvery = 30 * time.Second

// health returns the condition of the store, for those who may observe all names.
func (d *Dashboard) health(p *page) health {
	if !p.id.MayAll(access.Observe) {
		return health{}
	}
	d.inspect.mu.Lock()
	defer d.inspect.mu.Unlock()
	if !d.inspect.at.IsZero() && time.Since(d.inspect.at) < inspectEvery {
		return d.inspect.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.r.Context()), scanLimit)
	defer cancel()
	began := time.Now()
	info, err := driver.Inspect(ctx, d.store)
	d.inspect.at = time.Now()
	d.inspect.last = health{Version: info.Version, Findings: info.Findings, Took: time.Since(began), Err: err}
	return d.inspect.last
}

// An eventView is an event for people.
type eventView struct {
	Event
	Kind names.Kind
	Name string
	Path string
	Text string // what happened
}

// events returns the latest events of the names that an identity sees.
func (d *Dashboard) events(id *access.Identity, n int, keep func(Event) bool) (out []eventView) {
	if d.recorder == nil {
		return nil
	}
	for _, e := range d.recorder.Events(n, func(e Event) bool {
		_, name, ok := names.Split(e.Key)
		return ok && sees(id, name) && keep(e)
	}) {
		v := eventView{Event: e}
		v.Kind, v.Name, _ = names.Split(e.Key)
		v.Path = lockPath(v.Kind, v.Name)
		v.Text = e.words()
		out = append(out, v)
	}
	return out
}

// words says what happened, after the name of the holder.
func (e Event) words() string {
	after := ""
	if e.For >= time.Second {
		after = " after " + span(e.For)
	}
	switch e.Type {
	case EventGranted:
		if after != "" {
			return "got it" + after + " of waiting"
		}
		return "got it"
	case EventWaits:
		return "waits"
	case EventRefused:
		return "did not get it, and did not wait"
	case EventReleased:
		return "released it" + after
	case EventLost:
		return "lost it" + after
	case EventExpired:
		return "did not renew it, and its lease ran out" + after
	case EventBroken:
		return "lost it to a break" + after
	}
	return string(e.Type)
}
