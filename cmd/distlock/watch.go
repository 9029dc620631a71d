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
	// leastInterval keeps a typo in --interval from listing without a pause.
	leastInterval = 50 * time.Millisecond

	// hintsPerInterval bounds how many names are refreshed between two lists because of a
	// notification.
	hintsPerInterval = 20

	// mostHints bounds the number of names whose releases the store notifies of. The next list
	// shows the changes of all other names.
	mostHints = 64
)

// The events that watch prints.
const (
	eventHeld     = "held"     // the claim existed when the watch began
	eventWaiting  = "waiting"  // the queue entry existed when the watch began
	eventGranted  = "granted"  // a claim was granted
	eventQueued   = "queued"   // a waiter entered the queue
	eventChanged  = "changed"  // the value, the weight or the fencing token of a claim changed
	eventReleased = "released" // a claim ended before its TTL: it was released or broken
	eventEnded    = "ended"    // a claim ended, and may have expired
	eventLeft     = "left"     // a waiter left the queue, or its entry expired
	eventAway     = "away"     // the store does not answer
	eventBack     = "back"     // the store answers again
)

// An event is one line of the output of watch.
type event struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	Error string    `json:"error,omitempty"` // only for eventAway
	*claimJSON
}

// A watcher lists claims repeatedly and emits the changes.
type watcher struct {
	locker   *distlock.Locker
	store    driver.Store
	prefix   string
	interval time.Duration
	emit     func(event) error

	known map[claimID]observation
	away  bool

	hints   chan string                   // names of which a claim has ended
	watched map[string]context.CancelFunc // the names whose releases the store notifies of
	wg      sync.WaitGroup                // for the goroutines that forward hints
}

// A claimID identifies a claim.
type claimID struct {
	kind       distlock.Kind
	key, owner string
}

// An observation is a claim and the time at which it was seen.
type observation struct {
	distlock.Claim
	at time.Time
}

