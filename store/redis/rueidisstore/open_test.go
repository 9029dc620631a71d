package rueidisstore_test

import (
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

// works acquires and releases a claim on the store that a URL opens.
func works(t *testing.T, url string) {
	t.Helper()
	s, err := rueidisstore.Open(t.Context(), url)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer s.Close()
	id := driver.ID{Key: "key", Owner: rand.Text()}
	res, err := s.Acquire(t.Context(),
		driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute})
	if err != nil || !res.Granted {
		t.Fatalf("Acquire: granted %v, error %v", res.Granted, err)
	}
	if err := s.Release(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func TestOpen(t *testing.T) {
	const secret = `p@ss:/%?#word`
	srv := testenv.Redis(t, testenv.Password(secret), testenv.UnixSocket())
	auth := url.UserPassword("default", secret).String()
	escaped := strings.ReplaceAll(url.QueryEscape(secret), "+", "%20")
	for _, u := range []string{
		"redis://:" + escaped + "@" + srv.Addr,
		"redis://" + auth + "@" + srv.Addr + "/3",
		"valkey://" + auth + "@" + srv.Addr + "/0?lock_prefix=own:",
		"redis+unix://" + auth + "@" + srv.Socket + "?db=2",
	} {
		works(t, u)
	}
	if n, err := srv.Do(t.Context(), "EXISTS", "{own:key}:m"); err != nil || n != int64(1) {
		t.Errorf("lock_prefix was not obeyed: %v, %v", n, err)
	}
	wrong := "wrong-" + rand.Text()
	if _, err := rueidisstore.Open(t.Context(), "redis://:"+wrong+"@"+srv.Addr); err == nil ||
		strings.Contains(err.Error(), wrong) || errors.Is(err, rueidisstore.ErrURL) {
		t.Errorf("a wrong password: %v, want an error without it", err)
	}
}

func TestOpen_TLS(t *testing.T) {
	srv := testenv.Redis(t, testenv.TLS())
	if s, err := rueidisstore.Open(t.Context(), "rediss://"+srv.Addr); err == nil {
		_, err = s.Acquire(t.Context(), driver.Request{
			ID: driver.ID{Key: "key", Owner: "owner"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute,
		})
		s.Close()
		if err == nil {
			t.Error("a certificate of an unknown authority was taken")
		}
	}
	works(t, "rediss://"+srv.Addr+"?"+certificate(srv))
	works(t, "valkeys://"+srv.Addr+"?tls_skip_verify=true&"+certificate(srv))
}

// certificate returns the part of a query that names the client's certificate and the authority.
func certificate(srv *testenv.RedisServer) string {
	return strings.Join([]string{"tls_ca=" + srv.Certs.CA, "tls_cert=" + srv.Certs.Cert,
		"tls_key=" + srv.Certs.Key}, "&")
}

func TestOpen_notYetThere(t *testing.T) {
	s, err := rueidisstore.Open(t.Context(), "redis://127.0.0.1:1")
	if err != nil {
		t.Fatalf("a server that does not answer: %v, want a store", err)
	}
	defer s.Close()
	_, err = s.Acquire(t.Context(), driver.Request{
		ID: driver.ID{Key: "key", Owner: "owner"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute,
	})
	if !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Acquire: %v, want ErrUnavailable", err)
	}
}

// Acquire waits for replicas for as long as the URL says. The server has no replica.
func TestOpen_replicas(t *testing.T) {
	const limit = 300 * time.Millisecond
	s, err := rueidisstore.Open(t.Context(),
		testenv.Redis(t).URL+"?lock_replicas=1&lock_replica_timeout=300ms")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	began := time.Now()
	r := driver.Request{ID: driver.ID{Key: "key", Owner: "me"}, Weight: driver.Whole,
		Limit: driver.Whole, TTL: time.Minute}
	if _, err := s.Acquire(t.Context(), r); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("error %v, want ErrUnavailable", err)
	}
	if took := time.Since(began); took < limit {
		t.Errorf("Acquire took %v, want at least %v", took, limit)
	}
}

func TestOpen_refused(t *testing.T) {
	const secret = "canary-7f3"
	pem := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(pem, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for u, want := range map[string]string{
		"localhost:6379":                                     "begins with",
		"http://u:canary-7f3@h":                              "no scheme",
		"redis+tls://u:canary-7f3@h":                         "no scheme",
		"rediss+unix:///x":                                   "no scheme",
		"redis+://h":                                         "no scheme",
		"redis://u:canary-7f3@":                              "host",
		"redis://u:canary-7f3@h:0":                           "host",
		"redis://u:canary-7f3@h:65536":                       "host",
		"redis://u:canary-7f3@h:x":                           "host",
		"redis://u:canary-7f3@::1":                           "host",
		"redis://u:canary-7f3@h/x":                           "database",
		"redis://u:canary-7f3@h/-1":                          "database",
		"redis://u:canary-7f3@h,i":                           "one address",
		"redis://u:canary-7f3%zz@h":                          "well written",
		"redis://u:canary-7f3@h?a=%zz":                       "well written",
		"redis://u:canary-7f3@h?lock_prefx=x":                "did you mean lock_prefix?",
		"redis://u:canary-7f3@h?timeout=5s":                  "also take lock_ttl and lock_poll",
		"redis://u:canary-7f3@h?lock_prefix=a&lock_prefix=b": "twice",
		"redis://u:canary-7f3@h?tls_ca=x":                    "without TLS",
		"redis://u:canary-7f3@h?lock_replicas=-1":            "lock_replicas",
		"redis://h?lock_replicas=1&lock_replica_timeout=5":   "lock_replica_timeout",
		"redis://h?lock_replicas=1&lock_replica_timeout=1us": "from 1ms",
		"redis://h?lock_replica_timeout=1s":                  "without lock_replicas",
		"redis://u:canary-7f3@h?lock_prefix={x}":             "braces",
		"redis://u:canary-7f3@h?lock_prefix=":                "lock_prefix is empty",
		"rediss://u:canary-7f3@h?tls_skip_verify=maybe":      "true or false",
		"rediss://u:canary-7f3@h?tls_cert=x":                 "together",
		"rediss://u:canary-7f3@h?tls_ca=/nowhere/x":          "tls_ca",
		"rediss://u:canary-7f3@h?tls_ca=" + pem:              "no certificate",
		"redis+unix://h/x":                                   "socket",
		"redis+unix://":                                      "socket",
		"redis+sentinel://u:canary-7f3@h":                    "master_name",
		"redis+cluster://u:canary-7f3@h/1":                   "only the database 0",
	} {
		s, err := rueidisstore.Open(t.Context(), u)
		if err == nil {
			s.Close()
			t.Errorf("%s was opened", u)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) ||
			!errors.Is(err, rueidisstore.ErrURL) {
			t.Errorf("%s: error %q, want an ErrURL with %q and without the password", u, err, want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add("redis://u:p@h:1/0?lock_prefix=x")
	f.Add("redis+sentinel://h,i/0?master_name=m")
	f.Fuzz(func(t *testing.T, text string) { _ = rueidisstore.Parse(text) })
}
