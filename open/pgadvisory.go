package open

import (
	"context"
	"errors"
	"fmt"

	"github.com/distlock/distlock/store/pgadvisory"
)

func openPostgresAdvisory(ctx context.Context, text string) (*Source, error) {
	s, err := pgadvisory.Open(ctx, text)
	if err != nil {
		if errors.Is(err, pgadvisory.ErrURL) || errors.Is(err, pgadvisory.ErrPooler) {
			err = fmt.Errorf("%w: %w", ErrURL, err) // a pooler too: to wait does not help
		}
		return nil, err
	}
	return &Source{Store: s, Findings: wayToPostgres(text), closes: []func(){func() { _ = s.Close() }}}, nil
}

// migrateAdvisory creates the sequence of fences, which opening the store does, if it is not there.
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
