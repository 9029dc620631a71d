package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/driver"
)

var (
	// errAnswer is an answer that no version of the schema gives.
	errAnswer = errors.New("postgres: the server gave an answer that cannot be read")

	// errLost says that a statement was sent and no answer came: nobody knows what became of it.
	errLost = errors.New("postgres: the connection was lost before the answer")

	// errBusy says that another transaction has the key now, and that nothing was changed.
	errBusy = errors.New("postgres: busy")

	errClosed = fmt.Errorf("%w: the store is closed", driver.ErrUnavailable)
)

// unavailable is an error of something that was not begun.
func unavailable(err error) error {
	if errors.Is(err, driver.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

// definite makes of an error what the contract says of it. Answered says that the server had sent the answer before
// the error: then its transaction may have been committed.
//
// An error that the server raised itself undid the transaction: read-only (25006), disk full (53100), too many connections (53300),
// a shutdown (57P01 to 57P03), a lock that was waited for too long (55P03), a deadlock (40P01), a statement that was cancelled
// (57014), a table that is not there (42P01) and rights that are missing (42501) are all the same to locks: nothing was
// changed. Only one that ends the connection after the answer leaves open what became of the commit.
func definite(err error, answered bool) error {
	if err == nil || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, errBusy) {
		return err
	}
	var pg *pgconn.PgError
	var connecting *pgconn.ConnectError
	switch {
	case errors.Is(err, errLost):
		return err
	case errors.As(err, &connecting), pgconn.SafeToRetry(err):
		return unavailable(err)
	case errors.As(err, &pg):
		if answered && fatal(pg) {
			return fmt.Errorf("postgres: the connection ended before the commit was confirmed: %w", err)
		}
		return unavailable(told(pg))
	}
	return fmt.Errorf("postgres: %w", err)
}

// fatal reports whether the connection has ended with the error.
func fatal(pg *pgconn.PgError) bool {
	return pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC" || pg.Severity == "FATAL" || pg.Severity == "PANIC"
}

// told is an error of the server with what its author wrote for people.
func told(pg *pgconn.PgError) error {
	if pg.Hint == "" {
		return pg
	}
	return fmt.Errorf("%w: %s", pg, strings.TrimSuffix(pg.Hint, "."))
}

// outdated are the SQLSTATEs of a connection whose prepared statements are of no use any more. The
// next connection prepares them again.
var outdated = map[string]bool{
	"0A000": true, // cached plan must not change result type: a function was replaced
	"26000": true, // the statement does not exist: a pooler has given us another backend
	"42883": true, // the function does not exist: it was replaced by one with other arguments
}

// closing are the SQLSTATEs with which the server closes a connection, mostly one without a call.
// It did nothing of a call that was sent meanwhile, unless it answered before.
var closing = map[string]bool{
	"57P01": true, // admin_shutdown: pg_terminate_backend, or a restart
	"57P05": true, // idle_session_timeout
}

// lockTimeout is the SQLSTATE of a wait for a lock that took too long.
const lockTimeout = "55P03"

// code returns the SQLSTATE of an error; "" if it has none.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
