package sqlite

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/distlock/distlock/driver"
)

// code returns SQLite's primary result code of an error, or 0 if the error is not from SQLite.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// busy reports whether err means that another connection uses the file.
func busy(err error) bool {
	return code(err) == sqlite3.SQLITE_BUSY || code(err) == sqlite3.SQLITE_LOCKED
}

func full(err error) bool { return code(err) == sqlite3.SQLITE_FULL }

// broke reports whether the store should open a new connection.
func broke(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return true
	}
	return false
}

// isAnswer reports whether err is an answer of the contract.
func isAnswer(err error) bool {
	return errors.Is(err, driver.ErrNotHeld) || errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrUnavailable)
}

// definite marks an error before the commit as [driver.ErrUnavailable]: nothing was changed.
// Answers of the contract stay as they are.
func definite(err error) error {
	if isAnswer(err) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}
