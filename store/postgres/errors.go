package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/pgwire"
	"github.com/distlock/distlock/internal/sqlrow"
)

var (
	// errLost reports that a statement was sent and no answer arrived. Its outcome is unknown.
	errLost = errors.New("postgres: the connection was lost before the answer")

	// errUnsent reports that the connection had ended before a statement was sent.
	errUnsent = errors.New("postgres: the connection has ended")

	// errBusy reports that another transaction has the key, and that nothing was changed.
	errBusy = errors.New("postgres: busy")

	errClosed = fmt.Errorf("%w: the store is closed", driver.ErrUnavailable)
)

// definite classifies an error as the driver contract demands. answered reports whether the server
// had sent the answer before the error. Then its transaction may have been committed.
//
// An error raised by the server rolled the transaction back, so nothing was changed. That holds for
// read-only (25006), disk full (53100), too many connections (53300), shutdown (57P01 to 57P03),
// lock timeout (55P03), deadlock (40P01), a cancelled statement (57014), a missing table (42P01)
// and missing permissions (42501). Only an error that ends the connection after the answer leaves
// the outcome of the commit unknown.
func definite(err error, answered bool) error {
	if err == nil || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, errBusy) {
		return err
	}
	var pg *pgconn.PgError
	var connecting *pgconn.ConnectError
	switch {
	case errors.Is(err, errLost):
		return err
	case errors.Is(err, errUnsent), errors.As(err, &connecting), pgconn.SafeToRetry(err):
		return sqlrow.Unavailable(err)
	case errors.As(err, &pg):
		if answered && pgwire.Fatal(pg) {
			return fmt.Errorf("postgres: the connection ended before the commit was confirmed: %w",
				err)
		}
		return sqlrow.Unavailable(withHint(pg))
	}
	return fmt.Errorf("postgres: %w", err)
}

// withHint adds the hint of a server error, which is written for people.
func withHint(pg *pgconn.PgError) error {
	if pg.Hint == "" {
		return pg
	}
	return fmt.Errorf("%w: %s", pg, strings.TrimSuffix(pg.Hint, "."))
}

// outdated lists the SQLSTATEs after which the prepared statements of a connection are useless. The
// next connection prepares them again.
var outdated = map[string]bool{
	"0A000": true, // cached plan must not change result type: a function was replaced
	"26000": true, // the statement does not exist: a pooler has switched to another backend
	"42883": true, // the function does not exist: it was replaced by one with other arguments
}

// closing lists the SQLSTATEs with which the server closes a connection, mostly an idle one. The
// server did not execute a call that was sent at that time, unless it answered before.
var closing = map[string]bool{
	"57P01": true, // admin_shutdown: pg_terminate_backend, or a restart
	"57P05": true, // idle_session_timeout
}

// lockTimeout is the SQLSTATE of a lock timeout.
const lockTimeout = "55P03"

// code returns the SQLSTATE of an error, or "" if it has none.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
