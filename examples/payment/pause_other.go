//go:build !unix

package main

import (
	"errors"
	"os"
)

var errNoPause = errors.New("this example stops a process for a while, and this system cannot do that")

func stop(*os.Process) error { return errNoPause }

func resume(*os.Process) error { return errNoPause }
