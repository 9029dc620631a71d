package pgadvisory

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// A verb is the name of a prepared statement. All but the last take the number of the lock and the milliseconds after which the
// server ends the idle connection, or NULL to leave those as they are. The first column is the answer, the
// second the process of the server.
type verb string

const (
	tryExclusive  verb = "distlock_try"
	tryShared     verb = "distlock_try_shared"
	joinShared    verb = "distlock_join_shared"
	waitExclusive verb = "distlock_wait"
	waitShared    verb = "distlock_wait_shared"
	lower         verb = "distlock_lower"
	freeExclusive verb = "distlock_free"
	freeShared    verb = "distlock_free_shared"
	beat          verb = "distlock_beat"
	look          verb = "distlock_look"
)

// statements are the texts of the verbs. next is what gives a fence.
//
// CASE keeps the order: no fence is taken before the lock is, and none for a refusal.
func statements(next string) map[verb]string {
	grant := func(take string) string {
		return "select case when " + take + " then " + next + " end, " + rest
	}
	return map[verb]string{
		tryExclusive:  grant("pg_try_advisory_lock($1)"),
		tryShared:     grant("pg_try_advisory_lock_shared($1)"),
		joinShared:    grant("not exists (select from pg_locks where " + onKey + " and not granted) and pg_try_advisory_lock_shared($1)"),
		waitExclusive: grant("pg_advisory_lock($1) is not null"),
		waitShared:    grant("pg_advisory_lock_shared($1) is not null"),
		// Nobody else holds the lock, so that it is given at once. The form that does not wait would refuse it for the
		// sake of those in line.
		lower:         "select case when pg_advisory_lock_shared($1) is not null then pg_advisory_unlock($1)::int::bigint end, " + rest,
		freeExclusive: "select pg_advisory_unlock($1)::int::bigint, " + rest,
		freeShared:    "select pg_advisory_unlock_shared($1)::int::bigint, " + rest,
		beat:          "select $1::bigint, " + rest,
		look: `select l.pid::bigint, (l.mode = 'ExclusiveLock')::int::bigint, l.granted::int::bigint,
			coalesce((1000 * extract(epoch from clock_timestamp() - l.waitstart))::bigint, 0), coalesce(a.application_name, '')
			from pg_locks l left join pg_stat_activity a on a.pid = l.pid
			where ` + onKey + ` order by l.granted desc, l.waitstart, l.pid`,
	}
}

const (
	rest = "pg_backend_pid()::bigint, case when $2::text is not null then set_config('idle_session_timeout', $2, false) end"

	// onKey picks the rows of pg_locks for a number of 64 bits.
	onKey = `locktype = 'advisory' and objsubid = 1 and classid::bigint = ($1::bigint >> 32 & 4294967295) and objid::bigint = ($1::bigint & 4294967295)
		and database = (select oid from pg_database where datname = current_database())`
)

// sequence is the name of what fences come from, without its schema.
const sequence = "advisory_fence"

// qualified is the sequence's name for SQL.
func qualified(schema string) string { return pgx.Identifier{schema, sequence}.Sanitize() }

// nextFence is the expression for a new fence. The sequence ends before a fence would reach driver.MaxFence.
func nextFence(schema string) string {
	return "nextval('" + strings.ReplaceAll(qualified(schema), "'", "''") + "') << 7"
}

// arguments are what most verbs take.
func arguments(number int64, timeout time.Duration) [][]byte {
	key := binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(number))
	if timeout == 0 {
		return [][]byte{key, nil}
	}
	return [][]byte{key, strconv.AppendInt(nil, timeout.Milliseconds(), 10)}
}

// number reads a column that is a bigint in binary form; false: it is NULL.
func number(column []byte) (int64, bool) {
	if len(column) != 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(column)), true
}
