package open_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

func TestOpen_etcd(t *testing.T) {
	e := testenv.Etcd(t, testenv.Members(3))
	var addrs []string
	for _, u := range e.Endpoints() {
		addrs = append(addrs, strings.TrimPrefix(u, "http://"))
	}
	s := use(t, "etcd://"+strings.Join(addrs, ",")+"/app?lock_ttl=7s&lock_min_ttl=3s")
	if f := s.Store.Features(); f.Name != "etcd" || f.MinTTL != 3*time.Second || s.TTL != 7*time.Second {
		t.Errorf("%+v, lock_ttl %v", f, s.TTL)
	}
	if len(s.Findings) != 2 || s.Findings[0].Level != driver.LevelOK || s.Findings[1].Level != driver.LevelWarning {
		t.Errorf("%+v", s.Findings)
	}
	// The cluster has no users, and accepts any password.
	use(t, testenv.URL("etcd", addrs...)+"/app")
}

// What a URL for etcd says about the connection; and no error shows its password.
func TestOpen_etcd_url(t *testing.T) {
	_, err := open.Open(t.Context(), "etcds://u:canary-7f3@h1,h2/p?tls_ca=/nowhere")
	if !errors.Is(err, open.ErrURL) || strings.Contains(err.Error(), "canary-7f3") {
		t.Error(err)
	}
	for url, want := range map[string]string{
		"etcd://u:p@db1":                       "etcds:// in place of etcd://",
		"etcds://u:p@db1":                      "",
		"etcds://u:p@db1?tls_skip_verify=true": "tls_ca",
		"etcd://u:p@127.0.0.1:1":               "",
	} {
		if all := open.EtcdTransport(url); len(all) != 1 || !strings.Contains(all[0].Cure, want) || (want == "") != (all[0].Level == driver.LevelOK) {
			t.Errorf("%s: %+v", url, all)
		}
	}
	if _, err := open.Open(t.Context(), "localhost:2379"); err == nil || !strings.Contains(err.Error(), "etcd://localhost:2379") {
		t.Error(err)
	}
}
