package sqlite

import "time"

// wallHost is a host that tells nothing of its boots: claims end by the time of day.
func wallHost() host {
	return host{
		elapsed: func() time.Duration { return time.Duration(time.Now().UnixNano()) },
		kind:    fileSystemOf,
	}
}

// A fileSystem is where the file lies.
type fileSystem struct {
	name    string
	foreign bool // other machines may write to it
	known   bool
}
