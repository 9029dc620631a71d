//go:build !unix

package sqlite

import "errors"

// A socket is not there on this system: those who wait ask from time to time.
type socket struct{}

func listen(folder, name string) (*socket, error) { return nil, errors.ErrUnsupported }

func (s *socket) receive(func(string)) {}

func (s *socket) close() {}

func tell(folder, name, news string) error { return errors.ErrUnsupported }
