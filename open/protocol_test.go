package open_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

// If a server speaks another protocol than the URL names, the error is ErrURL. Open returns it
// before the client gives up. The error has the address and the URL to try, and shows no password.
func TestOpen_otherProtocol(t *testing.T) {
	plain, secure, pg := testenv.Redis(t), testenv.Redis(t, testenv.TLS()), testenv.Postgres(t, testenv.Shared())
	maria := testenv.MariaDB(t, testenv.Shared()).Addr
	at, err := url.Parse(pg.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ url, want string }{
		"mysql on Redis":                 {"mysql://u:hunter22@" + plain.Addr + "/db", plain.Addr + " speaks Redis, not MySQL: try redis://" + plain.Addr},
		"mysql on Redis with TLS":        {"mysql://u:hunter22@" + secure.Addr + "/db", secure.Addr + " speaks TLS, not MySQL"},
		"mysql on PostgreSQL":            {"mysql://u:hunter22@" + at.Host + "/db", at.Host + " speaks PostgreSQL, not MySQL: try postgres://" + at.Host},
		"redis on MariaDB":               {"redis://:hunter22@" + maria, maria + " speaks MySQL, not Redis: try mysql://" + maria},
		"postgres on MariaDB":            {"postgres://u:hunter22@" + maria + "/db", maria + " speaks MySQL, not PostgreSQL: try mysql://" + maria},
		"redis on PostgreSQL":            {"redis://:hunter22@" + at.Host, at.Host + " speaks PostgreSQL, not Redis: try postgres://" + at.Host},
		"rediss on PostgreSQL":           {"rediss://:hunter22@" + at.Host, at.Host + " speaks PostgreSQL, not Redis over TLS: try postgres://" + at.Host},
		"a cluster on PostgreSQL":        {"redis+cluster://:hunter22@" + at.Host, at.Host + " speaks PostgreSQL, not Redis: try postgres://" + at.Host},
		"a node on PostgreSQL":           {"redlock://:hunter22@" + plain.Addr + "," + at.Host + "," + at.Host, "node 2, " + at.Host + ": "},
		"postgres on Redis":              {"postgres://u:hunter22@" + plain.Addr + "/db", plain.Addr + " speaks Redis, not PostgreSQL"},
		"advisory locks on Redis":        {"postgres://u:hunter22@" + plain.Addr + "/db?lock_mode=advisory", plain.Addr + " speaks Redis, not PostgreSQL"},
		"TLS on Redis without":           {"rediss://:hunter22@" + plain.Addr, plain.Addr + " speaks Redis without TLS: try redis:// in place of rediss://"},
		"Redis with TLS":                 {"redis://:hunter22@" + secure.Addr, secure.Addr + " speaks TLS: try rediss:// in place of redis://"},
		"postgres on Redis with TLS":     {"postgres://u:hunter22@" + secure.Addr + "/db", secure.Addr + " speaks TLS, not PostgreSQL: try rediss://" + secure.Addr},
		"TLS on PostgreSQL without":      {"postgres://u:hunter22@" + at.Host + "/db?sslmode=require", at.Host + " speaks PostgreSQL without TLS: turn on ssl in the server, or try sslmode=disable"},
		"TLS on advisory locks, without": {"postgres://u:hunter22@" + at.Host + "/db?sslmode=verify-full&lock_mode=advisory", "speaks PostgreSQL without TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := open.Open(ctx, c.url)
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, open.ErrURL) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter22") {
				t.Errorf("%v, want an ErrURL with %q", err, c.want)
			}
		})
	}
}

// If a server speaks the protocol of the URL and refuses the client, the error is not ErrURL.
func TestOpen_sameProtocol(t *testing.T) {
	plain, secure, pg := testenv.Redis(t, testenv.Password("secret")), testenv.Redis(t, testenv.TLS()), testenv.Postgres(t, testenv.Shared())
	at, err := url.Parse(pg.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a wrong password":     "redis://:hunter22@" + plain.Addr,
		"an unknown authority": "rediss://" + secure.Addr,
		"no such database":     "postgres://" + at.User.String() + "@" + at.Host + "/nosuch?sslmode=disable",
		"no server":            "redis://127.0.0.1:1",
		"no user of MariaDB":   "mysql://nosuch:hunter22@" + testenv.MariaDB(t, testenv.Shared()).Addr + "/db",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := open.Open(t.Context(), text)
			if err == nil {
				s.Close()
			}
			if errors.Is(err, open.ErrURL) {
				t.Errorf("%v: the URL is correct", err)
			}
		})
	}
}
