//go:build !unix

package main

import "time"

// processTime is not known on this system.
func processTime() time.Duration { return 0 }
