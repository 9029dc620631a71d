//go:build unix

package open_test

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

// The keys tls_... have the same meaning for both stores on PostgreSQL as for other stores.
func TestOpen_postgres_tls(t *testing.T) {
	certs := forPostgres(t)
	srv := testenv.Postgres(t, testenv.Config("ssl = on", "ssl_cert_file = '"+certs.Cert+"'", "ssl_key_file = '"+certs.Key+"'"))
	base, _, _ := strings.Cut(srv.URL, "?")
	for _, mode := range []string{"table", "advisory"} {
		t.Run(mode, func(t *testing.T) {
			base := base + "?lock_mode=" + mode + "&"
			use(t, base+tlsKeys(certs))
			rows, err := srv.Query(t.Context(), "select count(*) > 0 from pg_stat_ssl join pg_stat_activity using (pid) where ssl and usename is not null")
			if err != nil || rows[0][0] != "t" {
				t.Error("no connection is encrypted:", rows, err)
			}
			use(t, base+"tls_server_name=localhost&"+tlsKeys(certs))
			use(t, base+"tls_skip_verify=true")
			for name, query := range map[string]string{
				"an unknown authority": "tls_skip_verify=false",
				"another name":         "tls_server_name=other.example&" + tlsKeys(certs),
			} {
				s, err := open.Open(t.Context(), base+query)
				if err == nil {
					_, err = s.Store.Acquire(t.Context(), driver.Request{
						ID: driver.ID{Key: "k", Owner: "o"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Second,
					})
					s.Close()
				}
				if err == nil || errors.Is(err, open.ErrURL) {
					t.Errorf("%s: %v", name, err)
				}
			}
			for query, want := range map[string]string{
				"tls_cert=" + certs.Cert: "go together", "tls_x=1": "tls_ca", "tls_skip_verify=1": "true or false", "tls_ca=a&sslmode=disable": "say the same",
			} {
				if _, err := open.Open(t.Context(), base+query); !errors.Is(err, open.ErrURL) || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want an ErrURL with %q", query, err, want)
				}
			}
		})
	}
}

// forPostgres creates certificates that the server may read: the server does not run as root, and
// requires that only its user can read the key.
func forPostgres(t *testing.T) *testenv.Certs {
	t.Helper()
	dir, err := os.MkdirTemp("", "distlock-certs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	certs, err := testenv.NewCerts(dir)
	if err != nil {
		t.Fatal(err)
	}
	u, err := user.Lookup("postgres")
	if os.Getuid() != 0 || err != nil {
		return certs // the server runs as this user, or is not installed
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	for _, path := range []string{dir, certs.CA, certs.Cert, certs.Key} {
		if err := os.Chown(path, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	return certs
}
