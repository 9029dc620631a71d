package pgadvisory

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

// Inspect reports the state of the server. The age is the time since the server's start, because a
// restart frees all locks.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	pg, err := pgconn.ConnectConfig(ctx, s.config)
	if err != nil {
		return driver.Info{}, sqlrow.Unavailable(err)
	}
	defer hangUp(ctx, pg)
	rows, err := query(ctx, pg, `select system_identifier, (select oid from pg_database where datname = current_database()),
		current_setting('server_version'), (1000 * extract(epoch from clock_timestamp() - pg_postmaster_start_time()))::bigint,
		(select count(*) from pg_stat_replication),
		(select count(*) from pg_roles where rolcanlogin and not rolsuper and rolname <> current_user and has_database_privilege(oid, current_database(), 'connect'))
		from pg_control_system()`)
	if err != nil {
		return driver.Info{}, sqlrow.Unavailable(err)
	}
	r := rows[0]
	age, _ := strconv.ParseInt(r[3], 10, 64)
	info := driver.Info{
		Identity: "pgadvisory:" + r[0] + "/" + r[1], Version: "PostgreSQL " + r[2],
		Age: max(time.Duration(age)*time.Millisecond, 1),
	}
	info.Findings = append(info.Findings,
		driver.Finding{Level: driver.LevelOK, What: "connections are kept apart, and the server ends those that are idle for longer than the TTL"},
		s.fences(), otherRoles(r[5]), standbys(r[4]))
	return info, nil
}

func (s *Store) fences() driver.Finding {
	if s.opt.Unfenced {
		return driver.Finding{
			Level: driver.LevelWarning, What: "claims have no fences (Unfenced)",
			Means: "a stopped holder cannot be distinguished from the next one",
			Cure:  "run pgadvisory.Migration, and leave Unfenced out",
		}
	}
	return driver.Finding{
		Level: driver.LevelOK, What: "fences come from the sequence " + qualified(s.opt.Schema),
	}
}

func otherRoles(roles string) driver.Finding {
	if roles == "0" {
		return driver.Finding{Level: driver.LevelOK, What: "no other role may connect to the database"}
	}
	return driver.Finding{
		Level: driver.LevelWarning, What: "other roles may connect to the database: " + roles,
		Means: "advisory locks have no permissions: each of these roles can acquire any lock and block others",
		Cure:  "revoke connect on the database from roles that you do not trust, or use the lease table",
	}
}

func standbys(n string) driver.Finding {
	if n == "0" {
		return driver.Finding{Level: driver.LevelOK,
			What: "there is no standby that this role can see: no failover can lose locks"}
	}
	return driver.Finding{
		Level: driver.LevelWarning, What: n + " standbys, which have no locks",
		Means: "a failover frees every lock at once, and one to a standby that is behind may repeat a fence",
		Cure:  "let protected resources check the fence, and have a synchronous standby",
	}
}
