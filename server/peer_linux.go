package server

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/distlock/distlock/server/access"
)

// peerOf returns the identity of the user at the other end of a Unix socket, or nil for another
// connection.
func peerOf(c net.Conn) *access.Identity {
	unix, ok := inner(c).(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return nil
	}
	var cred *syscall.Ucred
	if failed := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); failed != nil || err != nil {
		return nil
	}
	name := fmt.Sprint("unix:", cred.Uid)
	if int(cred.Uid) == os.Getuid() {
		return access.Everything(name)
	}
	return &access.Identity{Name: name}
}
