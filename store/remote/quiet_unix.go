//go:build unix

package remote

import (
	"errors"
	"syscall"
)

// canPeek says that [quiet] works.
const canPeek = true

// quiet reports whether nothing has arrived on an idle connection, not even its end.
func quiet(raw syscall.RawConn) (yes bool) {
	err := raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		yes = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && yes
}
