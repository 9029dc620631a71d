package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

// Inspect reports the state of the server, and the permissions of this role.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	before := time.Now()
	rows, err := s.query(ctx, &s.st.inspect)
	if err != nil {
		return driver.Info{}, err
	}
	after := time.Now()
	if len(rows) != 1 {
		return driver.Info{}, sqlrow.ErrAnswer
	}
	row := reader{sqlrow.Reader{Cells: rows[0]}}
	server, tables, verbs := row.Text(), row.Number(), row.Number()
	identity, age := row.Text(), row.Span()
	standby, fsync, commit, syncs := row.yes(), row.Text(), row.Text(), row.Text()
	standbys, clock := row.Number(), row.Span()
	writes, isolation := row.yes(), row.Text()
	oldest, hidden := row.Text(), row.Number()
	if row.Err != nil {
		return driver.Info{}, row.Err
	}
	info := driver.Info{Identity: "postgres:" + identity + "/" + s.opt.Schema, Age: max(age, 1),
		Version: "PostgreSQL " + server}
	info.Findings = []driver.Finding{
		role(standby), durability(fsync, commit), failover(standbys, syncs, commit),
		{Level: driver.LevelOK, What: fmt.Sprintf("the schema %q has version %v", s.opt.Schema,
			version{int(tables), int(verbs)})},
		rights(writes), s.pooling(), level(isolation), sqlrow.Clocks(clock, before, after),
		snapshots(oldest, hidden),
	}
	return info, nil
}

const inspectSQL = `select current_setting('server_version'),
	(select value from @schema@.meta where name = 'version'),
	(select value from @schema@.meta where name = 'functions'),
	(select value from @schema@.meta where name = 'identity'),
	(select @schema@.microseconds(clock_timestamp() - value::timestamptz) from @schema@.meta where name = 'born'),
	pg_is_in_recovery(), current_setting('fsync'), current_setting('synchronous_commit'),
	current_setting('synchronous_standby_names'),
	(select count(*) from pg_stat_replication), @schema@.microseconds(clock_timestamp() - timestamptz 'epoch'),
	(select bool_and(has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
			and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete'))
		from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = @channel@ and c.relname in ('key', 'claim', 'queue', 'freed', 'observer')),
	current_setting('transaction_isolation'),
	(select o.took || ' ' || o.who from (
		select @schema@.microseconds(clock_timestamp() - a.xact_start) as took,
			concat_ws(', ', 'process ' || a.pid, nullif(a.application_name, ''), a.state) as who
		from pg_stat_activity a
		where a.backend_xmin is not null and a.datname = current_database()
			and a.pid <> pg_backend_pid() and a.backend_type <> 'autovacuum worker'
		union all
		select @schema@.microseconds(clock_timestamp() - p.prepared), 'prepared transaction ' || p.gid
		from pg_prepared_xacts p where p.database = current_database()
	) o order by o.took desc nulls last limit 1),
	(select count(*) from pg_stat_activity a
		where a.datname = current_database() and a.query = '<insufficient privilege>')`

func role(standby bool) driver.Finding {
	if !standby {
		return driver.Finding{Level: driver.LevelOK, What: "this is a primary"}
	}
	return driver.Finding{
		Level: driver.LevelDanger, What: "this is a standby, which is read-only",
		Means: "nothing can be claimed here", Cure: "name the primary, or all hosts: with several hosts, the store uses the one that accepts writes",
	}
}

// durability reports the effect of a crash on claims.
func durability(fsync, commit string) driver.Finding {
	switch {
	case fsync == "off":
		return driver.Finding{
			Level: driver.LevelDanger, What: "the server does not wait for its disk (fsync off)",
			Means: "a power failure may damage the database and loses claims", Cure: "set fsync = on",
		}
	case commit == "off":
		return driver.Finding{
			Level: driver.LevelWarning, What: "commits are answered before they are on disk (synchronous_commit off)",
			Means: "a crash of the server loses the claims of the last moments, and others may be granted; the clock keeps fences rising",
			Cure:  "set synchronous_commit = on for this role: alter role ... set synchronous_commit = on",
		}
	}
	return driver.Finding{Level: driver.LevelOK, What: "every claim is on disk before it is answered"}
}

