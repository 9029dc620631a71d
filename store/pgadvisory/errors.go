package pgadvisory

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/driver"
)

// errClosed is the error of a closed store.
var errClosed = fmt.Errorf("%w: the store is closed", driver.ErrUnavailable)

// A lostError reports that a connection ended during a statement. If the server announced the end
// (57P01 to 57P05: shut down, killed, idle for too long), its locks are free and nothing was
// changed. Otherwise the outcome is unknown.
type lostError struct{ err error }

func (e *lostError) Error() string { return "pgadvisory: the connection is lost: " + e.err.Error() }

func (e *lostError) Unwrap() error { return e.err }

// Is makes it match [driver.ErrUnavailable] if the server ended the connection.
func (e *lostError) Is(target error) bool {
	var pgErr *pgconn.PgError
	return target == driver.ErrUnavailable && errors.As(e.err, &pgErr) &&
		strings.HasPrefix(pgErr.Code, "57P0")
}
