package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mysql"
	"github.com/distlock/distlock/store/pgadvisory"
	"github.com/distlock/distlock/store/postgres"
)

// postgresModes returns the functions that open a store on PostgreSQL, by lock_mode. The default is
// table.
func postgresModes() map[string]func(ctx context.Context, text string) (*Source, error) {
	return map[string]func(context.Context, string) (*Source, error){
		"table": openPostgresTable, "advisory": openPostgresAdvisory,
	}
}

func openPostgres(ctx context.Context, text string) (*Source, error) {
	mode := postgresMode(text)
	opener, ok := postgresModes()[mode]
	if !ok {
		return nil, fmt.Errorf("%w: lock_mode is %.64q, want table or advisory", ErrURL, mode)
	}
	return opener(ctx, text)
}

// postgresMode returns the lock_mode of a URL.
func postgresMode(text string) string {
	_, query, _ := strings.Cut(text, "?")
	mode := "table"
	for part := range strings.SplitSeq(query, "&") {
		if value, ok := strings.CutPrefix(part, "lock_mode="); ok {
			mode = value
		}
	}
	return mode
}

func openPostgresTable(ctx context.Context, text string) (*Source, error) {
	s, err := postgres.Open(ctx, text)
	return sourceOf(text, s, err, postgres.ErrURL, postgresTransport)
}

// postgresTransport returns the findings about the connection that a URL for PostgreSQL shows. The
// environment variables of libpq replace missing parts of the URL.
func postgresTransport(text string) []driver.Finding {
	_, _, hosts, values := split(text)
	if strings.Trim(hosts, ":,0123456789") == "" { // at most ports
		hosts = ""
	}
	hosts = cmp.Or(values.Get("host"), hosts) // as pgx does
	if hosts == "" {
		hosts = os.Getenv("PGHOST")
		if service := cmp.Or(values.Get("service"), os.Getenv("PGSERVICE")); service != "" {
			hosts = "service " + service // the service file may name any host
		}
	}
	if onlySockets(hosts) {
		return []driver.Finding{{Level: driver.LevelOK, What: "traffic stays on this host (a socket)"}}
	}
	mode := cmp.Or(values.Get("sslmode"), os.Getenv("PGSSLMODE"))
	for key := range values {
		if strings.HasPrefix(key, "tls_") {
			mode = "verify-full"
		}
	}
	if values.Get("tls_skip_verify") == "true" {
		mode = "require"
	}
	switch {
	case mode == "verify-full" || mode == "verify-ca":
		return []driver.Finding{{
			Level: driver.LevelOK, What: "traffic is encrypted, and the server shows a certificate (sslmode " + mode + ")",
		}}
	case onThisHost(hosts):
		return []driver.Finding{{Level: driver.LevelOK, What: "traffic stays on this host"}}
	case mode == "require":
		return []driver.Finding{{
			Level: driver.LevelWarning, What: "the certificate of the server is not checked (sslmode require)",
			Means: "another server can pose as the store, learn the password and grant claims that are held",
			Cure:  "use sslmode=verify-full, and name the authority with tls_ca",
		}}
	}
	return []driver.Finding{{
		Level: driver.LevelWarning, What: "traffic may not be encrypted (sslmode below require)",
		Means: "others on the network can read the password and the owners of claims, and end the claims",
		Cure:  "use sslmode=verify-full",
	}}
}

// onlySockets reports whether a list of hosts has only folders of sockets. Without a host, clients
// use a socket.
func onlySockets(list string) bool {
	for host := range strings.SplitSeq(list, ",") {
		if host != "" && !strings.HasPrefix(host, "/") {
			return false
		}
	}
	return true
}

// Migrate creates the schema of the store of a URL, or updates it to the version of this program.
// It returns the old and the new version, such as 1.3; an empty version means that there was no
// schema. The number after the dot is the version of the functions, which change while the tables
// stay. If a store has no schema, the error is [errors.ErrUnsupported].
func Migrate(ctx context.Context, text string) (from, to string, err error) {
	if postgresMode(text) == "advisory" {
		return migrateAdvisory(ctx, text)
	}
	text = manual(text)
	s, err := Open(ctx, text)
	if err != nil {
		return "", "", err
	}
	defer s.Close()
	m, ok := s.Store.(interface {
		Migrate(ctx context.Context) (from, to string, err error)
	})
	if !ok {
		return "", "", fmt.Errorf("%s has no schema: %w", s.Store.Features().Name, errors.ErrUnsupported)
	}
	if from, to, err = m.Migrate(ctx); err != nil {
		err = redacted(err, text)
	}
	return from, to, err
}

// Migration returns the SQL that [Migrate] runs for a URL, for users who run it themselves. It may
// be run again.
func Migration(text string) (string, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	if isMySQL(scheme) {
		return mysql.Migration(), nil
	}
	if scheme != "postgres" && scheme != "postgresql" {
		return "", fmt.Errorf("%.32s has no schema: %w", scheme, errors.ErrUnsupported)
	}
	_, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", fmt.Errorf("%w: its query is malformed", ErrURL)
	}
	if postgresMode(text) == "advisory" {
		return pgadvisory.Migration(values.Get("lock_schema")), nil
	}
	return postgres.Migration(values.Get("lock_schema"))
}

// manual returns a URL whose store does not migrate its schema when it is opened.
func manual(text string) string {
	scheme, _, _ := strings.Cut(text, ":")
	if scheme != "postgres" && scheme != "postgresql" && !isMySQL(scheme) {
		return text
	}
	base, query, _ := strings.Cut(text, "?")
	kept := []string{"lock_migrate=false"}
	for part := range strings.SplitSeq(query, "&") {
		if part != "" && !strings.HasPrefix(part, "lock_migrate=") {
			kept = append(kept, part)
		}
	}
	return base + "?" + strings.Join(kept, "&")
}
