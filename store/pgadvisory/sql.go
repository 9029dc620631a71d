package pgadvisory

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// A verb is the name of a prepared statement. All but look take the number of the lock and the
// milliseconds after which the server ends the idle connection, or NULL to keep that setting. The
// first column is the answer, the second the process of the server.
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

// statements returns the SQL of the verbs. next is the expression for a fence.
//
// CASE keeps the order: the fence is read only after the lock was granted.
func statements(next string) map[verb]string {
	grant := func(take string) string {
		return "select case when " + take + " then " + next + " end, " + tail
	}
	return map[verb]string{
		tryExclusive: grant("pg_try_advisory_lock($1)"),
		tryShared:    grant("pg_try_advisory_lock_shared($1)"),
		joinShared: grant("not exists (select from pg_locks where " + onKey +
			" and not granted) and pg_try_advisory_lock_shared($1)"),
		waitExclusive: grant("pg_advisory_lock($1) is not null"),
		waitShared:    grant("pg_advisory_lock_shared($1) is not null"),
		// Nobody else holds the lock, so the server grants it at once. The form that does not wait
		// would refuse it in favour of the waiters.
		lower:         "select case when pg_advisory_lock_shared($1) is not null then pg_advisory_unlock($1)::int::bigint end, " + tail,
		freeExclusive: "select pg_advisory_unlock($1)::int::bigint, " + tail,
		freeShared:    "select pg_advisory_unlock_shared($1)::int::bigint, " + tail,
		beat:          "select $1::bigint, " + tail,
		look: `select l.pid::bigint, (l.mode = 'ExclusiveLock')::int::bigint, l.granted::int::bigint,
			coalesce((1000 * extract(epoch from clock_timestamp() - l.waitstart))::bigint, 0), coalesce(a.application_name, '')
			from pg_locks l left join pg_stat_activity a on a.pid = l.pid
			where ` + onKey + ` order by l.granted desc, l.waitstart, l.pid`,
	}
}

const (
	tail = "pg_backend_pid()::bigint, case when $2::text is not null then set_config('idle_session_timeout', $2, false) end"

	// onKey selects the rows of pg_locks for a 64-bit number.
	onKey = `locktype = 'advisory' and objsubid = 1 and classid::bigint = ($1::bigint >> 32 & 4294967295) and objid::bigint = ($1::bigint & 4294967295)
		and database = (select oid from pg_database where datname = current_database())`
)

// sequence is the name of the sequence of fences, without its schema.
const sequence = "advisory_fence"

// qualified returns the sequence's name for SQL.
func qualified(schema string) string { return pgx.Identifier{schema, sequence}.Sanitize() }

// nextFence returns the expression for a new fence. The sequence ends before a fence reaches
// [driver.MaxFence].
func nextFence(schema string) string {
	return "nextval('" + strings.ReplaceAll(qualified(schema), "'", "''") + "') << 7"
}

// formats are the formats of the arguments, and the first one is that of all columns: 1 is binary.
var formats = []int16{1, 0}

// arguments returns the arguments of most verbs.
func arguments(number int64, timeout time.Duration) [][]byte {
	key := binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(number))
	if timeout == 0 {
		return [][]byte{key, nil}
	}
	return [][]byte{key, strconv.AppendInt(nil, timeout.Milliseconds(), 10)}
}

// number reads a column of type bigint in binary form; false: it is NULL.
func number(column []byte) (int64, bool) {
	if len(column) != 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(column)), true
}
