package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// Ports are taken from below the range that systems use for outgoing connections (32768 and up).
// Any dial could take a port of that range while its server is down, and a client that dials such a
// port could even be connected with itself.
//
// Each test binary owns a block of ports while it listens on the block's first one. Test binaries
// that run side by side therefore never use the same port, also not the port of a server that was
// killed and will be restarted. The port of a Redis cluster's bus is 10000 above, still below the
// range and outside all blocks.
const (
	portMin   = 12000
	portMax   = 22000
	blockSize = 100
	busOffset = 10000
)

var errNoPorts = errors.New("no free ports: all blocks between 12000 and 22000 are taken")

// ports hands out the ports of this process. It is shared by all tests of the binary.
var ports portBlocks

type portBlocks struct {
	mu     sync.Mutex
	guards []net.Listener // on the first port of each block; closed by the end of the process
	next   []int          // free ports, the longest unused first
}

// take returns a port that is free, and whose bus port is free too.
func (b *portBlocks) take() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for i, port := range b.next {
			if free(port) && free(port+busOffset) {
				b.next = append(b.next[:i:i], b.next[i+1:]...)
				return port, nil
			}
		}
		if err := b.grow(); err != nil {
			return 0, err
		}
	}
}

// listen listens on a free port of the host.
func (b *portBlocks) listen(host string) (net.Listener, int, error) {
	for {
		port, err := b.take()
		if err != nil {
			return nil, 0, err
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return l, port, nil
		}
		b.give(port)
		// A process that was forked during the check of take holds the checked socket until it
		// executes its program.
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, 0, err
		}
	}
}

// give returns a port. The port goes to the end of the list, so that a late client of a server that
// is gone does not soon meet another server.
func (b *portBlocks) give(port int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = append(b.next, port)
}

// grow takes another block.
func (b *portBlocks) grow() error {
	const blocks = (portMax - portMin) / blockSize
	for _, i := range rand.Perm(blocks) {
		first := portMin + i*blockSize
		guard, err := net.Listen("tcp", loopback(first))
		if err != nil {
			continue
		}
		b.guards = append(b.guards, guard)
		for port := first + 1; port < first+blockSize; port++ {
			b.next = append(b.next, port)
		}
		return nil
	}
	return errNoPorts
}

func free(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
