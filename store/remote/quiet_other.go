//go:build !unix

package remote

import "syscall"

const canPeek = false

func quiet(syscall.RawConn) bool { return false }
