package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certs is a certificate authority with files for one server and its clients. The server's
// certificate is valid for 127.0.0.1, ::1 and localhost.
type Certs struct {
	CA   string // path of the authority's certificate
	Cert string // path of the certificate of server and client
	Key  string // path of its key

	ca    *x509.Certificate
	caKey *ecdsa.PrivateKey
}

// NewCerts makes an authority and a first certificate, valid for an hour, in dir.
func NewCerts(dir string) (*Certs, error) {
	c := &Certs{
		CA:   filepath.Join(dir, "ca.pem"),
		Cert: filepath.Join(dir, "cert.pem"),
		Key:  filepath.Join(dir, "key.pem"),
	}
	var err error
	if c.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	c.ca = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "testenv authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c.ca, c.ca, &c.caKey.PublicKey, c.caKey)
	if err != nil {
		return nil, err
	}
	if err := writePEM(c.CA, "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return c, c.Issue(time.Hour)
}

// Issue writes a new certificate and key, which expire after d. Servers read them when they start;
// Redis also on CONFIG SET tls-cert-file.
func (c *Certs) Issue(d time.Duration) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "testenv"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(d),
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, c.ca, &key.PublicKey, c.caKey)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(c.Cert, "CERTIFICATE", der); err != nil {
		return err
	}
	return writePEM(c.Key, "PRIVATE KEY", secret)
}

// Client returns a configuration for clients. It trusts the authority, and presents the current
// certificate if the server requests one.
func (c *Certs) Client() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, ServerName: "127.0.0.1"}, nil
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
