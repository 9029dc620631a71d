package fence_test

import (
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/internal/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testenv.Main(m, testenv.Roles{"holder": holderRole}))
}

// A source says how to open a database.
type source struct{ driver, name string }

func (s source) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(s.driver, s.name)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(10) // the server has about a hundred for all tests
	t.Cleanup(func() { db.Close() })
	return db
}

// sqliteFile returns a new file. Transactions begin with a write lock, and wait for it.
func sqliteFile(t testing.TB) source {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(20000)", "journal_mode(wal)", "synchronous(normal)"}}
	s := source{"sqlite", "file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "data.db")) + "?" + q.Encode()}
	// The first connection sets up the file: others at the same time would get in its way.
	must(t, s.open(t).PingContext(t.Context()))
	return s
}

// postgresBase returns a new database of the shared server.
func postgresBase(t testing.TB) source {
	return source{"pgx", testenv.Postgres(t, testenv.Shared()).Database(t)}
}

// mariaBase returns a new database of the shared server.
func mariaBase(t testing.TB) source {
	t.Helper()
	c, err := testenv.MariaDBConfig(testenv.MariaDB(t, testenv.Shared()).Database(t))
	must(t, err)
	return source{"mysql", c.FormatDSN()}
}

// each runs a test on each database, in each style of placeholders that it takes.
func each(t *testing.T, f func(t *testing.T, s source, style fence.Placeholders)) {
	t.Run("sqlite", func(t *testing.T) { f(t, sqliteFile(t), fence.Dollar) })
	t.Run("sqlite with question marks", func(t *testing.T) { f(t, sqliteFile(t), fence.Question) })
	t.Run("postgres", func(t *testing.T) { f(t, postgresBase(t), fence.Dollar) })
	t.Run("mariadb", func(t *testing.T) { f(t, mariaBase(t), fence.MySQL) })
}

func proof(t testing.TB, key string, n uint64) fence.Proof {
	t.Helper()
	p, err := fence.New(key, n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	must(t, err)
}

// wantStale fails unless err says that fence is stale, and that current is the highest.
func wantStale(t testing.TB, err error, n, current uint64) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) {
		t.Fatalf("fence %d after %d: %v, want ErrStale", n, current, err)
	}
	if stale.Fence != n || stale.Current != current {
		t.Errorf("the error has fence %d and current %d, want %d and %d", stale.Fence, stale.Current, n, current)
	}
}
