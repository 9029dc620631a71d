package server

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// conns bounds the connections of a server. If there are too many, the connection that has been
// without a request for the longest time is closed: that of a client which sends nothing, or which
// keeps it for later. If all have requests, the new connection is closed.
type conns struct {
	most    int // negative: no bound
	limited func(ctx context.Context, limit string)

	mu   sync.Mutex
	all  map[net.Conn]*list.Element // nil: it has a request
	idle *list.List                 // of net.Conn, the longest idle first
}

func newConns(most int, limited func(context.Context, string)) *conns {
	return &conns{most: most, limited: limited, all: map[net.Conn]*list.Element{}, idle: list.New()}
}

func (c *conns) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// changed is the ConnState of an [http.Server].
func (c *conns) changed(conn net.Conn, state http.ConnState) {
	if extra := c.note(conn, state); extra != nil {
		c.limited(context.Background(), limitConns)
		_ = inner(extra).Close() // without the farewell of TLS, which may take seconds
	}
}

// note notes the state of a connection, and returns one that is to be closed, or nil.
func (c *conns) note(conn net.Conn, state http.ConnState) (extra net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.all[conn]; e != nil {
		c.idle.Remove(e)
		c.all[conn] = nil
	}
	switch state {
	case http.StateNew:
		if c.most >= 0 && len(c.all) >= c.most {
			extra = conn
			if oldest := c.idle.Front(); oldest != nil {
				extra = oldest.Value.(net.Conn)
				c.idle.Remove(oldest)
				c.all[extra] = nil // until it is closed
			}
		}
		c.all[conn] = c.idle.PushBack(conn)
	case http.StateIdle:
		c.all[conn] = c.idle.PushBack(conn)
	case http.StateActive:
		c.all[conn] = nil
	case http.StateClosed, http.StateHijacked:
		delete(c.all, conn)
	}
	return extra
}
