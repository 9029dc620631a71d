package open_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

// finds fails the test unless the findings of the URL are the wanted ones: "level: words".
func finds(t *testing.T, s *open.Source, wants ...string) {
	t.Helper()
	for _, want := range wants {
		level, words, _ := strings.Cut(want, ": ")
		if !slices.ContainsFunc(s.Findings, func(f driver.Finding) bool {
			return f.Level.String() == level && strings.Contains(f.What, words) &&
				(f.Means == "") == (f.Level == driver.LevelOK) && (f.Cure == "") == (f.Means == "")
		}) {
			t.Errorf("no finding is %q: %+v", want, s.Findings)
		}
	}
	if len(s.Findings) != len(wants) {
		t.Errorf("findings %+v, want %q", s.Findings, wants)
	}
}

// tlsKeys returns the part of a query that names the authority and our certificate.
func tlsKeys(c *testenv.Certs) string {
	return "tls_ca=" + c.CA + "&tls_cert=" + c.Cert + "&tls_key=" + c.Key
}

func TestOpen_tls(t *testing.T) {
	r := testenv.Redis(t, testenv.TLS(), testenv.Config("tls-auth-clients yes"))
	_, port, _ := net.SplitHostPort(r.Addr)
	const secure, unchecked = "ok: traffic is encrypted", "warning: the certificate of the server is not checked"
	for url, want := range map[string]string{
		"rediss://" + r.Addr + "/0?" + tlsKeys(r.Certs):                                     secure,
		"valkeys://localhost:" + port + "?" + tlsKeys(r.Certs):                              secure,
		"rediss://" + r.Addr + "?tls_server_name=localhost&" + tlsKeys(r.Certs):             secure,
		"rediss://" + r.Addr + "?tls_skip_verify=true&" + tlsKeys(r.Certs) + "&lock_ttl=5s": unchecked,
	} {
		finds(t, use(t, url), want)
	}
	for name, url := range map[string]string{
		"an unknown authority": "rediss://" + r.Addr,
		"another name":         "rediss://" + r.Addr + "?tls_server_name=other.example&" + tlsKeys(r.Certs),
		"no certificate":       "rediss://" + r.Addr + "?tls_ca=" + r.Certs.CA,
	} {
		s, err := open.Open(t.Context(), url)
		if err == nil {
			_, err = s.Store.Acquire(t.Context(), driver.Request{
				ID: driver.ID{Key: "k", Owner: "o"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Second,
			})
			s.Close()
		}
		if err == nil || errors.Is(err, open.ErrURL) {
			t.Errorf("%s: %v, want an error of the connection", name, err)
		}
		if name == "an unknown authority" && (!errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "tls_ca")) {
			t.Errorf("%s: %v, want ErrUnavailable, since nothing was sent, and what to do", name, err)
		}
	}
}

func TestOpen_unix(t *testing.T) {
	r := testenv.Redis(t, testenv.UnixSocket(), testenv.Password(secret))
	const auth = ":" + secretInURL + "@"
	finds(t, use(t, "redis+unix://"+auth+r.Socket), "ok: traffic stays on this host (a socket)")
	use(t, "valkey+unix://"+auth+r.Socket+"?db=3&lock_prefix=own:")
	if n, err := r.Do(t.Context(), "DBSIZE"); err != nil || n != int64(2) { // the name, and the floor of all names
		t.Errorf("%v keys in database 0, %v: the other is not the one that was named", n, err)
	}
}

func TestRedisTransport(t *testing.T) {
	const bare = "warning: the URL has no password"
	for url, wants := range map[string][]string{
		"redis://127.0.0.1:1":                          {"ok: traffic stays on this host", bare},
		"redis://u:p@localhost:1":                      {"ok: traffic stays on this host"},
		"redis://u@[::1]:1":                            {"ok: traffic stays on this host", bare},
		"redis://:p@192.0.2.1:1":                       {"warning: traffic is not encrypted"},
		"redis://:p@localhost.example:1":               {"warning: traffic is not encrypted"},
		"rediss://:p@192.0.2.1:1?tls_skip_verify=true": {"warning: the certificate of the server is not checked (tls_skip_verify)"},
	} {
		finds(t, &open.Source{Findings: open.RedisTransport(url)}, wants...)
	}
}

// The password of servers that require one, with letters that a URL escapes. If any output contains
// it, the whole run fails.
const (
	secret      = testenv.Canary + "@:/%"
	secretInURL = testenv.Canary + "%40%3A%2F%25"
)

func TestOpen_sentinel(t *testing.T) {
	g := testenv.Sentinel(t, testenv.Password(secret))
	list := strings.Join(g.Addrs(), ",")
	s := use(t, "redis+sentinel://:"+secretInURL+"@"+list+"/1?master_name="+g.Name)
	finds(t, s, "ok: traffic stays on this host")
	use(t, "valkey+sentinel://:"+secretInURL+"@"+list+"?lock_ttl=2s&master_name="+g.Name)
	for _, query := range []string{"?master_name=nobody", "?master_name=" + g.Name} { // the second without the password
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if s, err := open.Open(ctx, "redis+sentinel://:hunter22@"+list+query); err == nil || errors.Is(err, open.ErrURL) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v, %v", query, s, err)
		}
		cancel()
	}
}

