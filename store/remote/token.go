package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/distlock/distlock/internal/message"
)

// The errors of a client that a server does not know, or that may not do what it wants. A call with
// such an error changed nothing.
var (
	// ErrUnauthenticated says that a server wants credentials that the call did not have: see
	// [Options].Token. It is [driver.ErrUnavailable].
	ErrUnauthenticated = message.ErrUnauthenticated

	// ErrDenied says that the client may not do this to this name. It is [driver.ErrInvalid].
	ErrDenied = message.ErrDenied
)

// maxToken is the longest token in bytes. A server has 16 KiB for all headers.
const maxToken = 8 << 10

// envToken returns the token in the variable DISTLOCK_TOKEN, or in the file that
// DISTLOCK_TOKEN_FILE names. Without either, it returns "".
func envToken() (string, error) {
	if token, has := os.LookupEnv("DISTLOCK_TOKEN"); has {
		if token == "" {
			return "", errors.New("DISTLOCK_TOKEN is empty: unset it, or give it a value")
		}
		return token, nil
	}
	path, has := os.LookupEnv("DISTLOCK_TOKEN_FILE")
	if !has {
		return "", nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	var failed *fs.PathError
	switch {
	case errors.As(err, &failed):
		return "", fmt.Errorf("DISTLOCK_TOKEN_FILE: %w", failed)
	case err != nil:
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", errors.New("the file of DISTLOCK_TOKEN_FILE is empty")
	}
	return token, nil
}

// credentials are the token of a client.
type credentials struct {
	read func() (string, error)

	mu    sync.Mutex
	token string
}

// newCredentials reads the token. It is sent to servers on this host, and to others only by TLS.
func newCredentials(t *target, opt *Options) (*credentials, error) {
	c := &credentials{read: opt.Token}
	if c.read == nil {
		c.read = envToken
	}
	if err := c.refresh(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	if c.token == "" || t.scheme == "https" || t.network == "unix" || t.plain {
		return c, nil
	}
	for _, addr := range t.addrs {
		if !onThisHost(addr) {
			return nil, fmt.Errorf("%w: others could read the token on its way to %.64s: use https://, "+
				"or token_without_tls=true if the network encrypts", ErrURL, addr)
		}
	}
	return c, nil
}

// onThisHost reports whether an address is certainly one of this host.
func onThisHost(addr string) bool {
	host, _, err := net.SplitHostPort(withPort(addr, "http"))
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func (c *credentials) now() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token
}

// refresh reads the token again. Its errors have nothing of the token.
func (c *credentials) refresh() error {
	token, err := c.read()
	if err != nil {
		return err
	}
	if len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token is no token: it has spaces or other signs")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = token
	return nil
}
