//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd

package sqlite

func thisHost() (host, error) { return wallHost(), nil }
