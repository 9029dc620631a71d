package distlock

import (
	"context"
	"errors"
	"log/slog"
)

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
