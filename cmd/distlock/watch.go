package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

const (
	// leastInterval keeps a typo from asking without a pause.
	leastInterval = 50 * time.Millisecond

	// hintsPerInterval bounds how often one name is looked at between two lists, because the store told of a release.
	hintsPerInterval = 20

	// mostHints bounds for how many names a store is asked to tell of releases. The others are seen with the next list.
	mostHints = 64
)

// What may happen to a claim, as watch sees it.
const (
	eventHeld     = "held"     // it was there when the watch began
	eventWaiting  = "waiting"  // the same, in line
	eventGranted  = "granted"  // it was taken
	eventQueued   = "queued"   // somebody began to wait
	eventChanged  = "changed"  // its value, weight or fence
	eventReleased = "released" // it ended before its time: given back, or broken
	eventEnded    = "ended"    // it ended, and may have run out
	eventLeft     = "left"     // a place in line was given up, or ran out
	eventAway     = "away"     // the store does not answer
	eventBack     = "back"     // it does again
)

// An event is what watch prints.
type event struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	Error string    `json:"error,omitempty"` // of away
	*line
}

// A watcher lists claims again and again, and tells what has changed.
type watcher struct {
	locker   *distlock.Locker
	store    driver.Store
	prefix   string
	interval time.Duration
	tell     func(event) error

	known map[who]sight
	away  bool

	hints   chan string                   // names of which a claim ended
	watched map[string]context.CancelFunc // for which the store tells that
	wg      sync.WaitGroup                // of those who pass hints on
}

// who tells claims apart.
type who struct{ kind, key, owner string }

// A sight is a claim, and when it was seen.
type sight struct {
	distlock.Claim
	at time.Time
}

func (a *app) watch() *cobra.Command {
	var asJSON bool
	var interval time.Duration
	c := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Show locks as they are taken, waited for and given back",
		Long: `Show what is held and waited for, and then what changes, until it is interrupted. The store is listed once an interval; between two
lists it tells of releases if it can. A list that takes long is made less often. What is taken and given back within an interval may not be seen.

If the store goes away, that is told, and the watch goes on.`,
		Example:           "  distlock watch deploy/\n  distlock watch --json --interval 5s",
		Args:              atMost("PREFIX"),
		ValidArgsFunction: a.completeNames,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	c.Flags().DurationVar(&interval, "interval", time.Second, "the pause between two lists")
	c.RunE = func(c *cobra.Command, args []string) error {
		l, err := a.locker(c)
		switch {
		case err != nil:
			return err
		case interval < leastInterval:
			return usage("--interval is %v, want %v or more", interval, leastInterval)
		case a.private():
			return usage("the store is in the memory of this command: nobody else's locks are there")
		}
		ctx, stop := interruptible(c.Context())
		defer stop()
		w := &watcher{locker: l, store: a.source.Store, interval: interval, tell: a.textTeller()}
		if asJSON {
			out := json.NewEncoder(a.out)
			w.tell = func(e event) error {
				e.Error = oneLine(a.redact(e.Error))
				return out.Encode(e)
			}
		}
		if len(args) > 0 {
			w.prefix = args[0]
		}
		err = w.run(ctx)
		var sig signalError
		if errors.As(context.Cause(ctx), &sig) {
			return &exitError{exitSignal + int(sig.sig), nil}
		}
		return unlisted(err)
	}
	return c
}

// run watches until ctx ends or nobody reads on. The first list must succeed: a wrong password is no store that went away.
func (w *watcher) run(ctx context.Context) error {
	w.known, w.watched, w.hints = map[who]sight{}, map[string]context.CancelFunc{}, make(chan string, mostHints)
	defer w.wg.Wait()
	ctx, cancel := context.WithCancel(ctx) // ends the hints
	defer cancel()
	seen, err := w.list(ctx)
	if err != nil {
		return err
	}
	for _, c := range seen {
		w.known[whoIs(c.Claim)] = c
		if err := w.say(begun(c.Claim), c.Claim); err != nil {
			return err
		}
	}
	again := time.NewTimer(w.interval)
	defer again.Stop()
	rest := time.NewTimer(0) // until the next hint may be heeded
	defer rest.Stop()
	var hints chan string
	for {
		w.listen(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-rest.C:
			hints = w.hints
		case name := <-hints:
			hints = nil
			rest.Reset(w.interval / hintsPerInterval)
			err = w.lookAt(ctx, name)
		case <-again.C:
			began := time.Now()
			err = w.lookAround(ctx)
			again.Reset(w.pause(time.Since(began)))
		}
		if err != nil {
			return err
		}
	}
}

// pause returns how long to wait after a list that took so long. A name may have tens of thousands
// of claims, as a rate limit has, and their lists must not keep the store busy.
func (w *watcher) pause(took time.Duration) time.Duration { return max(w.interval, 9*took) }

// list returns all claims, and an error if there may be more.
func (w *watcher) list(ctx context.Context) (out []sight, err error) {
	ctx, cancel := context.WithTimeout(ctx, lsLimit)
	defer cancel()
	for c, err := range w.locker.Claims(ctx, w.prefix) {
		if err != nil {
			return out, err
		}
		out = append(out, sight{c, time.Now()})
	}
	return out, nil
}

