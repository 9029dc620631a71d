//go:build !unix

package main

import (
	"errors"
	"os"
)

var errNoPause = errors.New("this example stops a process for a while, which this system cannot do from outside")

func stop(*os.Process) error { return errNoPause }

func resume(*os.Process) error { return errNoPause }
