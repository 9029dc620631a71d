package distlock

import (
	"context"
	"log/slog"
)

// Log returns an observer that writes to a logger, or to slog's default one if it is nil: a loss and a
// release that failed as warnings, a lease at risk too; everything else for debugging. Names
// are written, owners never are.
func Log(logger *slog.Logger) Observer {
	if logger == nil {
		logger = slog.Default()
	}
	return func(ctx context.Context, e Event) {
		level := slog.LevelDebug
		switch {
		case e.Kind == Lost, e.Kind == AtRisk, e.Kind == Released && e.Err != nil:
			level = slog.LevelWarn
		}
		if !logger.Enabled(ctx, level) {
			return
		}
		attrs := []slog.Attr{slog.String("key", e.Key), slog.String("mode", string(e.Mode)), slog.String("store", e.Store)}
		if e.Fence > 0 {
			attrs = append(attrs, slog.Uint64("fence", e.Fence))
		}
		if e.Took > 0 {
			attrs = append(attrs, slog.Duration("took", e.Took))
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
		logger.LogAttrs(ctx, level, "distlock: "+string(e.Kind), attrs...)
	}
}