func (a *app) watch() *cobra.Command {
	var asJSON bool
	var interval time.Duration
	c := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Show locks as they are acquired, waited for and released",
		Long: `Show the holders and waiters, and then every change, until watch is interrupted. watch lists the
store once an interval; between two lists the store notifies it of releases, if it can. If a list
takes long, watch lists less often. A lock that is acquired and released within an interval may not
be seen.

If the store becomes unreachable, watch reports that and goes on.`,
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
			return usage("the store is in the memory of this command: it has no locks of other processes")
		}
		ctx, stop := interruptible(c.Context())
		defer stop()
		w := &watcher{locker: l, store: a.source.Store, interval: interval, emit: a.emitText}
		if asJSON {
			out := json.NewEncoder(a.out)
			w.emit = func(e event) error {
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

// run watches until ctx ends or the output cannot be written. It returns the error of the first
// list: after a wrong password the watch does not go on as it does for a store that does not
// answer.
func (w *watcher) run(ctx context.Context) error {
	w.known, w.watched = map[claimID]observation{}, map[string]context.CancelFunc{}
	w.hints = make(chan string, mostHints)
	defer w.wg.Wait()
	ctx, cancel := context.WithCancel(ctx) // ends the goroutines that forward hints
	defer cancel()
	seen, err := w.list(ctx)
	if err != nil {
		return err
	}
	for _, c := range seen {
		w.known[idOf(c.Claim)] = c
		if err := w.emitClaim(initialEvent(c.Claim), c.Claim); err != nil {
			return err
		}
	}
	again := time.NewTimer(w.interval)
	defer again.Stop()
	pause := time.NewTimer(0) // until the next hint may be handled
	defer pause.Stop()
	var hints chan string
	for {
		w.updateWatches(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pause.C:
			hints = w.hints
		case name := <-hints:
			hints = nil
			pause.Reset(w.interval / hintsPerInterval)
			err = w.refreshName(ctx, name)
		case <-again.C:
			began := time.Now()
			err = w.refreshAll(ctx)
			again.Reset(w.pause(time.Since(began)))
		}
		if err != nil {
			return err
		}
	}
}

// pause returns the time between a list that took this long and the next one. A rate limit may have
// tens of thousands of claims, and their lists must not keep the store busy.
func (w *watcher) pause(took time.Duration) time.Duration { return max(w.interval, 9*took) }

// list returns all claims. With an error, there may be more.
func (w *watcher) list(ctx context.Context) (out []observation, err error) {
	ctx, cancel := context.WithTimeout(ctx, lsLimit)
	defer cancel()
	for c, err := range w.locker.List(ctx, distlock.KindAny, w.prefix) {
		if err != nil {
			return out, err
		}
		out = append(out, observation{c, time.Now()})
	}
	return out, nil
}

// refreshAll lists the claims and emits the changes.
func (w *watcher) refreshAll(ctx context.Context) error {
	seen, err := w.list(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := w.availability(err); err != nil {
		return err
	}
	// After an error, a claim may exist but not be listed.
	complete := func(claimID) bool { return err == nil }
	return w.compare(seen, complete)
}

// refreshName emits the changes of one name. After an error, the next list shows them.
func (w *watcher) refreshName(ctx context.Context, name string) error {
	why, err := w.locker.Status(ctx, distlock.KindLock, name)
	if err != nil {
		return ctx.Err()
	}
	var seen []observation
	for _, c := range slices.Concat(why.Holders, why.Waiters) {
		seen = append(seen, observation{c, time.Now()})
	}
	return w.compare(seen, func(k claimID) bool { return k.kind == distlock.KindLock && k.key == name })
}

// availability emits an event if the store has stopped answering, or answers again.
func (w *watcher) availability(err error) error {
	switch {
	case err != nil && !w.away:
		w.away = true
		return w.emit(event{Time: time.Now(), Event: eventAway, Error: err.Error()})
	case err == nil && w.away:
		w.away = false
		return w.emit(event{Time: time.Now(), Event: eventBack})
	}
	return nil
}

// compare emits the differences between the observed claims and the known ones. complete reports
// whether a claim would have been observed if it existed; if so, and it was not, it has ended. The
// claims that have ended come first, because others were granted after them.
func (w *watcher) compare(seen []observation, complete func(claimID) bool) error {
	now := map[claimID]bool{}
	for _, s := range seen {
		now[idOf(s.Claim)] = true
	}
	oldestFirst := func(a, b claimID) int { return cmp.Compare(w.known[b].Held, w.known[a].Held) }
	for _, k := range slices.SortedFunc(maps.Keys(w.known), oldestFirst) {
		if now[k] || !complete(k) {
			continue
		}
		last := w.known[k]
		delete(w.known, k)
		passed := time.Since(last.at)
		c := last.Claim
		c.Held, c.Left = c.Held+passed, 0
		if err := w.emitClaim(endEvent(last.Claim, passed), c); err != nil {
			return err
		}
	}
	for _, s := range seen {
		k := idOf(s.Claim)
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
		if err := w.emitClaim(what, s.Claim); err != nil {
			return err
		}
	}
	return nil
}

// updateWatches subscribes to the releases of the names that are held, and of no others.
func (w *watcher) updateWatches(ctx context.Context) {
	held := map[string]bool{}
	for k, s := range w.known {
		if k.kind == distlock.KindLock && !s.Waiting {
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
		key, err := storeKey(distlock.KindLock, name)
		if err != nil || w.watched[name] != nil || len(w.watched) >= mostHints {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		w.watched[name] = stop
		wakes := driver.Watch(ctx, w.store, driver.ID{Key: key})
		if wakes == nil {
			continue // the store cannot watch now: there are no hints until the name is held again
		}
		w.wg.Go(func() { w.forwardHints(ctx, name, wakes) })
	}
}

// forwardHints sends the name to w.hints after every wake-up.
func (w *watcher) forwardHints(ctx context.Context, name string, wakes <-chan driver.Wake) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-wakes:
		}
		select {
		case w.hints <- name:
		default: // there are many hints: the next list shows the change
		}
	}
}

func (w *watcher) emitClaim(what string, c distlock.Claim) error {
	l := newClaimJSON(c)
	return w.emit(event{Time: time.Now(), Event: what, claimJSON: &l})
}

func idOf(c distlock.Claim) claimID { return claimID{c.Kind, c.Name, c.Owner} }

func initialEvent(c distlock.Claim) string {
	if c.Waiting {
		return eventWaiting
	}
	return eventHeld
}

// endEvent returns the event for a claim that has ended. The time has passed since the claim was
// seen.
func endEvent(c distlock.Claim, passed time.Duration) string {
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

// emitText prints an event for people: events of locks to standard output, events of the store to
// standard error.
func (a *app) emitText(e event) error {
	switch e.Event {
	case eventAway:
		a.say("the store does not answer, the watch goes on: %s", a.printable(e.Error))
		return nil
	case eventBack:
		a.say("the store answers again")
		return nil
	}
	return writeEvent(a.out, e)
}

func writeEvent(out io.Writer, e event) error {
	text := fmt.Sprintf("%s  %-8s  %-16s  %s, %s",
		e.Time.Format(time.TimeOnly), e.Event, clean(e.Name), clean(e.Holder), e.Mode)
	if e.Kind != distlock.KindLock {
		text += ", " + string(e.Kind)
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
