package rueidisstore

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

const (
	// soloAfter is how many calls in a row are sent at once before a connection is opened for them.
	soloAfter = 32

	// soloIdle is how long an unused connection counts as sound. A server, or a firewall on the
	// way, may close it unseen: nobody reads it between two calls.
	soloIdle = time.Second

	// soloPause is the time between two attempts to open a connection.
	soloPause = 5 * time.Second
)

// A solo is a connection for calls that are sent at once, one after the other. Their callers write
// and read it themselves. The connection that rueidis shares between goroutines does this too,
// until two calls meet on it. From then on, rueidis writes and reads it in goroutines of its own.
// To wake them takes as long as the rest of a call.
type solo struct {
	c       rueidis.DedicatedClient // nil: there is none
	taken   bool                    // a call uses it
	used    time.Time               // when the last call on it ended
	next    time.Time               // when it may be opened
	waiting int                     // calls in a row without it
}

// take returns the connection if a call may use it, or nil. A call that can be cancelled and has no
// deadline may not: rueidis would start its goroutines. It is called with mu held.
func (b *batcher) take(ctx context.Context, now time.Time) rueidis.DedicatedClient {
	s := &b.solo
	_, bounded := ctx.Deadline()
	switch {
	case s.taken, !b.single, !bounded && ctx.Done() != nil:
		return nil
	case s.c == nil:
		if s.waiting++; s.waiting > soloAfter && now.After(s.next) {
			s.waiting, s.next = 0, now.Add(soloPause)
			go b.open() //nolint:gosec,contextcheck // the connection outlives the call
		}
		return nil
	case now.Sub(s.used) > soloIdle:
		b.drop()
		return nil
	}
	s.taken = true
	return s.c
}

// put notes the end of the call on the connection. It is called with mu held.
func (b *batcher) put(res rueidis.RedisResult) {
	b.solo.taken, b.solo.used = false, time.Now()
	if b.closed || res.NonRedisError() != nil {
		b.drop()
	}
}

// drop closes the connection. It is called with mu held.
func (b *batcher) drop() {
	if b.solo.c != nil {
		go b.solo.c.Close()
		b.solo.c = nil
	}
}

// open opens the connection. It may wait for a connection of the client's pool.
func (b *batcher) open() {
	c, _ := b.c.Dedicate()
	ctx, cancel := context.WithTimeout(context.Background(), soloPause)
	defer cancel()
	res := c.Do(ctx, c.B().Ping().Build())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.solo.c, b.solo.used = c, time.Now()
	if b.closed || res.NonRedisError() != nil {
		b.drop()
		return
	}
	time.AfterFunc(soloIdle, b.trim)
}

// trim closes the connection if nothing uses it, and otherwise looks again later.
func (b *batcher) trim() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.solo.c == nil:
	case !b.solo.taken && time.Since(b.solo.used) >= soloIdle:
		b.drop()
	default:
		time.AfterFunc(soloIdle, b.trim)
	}
}

// abort ends the call on the connection. It is for a client that is closed.
func (b *batcher) abort() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
}
