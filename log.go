package distlock

import (
	"context"
	"errors"
	"log/slog"
)

// Log returns an observer that writes to a logger, or to slog's default one if it is nil. Warnings are a loss, a release that
// failed, a lease at risk, a deadlock, and a renewal that came late: with less trust left than a quarter of the TTL, which is what one more
// try may take. So the next slow answer may be the loss. Everything else is for debugging. Names are written, owners never are.
//
// The context of each event goes to the logger's handler, with what it carries: a handler that reads the trace from it does so for
// losses too, see Event.Origin.
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
		attrs := []slog.Attr{slog.String("name", e.Name), slog.String("mode", string(e.Mode)), slog.String("store", e.Store)}
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
