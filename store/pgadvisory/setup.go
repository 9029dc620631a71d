package pgadvisory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/pgurl"
	"github.com/distlock/distlock/internal/protocol"
	"github.com/distlock/distlock/internal/sqlrow"
)

// Migration returns the SQL that creates the schema and the sequence of a store, for operators who
// run it by hand. It may run again. A role that uses the store needs USAGE on the schema and on the
// sequence. The empty schema is "distlock".
func Migration(schema string) string {
	schema = cmp.Or(schema, defaultSchema)
	return "create schema if not exists " + pgx.Identifier{schema}.Sanitize() + ";\n" +
		"create sequence if not exists " + qualified(schema) + " as bigint minvalue 1 maxvalue " +
		fmt.Sprint(int64(driver.MaxFence>>7-1)) + " cache 1 no cycle;\n"
}

const defaultSchema = "distlock"

// setUp checks the server once, before the first claim: no pooler mixes connections, and there are
// fences.
func (s *Store) setUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	var pair [2]*pgconn.PgConn
	for i := range pair {
		var pg *pgconn.PgConn
		err := pgurl.Connect(ctx, s.config, func(ctx context.Context) (err error) {
			pg, err = pgconn.ConnectConfig(ctx, s.config)
			return err
		})
		var other *protocol.Error
		switch {
		case errors.As(err, &other):
			return fmt.Errorf("%w: %w", ErrURL, other)
		case err != nil:
			return sqlrow.Unavailable(fmt.Errorf("pgadvisory: cannot connect: %w", err))
		}
		defer hangUp(ctx, pg)
		pair[i] = pg
	}
	if err := keptApart(ctx, pair[0], pair[1]); err != nil {
		return err
	}
	if s.opt.Unfenced {
		return nil
	}
	return s.migrate(ctx, pair[0])
}

// keptApart checks that two connections stay separate at the server. A pooler that lends server
// connections for one transaction at a time serves both with the same server process, or one of
// them with several. The order of the queries also finds poolers that alternate between their
// connections.
func keptApart(ctx context.Context, a, b *pgconn.PgConn) error {
	pids := map[*pgconn.PgConn]string{}
	for _, pg := range []*pgconn.PgConn{a, a, b, b, b, a, b, a, a, a, b} {
		rows, err := query(ctx, pg, "select pg_backend_pid()")
		if err != nil {
			return sqlrow.Unavailable(fmt.Errorf("pgadvisory: %w", err))
		}
		if was, ok := pids[pg]; ok && was != rows[0][0] {
			return ErrPooler
		}
		pids[pg] = rows[0][0]
	}
	if pids[a] == pids[b] {
		return ErrPooler
	}
	return nil
}

// migrate creates the sequence if it is missing, and checks that its numbers rise for all
// connections.
func (s *Store) migrate(ctx context.Context, pg *pgconn.PgConn) error {
	state, err := s.sequence(ctx, pg)
	if err == nil && state == "" {
		// One at a time: concurrent creation fails. The lock ends with the transaction.
		_, err = query(ctx, pg, fmt.Sprintf("begin; select pg_advisory_xact_lock(%d); %s commit",
			Key("distlock/migrate"), Migration(s.opt.Schema)))
		var refused *pgconn.PgError
		if errors.As(err, &refused) {
			_, _ = query(ctx, pg, "rollback")
			return s.noFences(refused.Message)
		}
		if err == nil {
			state, err = s.sequence(ctx, pg)
			s.created = err == nil
		}
	}
	switch {
	case err != nil:
		return sqlrow.Unavailable(fmt.Errorf("pgadvisory: %w", err))
	case state == "":
		return s.noFences("it is not there")
	case state == "private":
		return s.noFences("this role may not use it")
	case state != "fine":
		return s.noFences("it has CACHE, CYCLE or a negative INCREMENT")
	}
	return nil
}

// sequence returns the state of the sequence, or "" if it is missing.
func (s *Store) sequence(ctx context.Context, pg *pgconn.PgConn) (string, error) {
	rows, err := query(ctx, pg, `select case
		when s.seqcache > 1 or s.seqcycle or s.seqincrement < 1 then 'bad'
		when not (has_schema_privilege(n.oid, 'usage') and has_sequence_privilege(c.oid, 'usage, update')) then 'private'
		else 'fine' end
		from pg_namespace n join pg_class c on c.relnamespace = n.oid join pg_sequence s on s.seqrelid = c.oid
		where n.nspname = `+quoted(s.opt.Schema)+` and c.relname = `+quoted(sequence))
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0][0], nil
}

// noFences returns an error with the reason and the cure.
func (s *Store) noFences(why string) error {
	return fmt.Errorf("pgadvisory: fences need the sequence %s, and %s: run distlock migrate as a role that may (in Go: pgadvisory.Migration) and grant this one usage on the schema and the sequence, or do without fences: lock_unfenced=true (in Go: Unfenced)",
		qualified(s.opt.Schema), why)
}

// quoted returns a text as an SQL literal.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
