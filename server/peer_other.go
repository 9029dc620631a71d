//go:build !linux

package server

import (
	"net"
	"os"
	"strconv"

	"github.com/distlock/distlock/server/access"
)

// peerOf returns the server's own user for a Unix socket: its mode lets nobody else in. It returns
// nil for another connection.
func peerOf(c net.Conn) *access.Identity {
	if _, ok := inner(c).(*net.UnixConn); !ok {
		return nil
	}
	return access.Everything("unix:" + strconv.Itoa(os.Getuid()))
}
