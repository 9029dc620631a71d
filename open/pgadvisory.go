package open

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/pgadvisory"
)

func openPostgresAdvisory(ctx context.Context, text string) (*Source, error) {
	s, err := pgadvisory.Open(ctx, text)
	switch {
	case errors.Is(err, pgadvisory.ErrURL), errors.Is(err, pgadvisory.ErrPooler):
		return nil, fmt.Errorf("%w: %w", ErrURL, err) // a pooler too: a later attempt does not help
	case err != nil && ctx.Err() == nil && !errors.Is(err, driver.ErrUnavailable):
		return nil, &unfencedError{err}
	case err != nil:
		return nil, err
	}
	return &Source{Store: s, Findings: postgresTransport(text), closes: []func(){func() { _ = s.Close() }}}, nil
}

// An unfencedError means that a server answers, but cannot provide fencing tokens.
type unfencedError struct{ error }

func (e *unfencedError) Unwrap() error { return e.error }

// Finding returns the same error for people who inspect the store.
func (e *unfencedError) Finding() driver.Finding {
	const cure = "run distlock migrate"
	what, rest, ok := strings.Cut(strings.TrimPrefix(e.Error(), "pgadvisory: "), ": "+cure)
	if !ok {
		rest = " as a role that may: see docs/pgadvisory.md"
	}
	return driver.Finding{Level: driver.LevelDanger, What: what, Means: "nothing can be claimed", Cure: cure + rest}
}

// migrateAdvisory creates the sequence of fences if it does not exist: opening the store does that.
func migrateAdvisory(ctx context.Context, text string) (from, to string, err error) {
	s, err := Open(ctx, text)
	if err != nil {
		return "", "", err
	}
	defer s.Close()
	if made, ok := s.Store.(interface{ Created() bool }); ok && made.Created() {
		return "", "1", nil
	}
	return "1", "1", nil
}
