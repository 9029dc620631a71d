package sqlite

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/distlock/distlock/driver"
)

// code is SQLite's own number of an error, without its details; 0 if it is from elsewhere.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// busy reports whether others use the file.
func busy(err error) bool {
	return code(err) == sqlite3.SQLITE_BUSY || code(err) == sqlite3.SQLITE_LOCKED
}

func full(err error) bool { return code(err) == sqlite3.SQLITE_FULL }

// broke reports whether the connection should be made anew.
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

// definite makes of an error before the commit what the contract says of it: nothing was changed.
func definite(err error) error {
	if isAnswer(err) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}
