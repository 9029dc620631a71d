package distlock

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// An Observer is called for each event, for logs, metrics and traces. The goroutine that causes the
// event calls it, with no lock held. It should return soon, and must not call the [Locker]. If it
// panics during a call, the panic continues in the caller, and the call leaves nothing: its lock is
// released, or expires.
//
// The context is that of the call that the event belongs to. For an event that a lease has by
// itself it is the Origin of the event, and for attempts on behalf of all waiters an empty one.
type Observer func(ctx context.Context, e Event)

// An Event is one thing that happened. Fields without a meaning for its type are zero.
type Event struct {
	Type   EventType
	Store  string // Features.Name of the store
	Kind   Kind
	Name   string // of the lock. It belongs on spans and in logs, never on a metric
	Mode   Mode
	Holder string
	Fence  uint64

	Took   time.Duration // how long it took: see the types
	Wait   time.Duration // Granted, Refused: the part of Took that came after Waiting
	Left   time.Duration // how much trust was left
	Margin time.Duration // Renewed: how long before the end of its trust; 0: it failed, or the lease was provisional
	Behind int           // how many wait in the store behind the lease; above 16, at least so many
	Handed bool          // Granted: by another goroutine of this process, without the store
	Waited bool          // Granted, Refused: a Waiting came before
	Thin   bool          // Renewed: so late that there was hardly time for another attempt
	Risk   bool          // Renewed, Lost: the renewal before had failed
	Err    error

	// Origin is the context of the call that acquired the lock, without its end: it has the trace
	// that the lease belongs to, also if another goroutine unlocks it.
	Origin context.Context
}

// EventType is the type of an event. More may be added.
type EventType string

// The types of events. Every call for a lock ends in one EventGranted or one EventRefused; every
// EventGranted is followed by one EventReleased, EventHandedOff, EventDetached or EventLost.
const (
	EventAttempted EventType = "attempted"  // the store answered one Acquire: Took, Err
	EventWaiting   EventType = "waiting"    // a call begins to wait
	EventGranted   EventType = "granted"    // a call got its lease: Took since the call, Wait, Waited, Handed, Left, Behind
	EventRefused   EventType = "refused"    // a call ended without a lease: Took since the call, Wait, Waited, Err
	EventRenewed   EventType = "renewed"    // the store answered one renewal: Took, Left before it, Margin, Thin, Risk, Behind, Err
	EventAtRisk    EventType = "at_risk"    // a renewal failed for the first time: Left, Err
	EventRecovered EventType = "recovered"  // a renewal succeeded after AtRisk: Left before it
	EventLost      EventType = "lost"       // the lease was lost: Took since the grant, Risk, Err
	EventReleased  EventType = "released"   // the store answered the release: Took since the grant, Err
	EventHandedOff EventType = "handed_off" // the lease went to the next in this process: Took since the grant
	EventDetached  EventType = "detached"   // Detach was called: Took since the grant
	EventWithdrawn EventType = "withdrawn"  // a queue entry, or an unseen grant, was removed: Err
)

// Mode is how a lease excludes others. More may be added.
type Mode string

// The modes.
const (
	ModeExclusive Mode = "exclusive" // nobody else
	ModeShared    Mode = "shared"    // no exclusive lease
	ModeCounted   Mode = "counted"   // up to a limit
)

func (m Mode) valid() bool { return m == ModeExclusive || m == ModeShared || m == ModeCounted }

func both(a, b Observer) Observer {
	return func(ctx context.Context, e Event) {
		a(ctx, e)
		b(ctx, e)
	}
}

// Log returns an observer that writes to a logger; nil is the default logger of slog. It warns of a
// loss, of a release that failed, of a lease at risk, of a deadlock, and of a late renewal: one
// with less trust left than a quarter of the TTL, which is the time of one more attempt. So the
// next slow answer may be a loss. Everything else has the level Debug. Names are written, owners
// never are.
//
// The context of each event goes to the handler of the logger: a handler that reads the trace from
// it does so for losses too, see [Event].Origin.
func Log(logger *slog.Logger) Observer {
	if logger == nil {
		logger = slog.Default()
	}
	return func(ctx context.Context, e Event) {
		level, what := slog.LevelDebug, string(e.Type)
		switch {
		case e.Type == EventLost, e.Type == EventAtRisk, e.Type == EventReleased && e.Err != nil:
			level = slog.LevelWarn
		case errors.Is(e.Err, ErrDeadlock): // a mistake in the program, not a busy lock
			level = slog.LevelWarn
		case e.Thin:
			level, what = slog.LevelWarn, what+" late"
		}
		if !logger.Enabled(ctx, level) {
			return
		}
		attrs := []slog.Attr{slog.String("name", e.Name), slog.String("kind", string(e.Kind)), slog.String("mode", string(e.Mode)), slog.String("store", e.Store)}
		if e.Fence > 0 {
			attrs = append(attrs, slog.Uint64("fence", e.Fence))
		}
		if e.Took > 0 {
			attrs = append(attrs, slog.Duration("took", e.Took))
		}
		if e.Wait > 0 {
			attrs = append(attrs, slog.Duration("wait", e.Wait))
		}
		if e.Left > 0 {
			attrs = append(attrs, slog.Duration("left", e.Left))
		}
		if e.Behind > 0 {
			attrs = append(attrs, slog.Int("behind", e.Behind))
		}
		if e.Handed {
			attrs = append(attrs, slog.Bool("handed", true))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.String("error", e.Err.Error()))
		}
		logger.LogAttrs(ctx, level, "distlock: "+what, attrs...)
	}
}
