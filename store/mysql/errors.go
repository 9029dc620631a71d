package mysql

import (
	"context"
	"errors"
	"fmt"

	client "github.com/go-sql-driver/mysql"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

var (
	errClosed = fmt.Errorf("%w: the store is closed", driver.ErrUnavailable)
)

// harmless lists the errors of the server after which nothing was changed: the server refused the
// connection or the statement, or rolled the transaction back. The procedures roll back after every
// error. An error that can also come with or after the commit is not in the list, for example that
// of a killed connection.
var harmless = map[uint16]bool{
	1021: true, 1114: true, // the disk or the table is full
	1037: true, 1038: true, 1041: true, // out of memory
	1040: true, 1203: true, 1226: true, // too many connections
	lockWait: true, deadlock: true,
	1290: true, 1792: true, 1836: true, // read-only
	1568:     true,                         // within a transaction
	noRights: true, 1045: true, 1698: true, // the user is refused
	noDatabase: true, 1142: true, 1143: true, 1227: true, 1370: true, 1410: true, // missing permissions
	noTable: true, noProcedure: true, 1054: true, 1064: true, 1318: true, // other tables or procedures
	1665: true, // the binary log has statements only, which READ COMMITTED does not allow
}

// Numbers of errors of the server.
const (
	noRights    = 1044
	noDatabase  = 1049
	noTable     = 1146
	noProcedure = 1305
	lockWait    = 1205
	deadlock    = 1213
	signaled    = 1644 // a procedure refused its arguments
)

// code returns the number of an error of the server, or 0.
func code(err error) uint16 {
	var e *client.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// definite classifies an error of a statement as the driver contract demands. A connection that was
// lost during the statement leaves the outcome unknown.
func definite(err error) error {
	n := code(err)
	switch {
	case err == nil, errors.Is(err, driver.ErrUnavailable), errors.Is(err, sqlrow.ErrAnswer):
		return err
	case n == signaled:
		return fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	case harmless[n]:
		return sqlrow.Unavailable(err)
	}
	return fmt.Errorf("mysql: %w", err)
}

// connecting classifies an error of connecting: nothing was sent.
func connecting(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return sqlrow.Unavailable(fmt.Errorf("mysql: %w", err))
}
