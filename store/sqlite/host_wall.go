//go:build !linux

package sqlite

import "time"

// wallHost returns a host without a boot identifier: claims end by the time of day.
func wallHost() host {
	return host{
		elapsed: func() time.Duration { return time.Duration(time.Now().UnixNano()) },
		direct:  true, // processes that opened the file before and after a jump must agree
		kind:    fileSystemOf,
	}
}
