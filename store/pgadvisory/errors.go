package pgadvisory

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/driver"
)

// errClosed is what a closed store answers.
var errClosed = fmt.Errorf("%w: the store is closed", driver.ErrUnavailable)

// A lostError says that a connection ended while a statement was under way. If the server said that it ends it (57P01 to
// 57P05: shut down, killed, idle for too long), its locks are free: nothing was changed. Otherwise nobody knows.
type lostError struct{ err error }

func (e *lostError) Error() string { return "pgadvisory: the connection is lost: " + e.err.Error() }

func (e *lostError) Unwrap() error { return e.err }

// Is makes it ErrUnavailable if the server ended the connection.
func (e *lostError) Is(target error) bool {
	var told *pgconn.PgError
	return target == driver.ErrUnavailable && errors.As(e.err, &told) && strings.HasPrefix(told.Code, "57P0")
}

// unavailable wraps an error after which nothing was changed.
func unavailable(err error) error {
	if errors.Is(err, driver.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}
