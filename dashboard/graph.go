package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/internal/deadlock"
	"github.com/distlock/distlock/internal/names"
)

const (
	maxGraphLocks = 30  // locks in the picture
	maxGraphEach  = 5   // holders, and waiters, of each of them
	maxGraphRows  = 200 // rows of the table

	recentDeadlock = time.Minute // how long a deadlock stays in the picture
)

// A graphBody is the page of who waits for whom.
type graphBody struct {
	Deadlocks  []deadlockView
	Rows       []waitRow
	HiddenRows int
	Picture    string // JSON: nodes and edges
	Cut        bool   // the picture has a part of the locks
	Empty      bool
}

// A waitRow is a row of the table: a caller that waits.
type waitRow struct {
	Who      string
	Lock     ref
	Position int // in the queue; 0: it waits in its own process
	Since    time.Time
	By       string // the holder
	Holds    []ref  // what it holds meanwhile
	Bad      bool   // it is part of a deadlock
}

// A deadlockView is a deadlock for people.
type deadlockView struct {
	At      time.Time
	Now     bool   // it was there a moment ago
	Times   int    // how often the same callers had it
	Often   string // that in words: "23 times in 8 min 3 s"; "" for once
	Summary string
	Tasks   []taskView
	keys    []string
}

// A taskView is a caller in a deadlock.
type taskView struct {
	Holder string
	Holds  []ref
	Waits  ref
	For    time.Duration
}

// deadlocks returns the deadlocks whose names an identity sees, the newest first.
func (d *Dashboard) deadlocks(p *page) (out []deadlockView) {
	for _, one := range d.found.all() {
		v := deadlockView{At: one.At, Times: one.Times, keys: one.keys()}
		hidden := func(key string) bool {
			_, name, ok := names.Split(key)
			return !ok || !sees(p.id, name)
		}
		if slices.ContainsFunc(v.keys, hidden) {
			continue
		}
		v.Now = p.Now.Sub(one.At) < scanEvery+time.Second ||
			slices.ContainsFunc(p.Snap.cycles, func(c *deadlock.Cycle) bool { return slices.Contains(one.prints, c.Fingerprint()) })
		var parts []string
		for _, t := range one.Tasks {
			tv := taskView{Holder: holder(t.Waits.Holder), Waits: newRef(t.Waits.Key), For: t.Waits.Held}
			var held []string
			for _, c := range t.Holds {
				r := newRef(c.Key)
				tv.Holds = append(tv.Holds, r)
				held = append(held, text(r.Name))
			}
			v.Tasks = append(v.Tasks, tv)
			parts = append(parts, fmt.Sprintf("%s holds %s and waits for %s", tv.Holder, strings.Join(held, ", "), text(tv.Waits.Name)))
		}
		slices.Sort(parts) // each sighting begins with another task
		if v.Summary = strings.Join(parts, "; "); v.Times > 1 {
			v.Often = number(v.Times) + " times in " + span(one.At.Sub(one.First))
		}
		slices.SortFunc(v.Tasks, func(a, b taskView) int { return cmp.Compare(a.Holder, b.Holder) })
		out = append(out, v)
	}
	return out
}

// A node and an edge of the picture. The script draws them.
type (
	node struct {
		ID   string `json:"id"`
		Text string `json:"text"`
		Sub  string `json:"sub,omitempty"`
		Lock bool   `json:"lock,omitempty"`
		Path string `json:"path,omitempty"`
		Bad  bool   `json:"bad,omitempty"`
	}
	edge struct {
		From  string `json:"from"`
		To    string `json:"to"`
		Waits bool   `json:"waits,omitempty"`
		Bad   bool   `json:"bad,omitempty"`
	}
)

// A picture collects nodes and edges.
type picture struct {
	Nodes []*node `json:"nodes"`
	Edges []*edge `json:"edges"`
	byID  map[string]*node
	known map[[2]string]*edge
}

func (g *picture) node(n node) *node {
	if old := g.byID[n.ID]; old != nil {
		old.Bad = old.Bad || n.Bad
		return old
	}
	g.byID[n.ID] = &n
	g.Nodes = append(g.Nodes, &n)
	return &n
}

func (g *picture) edge(e edge) {
	if old := g.known[[2]string{e.From, e.To}]; old != nil {
		old.Bad = old.Bad || e.Bad
		return
	}
	g.known[[2]string{e.From, e.To}] = &e
	g.Edges = append(g.Edges, &e)
}

func (g *picture) lock(root, key string, bad bool) string {
	r := newRef(key)
	sub := ""
	if r.Kind != names.Lock {
		sub = nouns[r.Kind]
	}
	g.node(node{ID: "lock " + key, Text: text(r.Name), Sub: sub, Lock: true, Path: root + r.Path, Bad: bad})
	return "lock " + key
}

