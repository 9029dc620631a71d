package mysql_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/mysql"
)

// set returns a store whose sessions would begin with these settings, as a server makes them with
// init_connect or as its defaults.
func set(t *testing.T, url string, settings map[string]string) *mysql.Store {
	t.Helper()
	conf := config(t, url)
	conf.Params = maps.Clone(settings)
	s, err := mysql.New(conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Whatever the settings of a session are, a grant is committed, a key is the same for all, and the
// claims of a process are renewed.
func TestStore_settings(t *testing.T) {
	t.Parallel()
	srv := testenv.MariaDB(t, testenv.Shared())
	for name, settings := range map[string]map[string]string{
		"chained transactions": {"completion_type": "1"},
		"connections that end": {"completion_type": "2"},
		"safe updates":         {"sql_safe_updates": "1"},
		"few rows":             {"sql_select_limit": "1"},
		"small joins":          {"sql_big_selects": "0", "max_join_size": "10"},
		"another collation":    {"collation_connection": "latin1_swedish_ci"},
		"utf8mb3":              {"character_set_connection": "utf8mb3"},
		"results in UTF-16":    {"character_set_results": "utf16"},
		"upper case":           {"SQL_MODE": "'ORACLE'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := srv.Database(t)
			s, other := set(t, url, settings), made(t, url, nil)
			works(t, other)
			a, b, c, d := exclusive("caf\xc3\xa9"), exclusive("caf\xc3\xa9"), exclusive("key"), shared("shared")
			grant(t, s, a)
			refuse(t, s, b) // by a procedure
			refuse(t, other, b)
			grant(t, s, c) // on the same connection
			grant(t, s, d)
			for _, key := range []string{a.Key, c.Key, d.Key} {
				if claims, err := other.Show(t.Context(), key); err != nil || len(claims) != 1 {
					t.Errorf("%q: others see %v, %v; want the claim", key, claims, err)
				}
			}
			for i, r := range s.RenewAll(t.Context(), []driver.Renewal{{ID: a.ID, TTL: time.Minute}, {ID: c.ID, TTL: time.Minute}, {ID: d.ID, TTL: time.Minute}}) {
				if r.Err != nil {
					t.Errorf("renewal %d: %v", i, r.Err)
				}
			}
			if _, err := s.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: time.Minute}); err != nil {
				t.Error("renewal alone:", err)
			}
			n := 0
			for _, err := range s.List(context.Background(), "") {
				if n++; err != nil {
					t.Fatal(err)
				}
			}
			if n != 3 {
				t.Errorf("List shows %d claims, want 3", n)
			}
			release(t, s, a)
			release(t, s, c)
			release(t, s, d)
			grant(t, other, b)
		})
	}
}
