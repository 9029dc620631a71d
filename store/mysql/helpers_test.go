package mysql_test

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"strconv"
	"testing"
	"time"

	client "github.com/go-sql-driver/mysql"

	"github.com/distlock/distlock/driver"
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

// works waits until a store grants and releases a claim.
func works(t testing.TB, s driver.Store) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		r := exclusive("works")
		res, err := s.Acquire(t.Context(), r)
		if err == nil && !res.Granted {
			err = errors.New("refused")
		}
		if err = errors.Join(err, s.Release(t.Context(), r.ID)); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the store does not work again: %v", err)
		}
	}
}

// on replaces the host of a URL.
func on(t testing.TB, raw, host string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = host
	return u.String()
}

// database returns a client of its own for a URL.
func database(t testing.TB, url string) *sql.DB {
	t.Helper()
	connector, err := client.NewConnector(config(t, url))
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// value returns the first column of the first row of a query.
func value(t testing.TB, db interface {
	QueryRow(string, ...any) *sql.Row
}, text string, args ...any) string {
	t.Helper()
	var v sql.NullString
	if err := db.QueryRow(text, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v.String
}

// leftovers counts the claims and queue entries of a database.
func leftovers(t testing.TB, url string) int {
	t.Helper()
	n, err := strconv.Atoi(value(t, database(t, url), `SELECT (SELECT COUNT(*) FROM distlock_claim WHERE ends > 0)
		+ (SELECT COUNT(*) FROM distlock_queue)`))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
