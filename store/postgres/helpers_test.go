package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

func exclusive(key string) driver.Request {
	return driver.Request{
		ID: driver.ID{Key: key, Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute,
	}
}

func shared(key string) driver.Request {
	r := exclusive(key)
	r.Weight = 1
	return r
}

func queueing(r driver.Request) driver.Request {
	r.QueueTTL = time.Minute
	return r
}

func grant(t testing.TB, s driver.Store, r driver.Request) driver.Result {
	t.Helper()
	res, err := s.Acquire(t.Context(), r)
	if err != nil || !res.Granted {
		t.Fatalf("Acquire: granted %v, error %v; want granted", res.Granted, err)
	}
	return res
}

func refuse(t testing.TB, s driver.Store, r driver.Request) driver.Result {
	t.Helper()
	res, err := s.Acquire(t.Context(), r)
	if err != nil || res.Granted {
		t.Fatalf("Acquire: granted %v, error %v; want refused", res.Granted, err)
	}
	return res
}

func release(t testing.TB, s driver.Store, r driver.Request) {
	t.Helper()
	if err := s.Release(t.Context(), r.ID); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

func renew(t testing.TB, s driver.Store, r driver.Request) {
	t.Helper()
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: r.TTL}); err != nil {
		t.Fatalf("Renew: %v", err)
	}
}

// eventually fails the test unless f returns nil within 20 s.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after 20 s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// works waits until a store grants and releases a claim.
func works(t testing.TB, s driver.Store) {
	t.Helper()
	eventually(t, "the store works again", func() error {
		r := exclusive("works")
		res, err := s.Acquire(t.Context(), r)
		if err == nil && !res.Granted {
			return errors.New("refused")
		}
		if err != nil {
			_ = s.Release(t.Context(), r.ID)
			return err
		}
		return s.Release(t.Context(), r.ID)
	})
}

// on replaces the host of a URL, or its user if that is not empty.
func on(t testing.TB, raw, host, user string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		u.Host = host
	}
	if user != "" {
		u.User = url.User(user)
	}
	return u.String()
}

// query runs a statement on a connection of its own.
func query(t testing.TB, srv *testenv.PostgresServer, sql string) [][]string {
	t.Helper()
	rows, err := srv.Query(context.Background(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// plainSQL returns a connection of an SQL client, and a function that selects one boolean with it.
// Schema in the SQL stands for the store's schema.
func plainSQL(t testing.TB, url string, opt *postgres.Options) (*pgx.Conn, func(sql string, args ...any) (bool, error)) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c, func(sql string, args ...any) (ok bool, err error) {
		err = c.QueryRow(t.Context(), strings.ReplaceAll(sql, "Schema", quoted(opt)), args...).Scan(&ok)
		return ok, err
	}
}

func quoted(opt *postgres.Options) string { return pgx.Identifier{opt.Schema}.Sanitize() }

func drain(wake <-chan driver.Wake) {
	select {
	case <-wake:
	default:
	}
}

func woken(t *testing.T, wake <-chan driver.Wake, how string) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(10 * time.Second):
		t.Fatalf("not woken %s", how)
	}
}

func renewals(rs ...driver.Request) (all []driver.Renewal) {
	for _, r := range rs {
		all = append(all, driver.Renewal{ID: r.ID, TTL: r.TTL})
	}
	return all
}
