package postgres_test

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// Whatever the settings of a role are, a name is the same for all, and a value is what was stored.
func TestStore_settings(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	for _, setting := range []string{
		"client_encoding=latin1", "bytea_output=escape", "quote_all_identifiers=on", "standard_conforming_strings=off",
		"IntervalStyle=sql_standard", "DateStyle=German", "search_path=pg_temp", "enable_indexscan=off",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			opt := fresh(t)
			s, other := openedIn(t, srv.URL+"&"+setting, opt), made(t, srv.URL, opt)
			a, b := exclusive("caf\u00e9"), exclusive("caf\u00e9")
			a.Value = []byte("a\\b\x00\xff{\"\u00e9\"}\\\\")
			grant(t, s, a)
			for _, by := range []driver.Store{s, other} {
				if res := refuse(t, by, b); !bytes.Equal(res.Blocker.Value, a.Value) {
					t.Errorf("the blocker has the value %q, want %q", res.Blocker.Value, a.Value)
				}
				if claims, err := driver.Show(t.Context(), by, a.Key); err != nil || len(claims) != 1 || !bytes.Equal(claims[0].Value, a.Value) {
					t.Errorf("Show: %v, %v", claims, err)
				}
			}
			renew(t, s, a)
			release(t, s, a)
			grant(t, other, b)
			if claims, err := s.Break(t.Context(), b.Key, 0, "test"); err != nil || len(claims) != 1 {
				t.Errorf("Break: %v, %v", claims, err)
			}
		})
	}
}

// openedIn returns a store by [postgres.Open].
func openedIn(t *testing.T, text string, opt *postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), text+"&lock_schema="+url.QueryEscape(opt.Schema))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A pool whose connections have another encoding is not used: names would be other keys.
func TestStore_settings_pool(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	s := made(t, srv.URL+"&client_encoding=latin1", fresh(t))
	works(t, s) // on a connection of its own
	_, err := s.Show(t.Context(), "caf\u00e9")
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "client_encoding") {
		t.Errorf("Show by a pool in LATIN1: %v, want ErrUnavailable that names the setting", err)
	}
}
