//go:build !unix

package sqlite

import "errors"

// A socket does not exist on this system: waiters poll.
type socket struct{}

func listen(folder, name string) (*socket, error) { return nil, errors.ErrUnsupported }

func (s *socket) receive(func(string)) {}

func (s *socket) close() {}

func sendHint(folder, name, hint string) error { return errors.ErrUnsupported }