// lookAround lists the claims and tells what has changed.
func (w *watcher) lookAround(ctx context.Context) error {
	seen, err := w.list(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := w.weather(err); err != nil {
		return err
	}
	among := func(who) bool { return err == nil } // what was not listed may be there all the same
	return w.compare(seen, among)
}

// lookAt tells what has changed of one name. If it cannot be seen, the next list will tell.
func (w *watcher) lookAt(ctx context.Context, name string) error {
	why, err := w.locker.Why(ctx, name)
	if err != nil {
		return ctx.Err()
	}
	var seen []sight
	for _, c := range slices.Concat(why.Holders, why.Line) {
		seen = append(seen, sight{c, time.Now()})
	}
	return w.compare(seen, func(k who) bool { return k.kind == "" && k.key == name })
}

// weather tells that the store went away, or is back.
func (w *watcher) weather(err error) error {
	switch {
	case err != nil && !w.away:
		w.away = true
		return w.tell(event{Time: time.Now(), Event: eventAway, Error: err.Error()})
	case err == nil && w.away:
		w.away = false
		return w.tell(event{Time: time.Now(), Event: eventBack})
	}
	return nil
}

// compare tells in what the claims that are seen differ from those that are known. Of those among which all were
// seen, the missing ones have ended: they come first, since others were granted after them.
func (w *watcher) compare(seen []sight, among func(who) bool) error {
	now := map[who]bool{}
	for _, s := range seen {
		now[whoIs(s.Claim)] = true
	}
	gone := slices.SortedFunc(maps.Keys(w.known), func(a, b who) int { return cmp.Compare(w.known[b].Held, w.known[a].Held) })
	for _, k := range gone {
		if now[k] || !among(k) {
			continue
		}
		last := w.known[k]
		delete(w.known, k)
		passed := time.Since(last.at)
		c := last.Claim
		c.Held, c.Left = c.Held+passed, 0
		if err := w.say(over(last.Claim, passed), c); err != nil {
			return err
		}
	}
	for _, s := range seen {
		k := whoIs(s.Claim)
		last, had := w.known[k]
		w.known[k] = s
		what := ""
		switch {
		case s.Waiting && !had:
			what = eventQueued
		case !s.Waiting && (!had || last.Waiting):
			what = eventGranted
		case had && differ(last.Claim, s.Claim):
			what = eventChanged
		}
		if what == "" {
			continue
		}
		if err := w.say(what, s.Claim); err != nil {
			return err
		}
	}
	return nil
}

// listen has the store tell of releases of the names that are held, and of no others.
func (w *watcher) listen(ctx context.Context) {
	held := map[string]bool{}
	for k, s := range w.known {
		if k.kind == "" && !s.Waiting {
			held[k.key] = true
		}
	}
	for name, stop := range w.watched {
		if !held[name] {
			stop()
			delete(w.watched, name)
		}
	}
	for name := range held {
		key, err := storeKey("", name)
		if err != nil || w.watched[name] != nil || len(w.watched) >= mostHints {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		w.watched[name] = stop
		news := driver.Watch(ctx, w.store, driver.ID{Key: key})
		if news == nil {
			continue // it cannot, now: nothing is told until the name is taken anew
		}
		w.wg.Go(func() { w.pass(ctx, name, news) })
	}
}

// pass notes that a claim of a name ended, whenever the store tells so.
func (w *watcher) pass(ctx context.Context, name string, news <-chan driver.Wake) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-news:
		}
		select {
		case w.hints <- name:
		default: // so many are known that the next list will do
		}
	}
}

func (w *watcher) say(what string, c distlock.Claim) error {
	l := newLine(c)
	return w.tell(event{Time: time.Now(), Event: what, line: &l})
}

func whoIs(c distlock.Claim) who { return who{c.Kind, c.Name, c.Owner} }

func begun(c distlock.Claim) string {
	if c.Waiting {
		return eventWaiting
	}
	return eventHeld
}

// over is how a claim ended that is not there any more, so long after it was seen.
func over(c distlock.Claim, passed time.Duration) string {
	switch {
	case c.Waiting:
		return eventLeft
	case c.Left > passed:
		return eventReleased
	}
	return eventEnded
}

func differ(a, b distlock.Claim) bool {
	return a.Weight != b.Weight || a.Fence != b.Fence || a.Kept != b.Kept || string(a.Value) != string(b.Value)
}

// textTeller prints events for people: those of locks to standard output, those of the store to standard error.
func (a *app) textTeller() func(event) error {
	return func(e event) error {
		switch e.Event {
		case eventAway:
			a.say("the store does not answer, the watch goes on: %s", a.tidy(e.Error))
			return nil
		case eventBack:
			a.say("the store answers again")
			return nil
		}
		return writeEvent(a.out, e)
	}
}

func writeEvent(out io.Writer, e event) error {
	text := fmt.Sprintf("%s  %-8s  %-16s  %s, %s", e.Time.Format(time.TimeOnly), e.Event, clean(e.Name), clean(e.Holder), e.Mode)
	if e.Kind != "" {
		text += ", " + e.Kind
	}
	if e.Fence > 0 {
		text += ", fence " + fenceText(e.Fence)
	}
	if e.Event != eventGranted && e.Event != eventQueued {
		text += fmt.Sprintf(", for %v", short(time.Duration(e.Held*float64(time.Second))))
	}
	if e.Note != "" {
		text += ": " + clean(e.Note)
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