// failover reports the effect of losing the primary on claims.
func failover(standbys int64, names, commit string) driver.Finding {
	switch {
	case names != "" && commit != "off" && commit != "local":
		return driver.Finding{Level: driver.LevelOK, What: "commits wait for a synchronous standby"}
	case standbys == 0:
		return driver.Finding{Level: driver.LevelOK,
			What: "no standby is connected that a failover could go to"}
	}
	return driver.Finding{
		Level: driver.LevelWarning, What: strconv.FormatInt(standbys, 10) +
			" standbys, which receive claims after the grant",
		Means: "a failover may lose the last claims, and others may be granted; fences rise unless the new primary's clock is behind",
		Cure:  "set synchronous_standby_names, or let protected resources check the fence",
	}
}

func rights(writes bool) driver.Finding {
	if writes {
		return driver.Finding{Level: driver.LevelOK, What: "this role may read and write the tables"}
	}
	return driver.Finding{
		Level: driver.LevelDanger, What: "this role may not write the tables",
		Means: "nothing can be claimed", Cure: "grant select, insert, update, delete on all tables of the schema: see docs/postgres.md",
	}
}

// pooling reports how waiters are notified.
func (s *Store) pooling() driver.Finding {
	known := s.ready.Load()
	switch {
	case s.opt.Polling:
		return driver.Finding{
			Level: driver.LevelWarning, What: "no connection listens for notifications (Options.Polling)",
			Means: "waiters poll, and notice a release up to a second late", Cure: "leave out Options.Polling",
		}
	case known != nil && known.pooled && s.opt.Listen == "":
		return driver.Finding{
			Level: driver.LevelWarning, What: "a pooler is in front of the server, and notifications do not pass through it",
			Means: "waiters poll, and notice a release up to a second late; locks are as safe as without it",
			Cure:  "set an address of the server itself for listening (lock_listen, in Go Options.Listen)",
		}
	}
	return driver.Finding{Level: driver.LevelOK, What: "waiters are notified with LISTEN and NOTIFY"}
}

// oldSnapshot is the age at which a snapshot is reported. Dead rows of one minute do not slow down
// a lock much.
const oldSnapshot = time.Minute

// snapshots reports a transaction that keeps vacuum from removing dead rows. oldest holds its age
// in microseconds and a description, and hidden is the number of sessions that this role may not
// see.
func snapshots(oldest string, hidden int64) driver.Finding {
	const means = "vacuum cannot remove the dead rows of locks: the longer that lasts, the longer each hold takes"
	age, who, _ := strings.Cut(oldest, " ")
	micros, _ := strconv.ParseInt(age, 10, 64)
	switch d := sqlrow.Span(micros); {
	case d >= oldSnapshot:
		return driver.Finding{
			Level: driver.LevelWarning, What: fmt.Sprintf("a snapshot has been open for %v (%.128s)",
				d.Round(time.Second), who),
			Means: means, Cure: "end that transaction; set idle_in_transaction_session_timeout; back up from a standby",
		}
	case hidden > 0:
		return driver.Finding{
			What:  fmt.Sprintf("the transactions of %d sessions could not be seen", hidden),
			Means: "if one of them is old, " + means, Cure: "grant pg_read_all_stats to this role",
		}
	}
	return driver.Finding{Level: driver.LevelOK, What: "no snapshot is older than a minute"}
}

func level(isolation string) driver.Finding {
	if isolation == "read committed" {
		return driver.Finding{Level: driver.LevelOK, What: "transactions are READ COMMITTED"}
	}
	return driver.Finding{
		Level: driver.LevelDanger, What: "transactions are " + strings.ToUpper(isolation) +
			" for this role or database",
		Means: "nothing can be claimed: such a transaction sees the past", Cure: "alter role ... set default_transaction_isolation = 'read committed'",
	}
}
