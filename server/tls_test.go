package server_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/server"
)

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{last: 1}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	return a
}

// sign returns a certificate and its key as files have them.
func (a *authority) sign(t *testing.T, change func(*x509.Certificate)) (cert, key []byte) {
	t.Helper()
	a.last++
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(a.last), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	change(tmpl)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// files are the files of a certificate.
type files struct{ dir, cert, key, clients string }

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{dir, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "clients.pem")}
}

// write replaces a file by rename, as programs that renew certificates do.
func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

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

// secure serves a handler with a certificate.
func secure(t *testing.T, c *server.Certificate, h http.Handler) *httptest.Server {
	t.Helper()
	web := httptest.NewUnstartedServer(h)
	web.Listener = tls.NewListener(web.Listener, c.TLS())
	web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	web.Start()
	t.Cleanup(web.Close)
	web.URL = "https://" + strings.TrimPrefix(web.URL, "http://")
	return web
}

// call makes a call on a new connection, and returns the serial number of the server's certificate
// and the answer.
func (a *authority) call(t *testing.T, url string, own ...tls.Certificate) (serial int64, body string, err error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: own, ServerName: "locks.example"}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.TLS.PeerCertificates[0].SerialNumber.Int64(), string(text), err
}

// A new certificate is used for new connections, and a broken file changes nothing.
func TestCertificate_reload(t *testing.T) {
	t.Parallel()
	a, f, log := newAuthority(t), newFiles(t), &text{}
	forServer := func(c *x509.Certificate) { c.DNSNames = []string{"locks.example"} }
	cert, key := a.sign(t, forServer)
	write(t, f.cert, cert)
	write(t, f.key, key)
	c, err := server.NewCertificate(f.cert, f.key, "", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	web := secure(t, c, http.NotFoundHandler())
	serial := func() int64 {
		n, _, err := a.call(t, web.URL)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %s", what, log)
			}
		}
	}
	if n := serial(); n != 2 {
		t.Fatalf("certificate %d", n)
	}
	write(t, f.cert, []byte("broken"))
	eventually("a broken file is not reported", func() bool { return serial() == 2 && strings.Contains(log.String(), "level=ERROR") })
	cert, key = a.sign(t, forServer)
	write(t, f.cert, cert) // the key is still the old one
	eventually("a wrong key is not reported", func() bool { return serial() == 2 && strings.Contains(log.String(), "private key") })
	write(t, f.key, key)
	eventually("the new certificate is not used", func() bool { return serial() == 3 })
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 {
		t.Errorf("%d errors, want one for each: %s", n, log)
	}
	if left := time.Until(c.Expires()); left < time.Minute || left > time.Hour {
		t.Errorf("it expires in %v", left)
	}
}

// A server does not start without a certificate, nor with authorities that are none.
func TestNewCertificate_refuses(t *testing.T) {
	t.Parallel()
	a, f := newAuthority(t), newFiles(t)
	cert, key := a.sign(t, func(*x509.Certificate) {})
	if _, err := server.NewCertificate(f.cert, f.key, "", nil); err == nil {
		t.Error("no file is a certificate")
	}
	write(t, f.cert, cert)
	write(t, f.key, key)
	write(t, f.clients, []byte("none"))
	if _, err := server.NewCertificate(f.cert, f.key, f.clients, nil); err == nil {
		t.Error("a file without a certificate is an authority")
	}
}

// A client is the URI of its certificate, or else its DNS name, and nobody by a certificate of
// another authority.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	a, foreign, f := newAuthority(t), newAuthority(t), newFiles(t)
	cert, key := a.sign(t, func(c *x509.Certificate) { c.DNSNames = []string{"locks.example"} })
	write(t, f.cert, cert)
	write(t, f.key, key)
	write(t, f.clients, a.pem())
	c, err := server.NewCertificate(f.cert, f.key, f.clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	web := secure(t, c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := server.ClientCertificate(r)
		switch {
		case err != nil:
			_, _ = io.WriteString(w, "error: "+err.Error())
		case id == nil:
			_, _ = io.WriteString(w, "nobody")
		default:
			_, _ = io.WriteString(w, id.Name)
		}
	}))
	spiffe := &url.URL{Scheme: "spiffe", Host: "prod", Path: "/ci"}
	for name, tt := range map[string]struct {
		by     *authority
		change func(*x509.Certificate)
		want   string // "": the handshake fails
	}{
		"URI":       {a, func(c *x509.Certificate) { c.URIs, c.DNSNames = []*url.URL{spiffe}, []string{"ci.example"} }, "mtls:spiffe://prod/ci"},
		"DNS":       {a, func(c *x509.Certificate) { c.DNSNames = []string{"ci.example", "other.example"} }, "mtls:ci.example"},
		"no name":   {a, func(c *x509.Certificate) { c.Subject.CommonName = "ci" }, "error: the certificate of the client has neither a URI nor a DNS name"},
		"none":      {nil, nil, "nobody"},
		"authority": {foreign, func(c *x509.Certificate) { c.DNSNames = []string{"ci.example"} }, ""},
		"expired": {a, func(c *x509.Certificate) {
			c.DNSNames, c.NotAfter = []string{"ci.example"}, time.Now().Add(-time.Minute)
		}, ""},
		"server": {a, func(c *x509.Certificate) {
			c.DNSNames, c.ExtKeyUsage = []string{"ci.example"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}, ""},
	} {
		var own []tls.Certificate
		if tt.by != nil {
			cert, key := tt.by.sign(t, tt.change)
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			own = append(own, pair)
		}
		// Both authorities have one name, because a client sends no certificate of an unknown one.
		_, got, err := a.call(t, web.URL, own...)
		if (err != nil) != (tt.want == "") || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
}
