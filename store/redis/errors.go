package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/distlock/distlock/driver"
)

// unavailable are the error codes that the server answers before a script or at its first write:
// nothing was changed. The cause of each may pass.
var unavailable = map[string]bool{
	"OOM":         true, // memory is full, and nothing may be evicted
	"READONLY":    true, // a replica, or a primary that was demoted
	"LOADING":     true, // the server has just started
	"MASTERDOWN":  true, // a replica that has lost its primary
	"CLUSTERDOWN": true, // slots without a node
	"TRYAGAIN":    true, // a slot that moves to another node
	"MOVED":       true, // redirected more often than the client follows
	"ASK":         true,
	"NOREPLICAS":  true, // min-replicas-to-write
	"MISCONF":     true, // the server cannot write to its disk
	"BUSY":        true, // another script runs too long
	"NOAUTH":      true, // authentication
	"WRONGPASS":   true,
	"NOPERM":      true, // permissions: checked before the script begins, but see stopped
}

// unavailableTexts are the beginnings of such errors without a code.
var unavailableTexts = []string{
	"max number of clients",
	"Protocol error: unauthenticated", // a long command without a password
}

// stopped is in the answer of Redis 7.2 and newer to a script that was stopped half way because the
// user lacks a permission: its earlier writes stay. Older servers give this error no code.
const stopped = "ACL failure in script"

// definite converts an error to one of the driver's contract.
func definite(key string, err error) error {
	if err == nil || errors.Is(err, driver.ErrUnavailable) {
		return err
	}
	reply := strings.TrimPrefix(replied(err), "ERR ") // some clients omit it
	code, _, _ := strings.Cut(reply, " ")
	var dial *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &cert): // nothing was sent
		return fmt.Errorf("%w: %w: name the authority with tls_ca", driver.ErrUnavailable, err)
	case code == "WRONGTYPE":
		return wrongType(key)
	case strings.Contains(reply, stopped):
		return err
	case unavailable[code], slices.ContainsFunc(unavailableTexts, func(p string) bool { return strings.HasPrefix(reply, p) }),
		errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return err
}

// elsewhere adds a hint to MOVED if the client is no cluster client: the server would answer MOVED
// for ever.
func (s *Store) elsewhere(err error) error {
	if !strings.HasPrefix(replied(err), "MOVED ") || s.client.Cluster() {
		return err
	}
	return fmt.Errorf("%w: the server is a node of a cluster: use redis+cluster://, or a cluster client", err)
}

// wrongType says that the Redis key holds something other than a lock.
func wrongType(key string) error {
	return fmt.Errorf("%w: the Redis key of %.64q holds something that is no lock", driver.ErrInvalid, key)
}
