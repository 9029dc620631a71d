package guarantees_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// The password is replaced while a lock is held. Open connections continue, so no lease that was
// renewed once is lost. A client with the old password gets ErrUnavailable, never ErrHeld. A client
// with the new password is served.
func TestRotate_password(t *testing.T) {
	t.Parallel()
	const ttl = longest
	byURL := func(t *testing.T, url string) func(password string) (driver.Store, error) {
		return func(password string) (driver.Store, error) {
			return openErr(t, strings.Replace(url, "old-pw", password, 1))
		}
	}
	type login func(password string) (driver.Store, error)
	for name, start := range map[string]func(t *testing.T) (open login, rotate func()){
		"redis": func(t *testing.T) (login, func()) {
			r := testenv.Redis(t, testenv.Password("old-pw"))
			return byURL(t, r.URL), func() { do(t, r, "CONFIG", "SET", "requirepass", "new-pw") }
		},
		"replicated": func(t *testing.T) (login, func()) {
			r := testenv.Redis(t, testenv.Password("old-pw"))
			testenv.Redis(t, testenv.ReplicaOf(r), testenv.Password("old-pw"))
			warm(t, openURL(t, r.URL+"?lock_replicas=1"))
			return byURL(t, r.URL+"?lock_replicas=1"), func() { do(t, r, "CONFIG", "SET", "requirepass", "new-pw") }
		},
		"redlock": func(t *testing.T) (login, func()) {
			var nodes []*testenv.RedisServer
			for range 3 {
				nodes = append(nodes, testenv.Redis(t, testenv.Password("old-pw")))
			}
			open := func(password string) (driver.Store, error) {
				var urls []string
				for _, r := range nodes {
					urls = append(urls, strings.Replace(r.URL, "old-pw", password, 1))
				}
				return majorityErr(t, longest, urls...)
			}
			s, err := open("old-pw")
			if err != nil {
				t.Fatal(err)
			}
			aged(t, s, longest, nodes)
			return open, func() {
				for _, r := range nodes {
					do(t, r, "CONFIG", "SET", "requirepass", "new-pw")
				}
			}
		},
		"postgres": func(t *testing.T) (login, func()) {
			p := testenv.Postgres(t, testenv.Password("old-pw"))
			return byURL(t, p.URL), func() { query(t, p, "alter role postgres password 'new-pw'") }
		},
		"mariadb": func(t *testing.T) (login, func()) {
			m := testenv.MariaDB(t, testenv.Password("old-pw"))
			return byURL(t, m.URL), func() {
				if _, err := m.Query(t.Context(), "SET PASSWORD = PASSWORD('new-pw')"); err != nil {
					t.Fatal(err)
				}
			}
		},
		"advisory": func(t *testing.T) (login, func()) {
			p := testenv.Postgres(t, testenv.Password("old-pw"))
			return byURL(t, p.URL+"&lock_mode=advisory"), func() { query(t, p, "alter role postgres password 'new-pw'") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open, rotate := start(t)
			store := func(password string) driver.Store {
				s, err := open(password)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			sc := newScene(t)
			first := sc.lock("a", locker(t, store("old-pw"), distlock.TTL(ttl)))
			// Renewals use their own connection. The first renewal opens it.
			extend(t, first.Lease, ttl)
			rotate()
			next := sc.wait("b", locker(t, store("new-pw"), distlock.TTL(ttl)))
			sc.refused(next, ttl+time.Second)
			if !first.trusts() {
				t.Errorf("the lease did not survive: %v", first.Err())
			}
			late, err := open("old-pw")
			if err == nil {
				var l *distlock.Locker
				if l, err = distlock.New(late); err != nil {
					t.Fatal(err)
				}
				_, err = l.TryLock(t.Context(), "other")
				if !errors.Is(err, distlock.ErrUnavailable) {
					t.Errorf("with the old password: %v, want ErrUnavailable", err)
				}
				_ = l.Close(t.Context())
			}
			if err == nil || strings.Contains(err.Error(), "old-pw") || errors.Is(err, distlock.ErrHeld) {
				t.Errorf("with the old password: %v", err)
			}
			sc.release(first)
			sc.release(sc.granted(next, soon))
			sc.oneHolder()
		})
	}
}

// The certificate of the server is replaced while a lock is held. Open connections continue, and
// new connections get the new certificate.
func TestRotate_certificate(t *testing.T) {
	t.Parallel()
	const ttl = longest
	r := testenv.Redis(t, testenv.TLS())
	u := r.URL + "?tls_ca=" + url.QueryEscape(r.Certs.CA)
	sc := newScene(t)
	first := sc.lock("a", locker(t, openURL(t, u), distlock.TTL(ttl)))
	if err := r.Certs.Issue(time.Hour); err != nil {
		t.Fatal(err)
	}
	do(t, r, "CONFIG", "SET", "tls-cert-file", r.Certs.Cert, "tls-key-file", r.Certs.Key)
	next := sc.wait("b", locker(t, openURL(t, u), distlock.TTL(ttl)))
	sc.refused(next, ttl+time.Second)
	if !first.trusts() {
		t.Errorf("the lease did not survive: %v", first.Err())
	}
	sc.release(first)
	sc.release(sc.granted(next, soon))
	sc.oneHolder()
}