func TestOpen_cluster(t *testing.T) {
	c := testenv.RedisCluster(t, testenv.Replicas(0), testenv.Password(secret))
	finds(t, use(t, "redis+cluster://:"+secretInURL+"@"+strings.Join(c.Addrs()[:2], ",")), "ok: traffic stays on this host")
	use(t, "valkey+cluster://:"+secretInURL+"@"+c.Addrs()[0]+"/0?lock_poll=1s")
	if _, err := open.Open(t.Context(), "redis+cluster://:hunter22@"+c.Addrs()[0]); err == nil || errors.Is(err, open.ErrURL) || strings.Contains(err.Error(), "hunter22") {
		t.Error("with a wrong password:", err)
	}
}

// Clients of a cluster that refuses them leave no goroutine behind, except those of IgnoreRueidis.
func TestOpen_cluster_refused(t *testing.T) {
	c := testenv.RedisCluster(t, testenv.Primaries(1), testenv.Replicas(0), testenv.Password(secret))
	before := goleak.IgnoreCurrent()
	for range 10 { // each schedules a refresh, at a random time within a second
		if _, err := open.Open(t.Context(), "redis+cluster://:hunter22@"+c.Addrs()[0]); err == nil {
			t.Fatal("a wrong password was accepted")
		}
	}
	if err := goleak.Find(append(testenv.IgnoreRueidis(), before)...); err != nil {
		t.Error(err)
	}
}

// A cluster of one node that speaks TLS.
func TestOpen_cluster_tls(t *testing.T) {
	r := testenv.Redis(t, testenv.TLS(), testenv.Config("cluster-enabled yes", "tls-cluster yes"))
	if _, err := r.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", "0", "16383"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		info, err := r.Do(t.Context(), "CLUSTER", "INFO")
		if strings.Contains(fmt.Sprint(info), "cluster_state:ok") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(info, err)
		}
	}
	finds(t, use(t, "rediss+cluster://"+r.Addr+"?"+tlsKeys(r.Certs)), "ok: traffic is encrypted")
	use(t, "valkeys+cluster://"+r.Addr+"?"+tlsKeys(r.Certs))
}

// A sentinel that speaks TLS with a server that does.
func TestOpen_sentinel_tls(t *testing.T) {
	program, err := exec.LookPath("redis-sentinel")
	r := testenv.Redis(t, testenv.TLS(), testenv.Password("secret"))
	if err != nil {
		testenv.Missing(t, "redis-sentinel", "apt-get install redis-sentinel")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close() // if another process takes the port first, the test fails
	host, own, _ := net.SplitHostPort(r.Addr)
	dir := t.TempDir()
	conf := filepath.Join(dir, "sentinel.conf")
	lines := []string{
		"port 0", "tls-port " + strconv.Itoa(port), "bind 127.0.0.1", "dir " + dir, "tls-auth-clients optional", "tls-replication yes",
		"tls-ca-cert-file " + r.Certs.CA, "tls-cert-file " + r.Certs.Cert, "tls-key-file " + r.Certs.Key,
		"sentinel monitor main " + host + " " + own + " 1", "sentinel auth-pass main secret",
	}
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, conf)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	trust, err := r.Certs.Client()
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := tls.Dial("tcp", addr, trust)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	url := "+sentinel://:secret@" + addr + "/0?master_name=main&" + tlsKeys(r.Certs)
	finds(t, use(t, "rediss"+url), "ok: traffic is encrypted")
	use(t, "valkeys"+url)
}

// Nodes with their own passwords and URLs, and options for all of them.
func TestOpen_redlock_general(t *testing.T) {
	a, b, c := testenv.Redis(t, testenv.Password(secret)), testenv.Redis(t, testenv.TLS()), testenv.Redis(t, testenv.UnixSocket())
	escape := strings.NewReplacer("%", "%25", "&", "%26", "?", "%3F", "=", "%3D", ":", "%3A", "/", "%2F", "@", "%40").Replace
	s := use(t, "redlock:?node=redis://:"+secretInURL+"@"+a.Addr+"/2&node="+escape("rediss://"+b.Addr+"?"+tlsKeys(b.Certs))+
		"&node=redis+unix://"+c.Socket+"&lock_prefix=x:&lock_ttl=3s")
	finds(t, s, "ok: node "+a.Addr+": traffic stays on this host", "ok: node "+b.Addr+": traffic is encrypted",
		"ok: node "+c.Socket+": traffic stays on this host (a socket)")
	if s.TTL != 3*time.Second {
		t.Error("lock_ttl is", s.TTL)
	}
	for _, r := range []*testenv.RedisServer{b, c} {
		if v, err := r.Do(t.Context(), "KEYS", "{x:key}*"); err != nil || len(v.([]any)) == 0 {
			t.Errorf("node %s has %v, %v: lock_prefix was not obeyed", r.Addr, v, err)
		}
	}
}

func TestOpen_redlocks(t *testing.T) {
	// Three servers with one authority: all of them show the certificate of the first.
	a := testenv.Redis(t, testenv.TLS())
	own := testenv.Config("tls-ca-cert-file "+a.Certs.CA, "tls-cert-file "+a.Certs.Cert, "tls-key-file "+a.Certs.Key)
	b, c := plainTLS(t, own), plainTLS(t, own)
	use(t, "redlocks://"+strings.Join([]string{a.Addr, b, c}, ",")+"/0?"+tlsKeys(a.Certs))
}

// plainTLS starts a server that speaks TLS on a second port.
func plainTLS(t *testing.T, own testenv.Option) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	testenv.Redis(t, own, testenv.Config("tls-port "+port, "tls-auth-clients optional"))
	return addr
}
