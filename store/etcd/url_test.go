package etcd_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/etcd"
)

// A wrong URL is an ErrURL that says what is wrong, and shows no password.
func TestOpen_bad(t *testing.T) {
	t.Parallel()
	pem := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(pem, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"redis://u:canary-7f3@h":                          "begins with",
		"etcd:u:canary-7f3@h":                             "begins with",
		"etcd://u:canary-7f3@":                            "host:port",
		"etcd://u:canary-7f3@h,":                          "host:port",
		"etcd://u:canary-7f3@h:0":                         "host:port",
		"etcd://u:canary-7f3@::1":                         "host:port",
		"etcd://u:canary-7f3%zz@h":                        "malformed",
		"etcd://u:canary-7f3/x@h":                         "malformed",
		"etcd://u:1/canary-7f3@h":                         "malformed",
		"etcd://u:canary-7f3?x@h":                         "malformed",
		"etcd://u:1?canary-7f3@h":                         "malformed",
		"etcd://u:canary-7f3@h?a=%zz":                     "query",
		"etcd://u:canary-7f3@h?lock_prefix=x":             "unknown option",
		"etcd://u:canary-7f3@h?tls_cas=x":                 "did you mean tls_ca",
		"etcd://u:canary-7f3@h?tls_ca=x":                  "without TLS",
		"etcd://u:canary-7f3@h?lock_min_ttl=1&lock_ttl=2": "unknown option",
		"etcd://u:canary-7f3@h?lock_min_ttl=x":            "lock_min_ttl",
		"etcd://u:canary-7f3@h?lock_min_ttl=3500ms":       "lock_min_ttl",
		"etcds://u:canary-7f3@h?tls_skip_verify=maybe":    "true or false",
		"etcds://u:canary-7f3@h?tls_cert=x":               "together",
		"etcds://u:canary-7f3@h?tls_ca=/nowhere/x":        "tls_ca",
		"etcds://h?tls_ca=a&tls_ca=b":                     "twice",
		"etcds://h?tls_cert=" + pem + "&tls_key=" + pem:   "tls_cert",
	} {
		_, err := etcd.Open(t.Context(), url)
		if !errors.Is(err, etcd.ErrURL) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary-7f3") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// A cluster that does not answer is no error of Open without a password. The calls say that they
// changed nothing.
func TestOpen_no_server(t *testing.T) {
	t.Parallel()
	s, err := etcd.Open(t.Context(), "etcd://127.0.0.1:1,[::1]:1/x")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Acquire(t.Context(), whole("key")); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if err := s.Release(t.Context(), whole("key").ID); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := etcd.Open(ended, "etcd://u:p@127.0.0.1:1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestNew_bad(t *testing.T) {
	t.Parallel()
	if _, err := etcd.New(nil, nil); err == nil {
		t.Error("a nil client was accepted")
	}
	if _, err := etcd.New(connect(t, "127.0.0.1:1"), &etcd.Options{MinTTL: 1}); err == nil {
		t.Error("a least TTL of a nanosecond was accepted")
	}
}
