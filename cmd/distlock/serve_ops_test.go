package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// A text is written to by one goroutine, and read by another.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// A served is a lock server of a test.
type served struct {
	t        *testing.T
	out, err text
	end      context.CancelFunc
	code     chan int
}

// startServe runs serve on a free port until the test ends.
func startServe(t *testing.T, args ...string) *served {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	s := &served{t: t, code: make(chan int, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	s.end = cancel
	args = append([]string{"serve", "--store", "memory:", "--demo", "--drain", "0s", "--listen", "127.0.0.1:0"}, args...)
	var done sync.WaitGroup
	done.Go(func() { s.code <- execute(ctx, args, nil, &s.out, &s.err) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return s
}

// after waits for a text in the log, and returns the word that follows it.
func (s *served) after(label string) string {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, rest, ok := strings.Cut(s.err.String(), label); ok && strings.ContainsAny(rest, "\n \"") {
			return rest[:strings.IndexAny(rest, "\n \"")]
		}
	}
	s.t.Fatalf("no %q: %s", label, s.err.String())
	return ""
}

// get returns the answer of a server.
func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// Probes and metrics have their own address, and Prometheus reads the metrics. The log is JSON.
func TestServe_metrics(t *testing.T) {
	s := startServe(t, "--metrics-listen", "127.0.0.1:0", "--log", "json")
	addr, metrics := s.after("listens on "), s.after("serves metrics on ")
	for _, path := range []string{"/livez", "/readyz"} {
		for _, base := range []string{addr, strings.TrimSuffix(metrics, "/metrics")} {
			if code, body := get(t, http.DefaultClient, base+path); code != http.StatusOK || body != "ok\n" {
				t.Errorf("%s%s: %d %s", base, path, code, body)
			}
		}
	}
	if code, _ := get(t, http.DefaultClient, addr+"/metrics"); code == http.StatusOK {
		t.Error("metrics are on the address of the API too")
	}
	code, body := get(t, http.DefaultClient, metrics)
	for _, want := range []string{"distlock_server_ready_ratio 1", "distlock_server_connections", "go_goroutines"} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d, no %s: %s", code, want, body)
		}
	}
	for line := range strings.Lines(s.err.String()) {
		var entry struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Level == "" || entry.Msg == "" {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// Without an address of their own, metrics are for clients that may observe all names.
func TestServe_metrics_observers(t *testing.T) {
	for local, want := range map[string]int{"acquire,observe": http.StatusOK, "acquire": http.StatusForbidden} {
		s := startServe(t, "--local", local)
		if code, body := get(t, http.DefaultClient, s.after("listens on ")+"/metrics"); code != want {
			t.Errorf("%s: %d %s", local, code, body)
		}
		s.end()
	}
}

// A collector gets metrics by the usual variables.
func TestServe_otlp(t *testing.T) {
	got := make(chan string, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + " " + string(body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	t.Setenv("OTEL_SERVICE_NAME", "locks-of-a-test")
	s := startServe(t)
	var out, err bytes.Buffer
	if code := execute(t.Context(), []string{"acquire", "--store", s.after("listens on "), "hidden-name"}, nil, &out, &err); code != 0 {
		t.Fatal(code, err.String())
	}
	s.end() // the end of the server sends what there is
	if code := <-s.code; code != 0 {
		t.Errorf("exit %d: %s", code, s.err.String())
	}
	close(got)
	var all string
	for one := range got {
		all += one + "\n"
	}
	for _, want := range []string{"/v1/metrics", "/v1/traces", "distlock.server.call.duration", "distlock.v1.Store/Acquire", "locks-of-a-test"} {
		if !strings.Contains(all, want) {
			t.Errorf("the collector got no %s", want)
		}
	}
	if strings.Contains(all, "hidden-name") {
		t.Error("the collector got the name of a lock")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if code := execute(t.Context(), []string{"serve", "--store", "memory:", "--demo", "--listen", "127.0.0.1:0"}, nil, &out, &err); code != exitUsage {
		t.Errorf("a protocol that there is not: exit %d", code)
	}
}

// systemd hears when the server is ready, and when it ends.
func TestServe_notifies(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("this system has no such sockets")
	}
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	s := startServe(t)
	state := func() string {
		buf := make([]byte, 100)
		_ = l.SetReadDeadline(time.Now().Add(30 * time.Second))
		n, err := l.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	if got := state(); got != "READY=1" {
		t.Error(got)
	}
	s.end()
	if got := state(); got != "STOPPING=1" {
		t.Error(got)
	}
}

// pki makes an authority, and certificates by it, as files in a folder.
type pki struct {
	t    *testing.T
	dir  string
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	p.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p.ca = &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, p.ca, p.ca, p.key.Public(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	if p.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	p.pool.AddCert(p.ca)
	p.write("ca.pem", "CERTIFICATE", der)
	return p
}

func (p *pki) write(name, kind string, der []byte) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

// issue writes NAME.pem and NAME-key.pem.
func (p *pki) issue(name string, uri string, left time.Duration) {
	p.t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(left), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if u, err := url.Parse(uri); err == nil && uri != "" {
		tmpl.URIs = append(tmpl.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, p.ca, key.Public(), p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(name+".pem", "CERTIFICATE", der)
	p.write(name+"-key.pem", "PRIVATE KEY", secret)
}

// A client with a certificate has the permissions of its identity, or of a beginning of it, in the
// file of tokens.
func TestServe_mTLS(t *testing.T) {
	p := newPKI(t)
	p.issue("server", "", time.Hour)
	p.issue("ci", "spiffe://prod/ci", time.Hour)
	tokens := p.path("tokens.toml")
	rules := "[[permission]]\nidentity = \"mtls:spiffe://prod/*\"\nnames = \"team-a/\"\nverbs = \"acquire\"\n"
	if err := os.WriteFile(tokens, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, "--tls-cert", p.path("server.pem"), "--tls-key", p.path("server-key.pem"), "--tls-client-ca", p.path("ca.pem"), "--tokens", tokens)
	base := s.after("listens on ")
	pair, err := tls.LoadX509KeyPair(p.path("ci.pem"), p.path("ci-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	acquire := func(name string, own ...tls.Certificate) string {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: p.pool, Certificates: own}}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/distlock.v1.Locks/Acquire", strings.NewReader(`{"name":"`+name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	for _, tt := range []struct {
		name string
		own  []tls.Certificate
		want string
	}{
		{"team-a/deploy", []tls.Certificate{pair}, `"granted":true`},
		{"team-b/deploy", []tls.Certificate{pair}, "permission_denied"},
		{"team-a/deploy", nil, "unauthenticated"},
	} {
		if got := acquire(tt.name, tt.own...); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if !strings.Contains(s.out.String(), `"mtls:spiffe://prod/ci"`) {
		t.Errorf("the audit does not know the client: %s", s.out.String())
	}
}

// doctor knows the lock server: its version, the identity of the client, and that its certificate
// is about to expire. The client has a certificate of its own.
func TestDoctor_server(t *testing.T) {
	p := newPKI(t)
	p.issue("server", "", 48*time.Hour)
	p.issue("ci", "spiffe://prod/ci", time.Hour)
	tokens := p.path("tokens.toml")
	rules := "[[permission]]\nidentity = \"mtls:spiffe://prod/ci\"\nnames = \"team-a/\"\nverbs = \"acquire\"\n"
	if err := os.WriteFile(tokens, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, "--tls-cert", p.path("server.pem"), "--tls-key", p.path("server-key.pem"), "--tls-client-ca", p.path("ca.pem"), "--tokens", tokens)
	base := s.after("listens on ") + "?tls_ca=" + p.path("ca.pem")
	var out, errs bytes.Buffer
	code := execute(t.Context(), []string{"doctor", "--json", "--store", base + "&tls_cert=" + p.path("ci.pem") + "&tls_key=" + p.path("ci-key.pem")}, nil, &out, &errs)
	for _, want := range []string{"this client is mtls:spiffe://prod/ci", "has a certificate that expires in 4", "a lock was acquired, denied to a rival, renewed and released"} {
		if code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("exit %d, no %q: %s%s", code, want, out.String(), errs.String())
		}
	}
	out.Reset()
	if code := execute(t.Context(), []string{"doctor", "--json", "--store", base}, nil, &out, &errs); code != exitUnavailable || !strings.Contains(out.String(), "no credentials") {
		t.Errorf("without a certificate: exit %d: %s", code, out.String())
	}
}
