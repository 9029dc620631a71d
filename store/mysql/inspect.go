package mysql

import (
	"context"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

// inspectSQL reads the state of the server. A variable that another server lacks is not named: SHOW
// returns those that exist.
const inspectSQL = "SELECT VERSION(), (SELECT value FROM distlock_meta WHERE name = 'identity')," +
	" (SELECT CONCAT(m.value, '.', p.value) FROM distlock_meta m, distlock_meta p WHERE m.name = 'version' AND p.name = 'procedures')," +
	" (SELECT TIMESTAMPDIFF(MICROSECOND, value, UTC_TIMESTAMP(6)) FROM distlock_meta WHERE name = 'born')," +
	" TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))," +
	" (SELECT GROUP_CONCAT(DISTINCT ENGINE) FROM information_schema.TABLES" +
	" WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE 'distlock\\_%')"

const variablesSQL = "SHOW VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin'," +
	" 'binlog_format', 'read_only', 'wsrep_on', 'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled'," +
	" 'innodb_deadlock_detect', 'server_id', 'hostname', 'port', 'pid_file')"

// Inspect reports the state of the server.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	before := time.Now()
	rows, err := s.query(ctx, s.claims, inspectSQL)
	if err != nil {
		return driver.Info{}, err
	}
	after := time.Now()
	if len(rows) != 1 {
		return driver.Info{}, sqlrow.ErrAnswer
	}
	row := reader{sqlrow.Reader{Cells: rows[0]}}
	version, identity, tables := row.Text(), row.Text(), row.Text()
	age, clock, engine := row.Span(), row.Span(), row.Text()
	if row.Err != nil {
		return driver.Info{}, row.Err
	}
	settings, err := s.query(ctx, s.claims, variablesSQL)
	if err != nil {
		return driver.Info{}, err
	}
	is := map[string]string{}
	for _, v := range settings {
		is[string(v[0])] = string(v[1])
	}
	info := driver.Info{Identity: "mysql:" + identity, Age: max(age, 1), Version: product(version)}
	info.Findings = []driver.Finding{
		tested(version), writable(is["read_only"]), durability(is["innodb_flush_log_at_trx_commit"]),
		failover(is), galera(is["wsrep_on"]), engines(engine),
		{Level: driver.LevelOK, What: "the tables have version " + tables},
		isolation(is), sqlrow.Clocks(clock, before, after),
		{Level: driver.LevelOK, What: "one query looks up all waiters of a process, every 5 to 20 ms"},
	}
	return info, nil
}

// product returns the name and version of the server.
func product(version string) string {
	if number, _, ok := strings.Cut(version, "-MariaDB"); ok {
		return "MariaDB " + strings.TrimPrefix(number, "5.5.5-")
	}
	return "MySQL " + version
}

func tested(version string) driver.Finding {
	if strings.Contains(version, "MariaDB") {
		return driver.Finding{Level: driver.LevelOK, What: "the server is MariaDB, on which this store is tested"}
	}
	return driver.Finding{
		Level: driver.LevelWarning, What: "the server is " + product(version) + ", on which this store was never tested",
		Means: "locks may not work as documented, and each call takes longer", Cure: "use MariaDB 10.6 or later",
	}
}

func writable(readOnly string) driver.Finding {
	if readOnly == "OFF" || readOnly == "0" {
		return driver.Finding{Level: driver.LevelOK, What: "this server accepts writes"}
	}
	return driver.Finding{
		Level: driver.LevelDanger, What: "this server is read-only (read_only is " + readOnly + ")",
		Means: "nothing can be claimed here", Cure: "name the primary",
	}
}

// durability reports the effect of a crash on claims.
func durability(flush string) driver.Finding {
	if flush == "1" || flush == "3" {
		return driver.Finding{Level: driver.LevelOK, What: "every claim is on disk before it is answered"}
	}
	return driver.Finding{
		Level: driver.LevelWarning, What: "commits are answered before they are on disk (innodb_flush_log_at_trx_commit is " + flush + ")",
		Means: "a power failure loses the claims of the last second, and others may be granted; the clock keeps fences rising",
		Cure:  "set innodb_flush_log_at_trx_commit = 1",
	}
}

// failover reports the effect of losing the primary on claims.
func failover(is map[string]string) driver.Finding {
	switch {
	case is["log_bin"] != "ON":
		return driver.Finding{Level: driver.LevelOK, What: "the binary log is off: there is no replica that a failover could go to"}
	case is["rpl_semi_sync_master_enabled"] == "ON", is["rpl_semi_sync_source_enabled"] == "ON":
		return driver.Finding{
			Level: driver.LevelWarning, What: "replication is semi-synchronous",
			Means: "after a timeout the server does not wait for a replica; a failover then may lose the last claims",
			Cure:  "let protected resources check the fence",
		}
	}
	return driver.Finding{
		Level: driver.LevelWarning, What: "the binary log is on, and replicas receive claims after the grant",
		Means: "a failover may lose the last claims, and others may be granted; fences rise unless the new primary's clock is behind",
		Cure:  "do not fail over automatically, or let protected resources check the fence",
	}
}

func galera(on string) driver.Finding {
	if on != "ON" && on != "1" {
		return driver.Finding{Level: driver.LevelOK, What: "this is no node of a Galera cluster"}
	}
	return driver.Finding{
		Level: driver.LevelWarning, What: "this is a node of a Galera cluster (wsrep_on)",
		Means: "two nodes may both grant a claim, and one of the two commits fails late; waiters at other nodes see grants late",
		Cure:  "send all calls to one node",
	}
}

func engines(found string) driver.Finding {
	if found == "InnoDB" {
		return driver.Finding{Level: driver.LevelOK, What: "the tables are in InnoDB"}
	}
	return driver.Finding{
		Level: driver.LevelDanger, What: "the tables are in " + found,
		Means: "nothing excludes two holders: the engine has no transactions", Cure: "alter table ... engine = InnoDB, for each table",
	}
}

// isolation reports settings without which transactions fail.
func isolation(is map[string]string) driver.Finding {
	switch {
	case is["log_bin"] == "ON" && is["binlog_format"] == "STATEMENT":
		return driver.Finding{
			Level: driver.LevelDanger, What: "the binary log has statements only (binlog_format is STATEMENT)",
			Means: "contended claims fail: READ COMMITTED needs rows in the log", Cure: "set binlog_format = MIXED or ROW",
		}
	case is["innodb_deadlock_detect"] == "OFF":
		return driver.Finding{
			Level: driver.LevelWarning, What: "the server does not detect deadlocks (innodb_deadlock_detect is OFF)",
			Means: "calls that meet in a deadlock take a second before they are attempted again", Cure: "set innodb_deadlock_detect = ON",
		}
	}
	return driver.Finding{Level: driver.LevelOK, What: "transactions are READ COMMITTED"}
}
