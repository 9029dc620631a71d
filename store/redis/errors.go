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

// unavailable are the errors that the server answers before a script, or at its first write: nothing was
// changed. Each has a reason to pass.
var unavailable = map[string]bool{
	"OOM":         true, // memory is full, and nothing may be evicted
	"READONLY":    true, // a replica, or a primary that has become one
	"LOADING":     true, // the server has just started
	"MASTERDOWN":  true, // a replica that has lost its primary
	"CLUSTERDOWN": true, // slots that nobody serves
	"TRYAGAIN":    true, // a slot on its way to another node
	"MOVED":       true, // redirected more often than the client follows
	"ASK":         true,
	"NOREPLICAS":  true, // min-replicas-to-write
	"MISCONF":     true, // the disk
	"BUSY":        true, // somebody's script runs too long
	"NOAUTH":      true, // who we are
	"WRONGPASS":   true,
	"NOPERM":      true, // what we may do: checked before the script begins, but see stopped
}

// closedDoors are such errors that have no code of their own.
var closedDoors = []string{
	"max number of clients",
	"Protocol error: unauthenticated", // a long command by somebody who gave no password
}

// stopped is in the answer of Redis 7.2 and newer to a script that was stopped in the middle because the user lacks a right: what it wrote
// before stays. Older ones give such an error no code.
const stopped = "ACL failure in script"

// definite makes of an error what the contract says of it.
func definite(key string, err error) error {
	if err == nil || errors.Is(err, driver.ErrUnavailable) {
		return err
	}
	reply := strings.TrimPrefix(replied(err), "ERR ") // some clients leave it out
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
	case unavailable[code], slices.ContainsFunc(closedDoors, func(p string) bool { return strings.HasPrefix(reply, p) }),
		errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return err
}

// elsewhere says what to do if the server sends a client away that knows no cluster: it would do so for ever.
func (s *Store) elsewhere(err error) error {
	if !strings.HasPrefix(replied(err), "MOVED ") || s.client.Cluster() {
		return err
	}
	return fmt.Errorf("%w: the server is a node of a cluster: use redis+cluster://, or a client that knows clusters", err)
}

// wrongType says that something other than a lock lies under the key.
func wrongType(key string) error {
	return fmt.Errorf("%w: the Redis key of %.64q holds something that is no lock", driver.ErrInvalid, key)
}