// graph returns the body of the page of who waits for whom.
func (d *Dashboard) graph(p *page) any {
	p.Title = "Who waits for whom"
	p.Snap = d.scanner.snapshot(p.r.Context(), scope{})
	b := &graphBody{Deadlocks: d.deadlocks(p)}
	g := &picture{byID: map[string]*node{}, known: map[[2]string]*edge{}}
	notices := d.visibleNotices(p)
	bad := map[string]bool{} // keys in deadlocks of this moment
	for _, v := range b.Deadlocks {
		if v.Now {
			for _, k := range v.keys {
				bad[k] = true
			}
		}
	}
	d.drawDeadlocks(p, g, b.Deadlocks)
	for _, n := range notices {
		task := "task " + n.Task
		g.node(node{ID: task, Text: holder(n.Holder)})
		g.edge(edge{From: g.lock(p.Root, n.Key, false), To: task})
		g.edge(edge{From: task, To: g.lock(p.Root, n.Wants, false), Waits: true})
	}
	var waited []*lockView
	for _, l := range p.Snap.Locks {
		if len(l.Waiters) > 0 && sees(p.id, l.Name) {
			waited = append(waited, l)
		}
	}
	slices.SortStableFunc(waited, func(a, b *lockView) int { return cmp.Compare(len(b.Waiters), len(a.Waiters)) })
	for i, l := range waited {
		if i < maxGraphLocks {
			drawLock(g, p.Root, l, notices)
		} else {
			b.Cut = true
		}
		b.addRows(l, notices, bad)
	}
	text, _ := json.Marshal(g) // texts and flags have a JSON form
	b.Picture, b.Empty = string(text), len(g.Nodes) == 0
	return b
}

// visibleNotices returns the notices whose names an identity sees.
func (d *Dashboard) visibleNotices(p *page) (out []deadlock.Notice) {
	for _, n := range p.Snap.notices {
		_, held, ok := names.Split(n.Key)
		_, wants, also := names.Split(n.Wants)
		if ok && also && sees(p.id, held) && sees(p.id, wants) {
			out = append(out, n)
		}
	}
	return out
}

// drawDeadlocks draws the deadlocks of the last minute. They end soon, and a picture that shows
// them for a second helps nobody.
func (d *Dashboard) drawDeadlocks(p *page, g *picture, all []deadlockView) {
	for i, v := range all {
		if p.Now.Sub(v.At) > recentDeadlock || i > 0 {
			break
		}
		for n, t := range v.Tasks {
			id := fmt.Sprintf("deadlock %d %d", i, n)
			g.node(node{ID: id, Text: t.Holder, Bad: true})
			for _, h := range t.Holds {
				g.edge(edge{From: g.lock(p.Root, h.Kind.Key(h.Name), true), To: id, Bad: true})
			}
			g.edge(edge{From: id, To: g.lock(p.Root, t.Waits.Kind.Key(t.Waits.Name), true), Waits: true, Bad: true})
		}
	}
}

// drawLock draws a lock with its holders and waiters. Those with a notice are drawn already.
func drawLock(g *picture, root string, l *lockView, notices []deadlock.Notice) {
	id := g.lock(root, l.Key, false)
	group := func(list []claimView, noticed func(claimView) bool, waits bool, more string) {
		n := 0
		for _, c := range list {
			if noticed(c) {
				continue
			}
			if n++; n > maxGraphEach {
				continue
			}
			who := more + " " + l.Key + " " + c.Owner
			g.node(node{ID: who, Text: holder(c.Holder)})
			g.link(id, who, waits)
		}
		if n > maxGraphEach {
			who := more + " " + l.Key
			g.node(node{ID: who, Text: fmt.Sprintf("%s more", number(n-maxGraphEach))})
			g.link(id, who, waits)
		}
	}
	group(l.Holders, func(c claimView) bool {
		return slices.ContainsFunc(notices, func(n deadlock.Notice) bool { return n.Key == l.Key && n.Tag == c.Owner })
	}, false, "holder")
	group(l.Waiters, func(c claimView) bool {
		return slices.ContainsFunc(notices, func(n deadlock.Notice) bool { return n.Wants == l.Key && n.Entry == c.Owner })
	}, true, "waiter")
}

// link draws a holder or a waiter of a lock.
func (g *picture) link(lock, who string, waits bool) {
	if waits {
		g.edge(edge{From: who, To: lock, Waits: true})
	} else {
		g.edge(edge{From: lock, To: who})
	}
}

// addRows adds the waiters of a lock to the table.
func (b *graphBody) addRows(l *lockView, notices []deadlock.Notice, bad map[string]bool) {
	by := newRow(l).By
	for i, w := range l.Waiters {
		if len(b.Rows) == maxGraphRows {
			b.HiddenRows += len(l.Waiters) - i
			return
		}
		row := waitRow{Who: holder(w.Holder), Lock: newRef(l.Key), Position: i + 1, Since: w.Since, By: by}
		for _, n := range notices {
			if n.Wants == l.Key && n.Entry == w.Owner {
				row.Holds = append(row.Holds, newRef(n.Key))
				row.Bad = row.Bad || bad[n.Key] && bad[l.Key]
			}
		}
		b.Rows = append(b.Rows, row)
	}
}
