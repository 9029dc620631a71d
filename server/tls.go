package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/server/access"
)

// reloadAge is how often the files of a [Certificate] are looked at.
const reloadAge = time.Second

// A Certificate is a certificate of the server in files. Handshakes use the files as they are: a
// file that was changed is read again within a second. While a file is broken, the last good ones
// stay in use.
type Certificate struct {
	cert, key, clients string
	log                *slog.Logger

	mu     sync.Mutex
	looked time.Time
	files  []os.FileInfo // when they were read last
	broken string        // the error of the last try, which is logged once
	config *tls.Config
}

// NewCertificate reads the files with a certificate, with its key and, unless clients is "", with
// the authorities of clients: see [ClientCertificate]. The logger receives that a file was read
// again, or could not be.
func NewCertificate(cert, key, clients string, log *slog.Logger) (*Certificate, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Certificate{cert: cert, key: key, clients: clients, log: log, looked: time.Now()}
	c.files = c.stat()
	config, err := c.read()
	c.config = config
	return c, err
}

// TLS returns the configuration of a listener.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(), nil },
	}
}

// protocols are those of a connection with TLS.
var protocols = []string{"h2", "http/1.1"}

// Expires returns when the certificate ends.
func (c *Certificate) Expires() time.Time { return c.current().Certificates[0].Leaf.NotAfter }

// current returns the configuration by the files.
func (c *Certificate) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.looked) < reloadAge {
		return c.config
	}
	c.looked = now
	files := c.stat() // before the files are read, so that no later change is missed
	if c.broken == "" && slices.EqualFunc(files, c.files, same) {
		return c.config
	}
	config, err := c.read()
	c.files = files
	switch {
	case err == nil:
		c.config, c.broken = config, ""
		c.log.Info("the certificate was read again", "file", c.cert, "expires", config.Certificates[0].Leaf.NotAfter)
	case err.Error() != c.broken:
		c.broken = err.Error()
		c.log.Error("the certificate cannot be read, and the old one stays in use", "err", err)
	}
	return c.config
}

// stat looks at the files. A file that is missing is nil.
func (c *Certificate) stat() (files []os.FileInfo) {
	for _, path := range []string{c.cert, c.key, c.clients} {
		info, _ := os.Stat(path) // reading it returns the error
		files = append(files, info)
	}
	return files
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// read reads the files. A new configuration has new keys for the tickets of sessions, so that no
// session goes on whose client an old authority has vouched for.
func (c *Certificate) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{pair}}
	if c.clients == "" {
		return config, nil
	}
	pem, err := os.ReadFile(c.clients)
	if err != nil {
		return nil, err
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", c.clients)
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven // others have tokens
	return config, nil
}

// ClientCertificate is an [Authenticator] for clients with a certificate that the authorities of a
// [Certificate] have signed. The identity is "mtls:" and the first URI of the certificate, or else
// its first DNS name. It has no permissions of its own.
func ClientCertificate(r *http.Request) (*access.Identity, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, nil //nolint:nilnil // see Authenticator
	}
	leaf := r.TLS.VerifiedChains[0][0]
	switch {
	case time.Now().After(leaf.NotAfter): // since the handshake
		return nil, errors.New("the certificate of the client has expired")
	case len(leaf.URIs) > 0:
		return &access.Identity{Name: "mtls:" + leaf.URIs[0].String()}, nil
	case len(leaf.DNSNames) > 0:
		return &access.Identity{Name: "mtls:" + leaf.DNSNames[0]}, nil
	}
	return nil, errors.New("the certificate of the client has neither a URI nor a DNS name")
}
