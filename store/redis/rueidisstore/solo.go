package rueidisstore

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

const (
	// soloAfter is how many round trips that follow each other closely find no connection of their
	// own before one is opened.
	soloAfter = 32

	// soloIdle is how long an unused connection counts as sound. A server, or a firewall on the
	// way, may close it unseen: nobody reads it between two calls.
	soloIdle = time.Second

	// soloLook is the time between two looks at the contexts of the calls on these connections:
	// rueidis observes only the deadline.
	soloLook = 5 * time.Millisecond

	// soloPause is how long no connection is opened after one has failed.
	soloPause = 5 * time.Second
)

// A conn is what round trips are sent on.
type conn interface {
	Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult
	DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult
	B() rueidis.Builder
}

// A solo is a connection for one round trip at a time. The goroutine that sends it writes and reads
// the connection itself. The connection that rueidis shares between goroutines does this too, until
// two calls meet on it. From then on, rueidis writes and reads it in goroutines of its own. To wake
// them takes as long as the rest of a call.
type solo struct {
	c     rueidis.DedicatedClient
	taken bool            // a round trip uses it
	ctx   context.Context // of the call that its caller sends on it; nil: there is none
	count int             // of the round trips on it
	used  time.Time       // when the last round trip on it ended
}

// solos are the connections of a batcher that one round trip uses at a time: at most minTrips.
type solos struct {
	all     []*solo
	opening bool      // another is being opened
	looks   bool      // a timer calls look
	next    time.Time // when it may be opened
	waiting int       // round trips that found none
}

// taken returns how many connections are in use.
func (s *solos) taken() (n int) {
	for _, one := range s.all {
		if one.taken {
			n++
		}
	}
	return n
}

// drop closes the connections that f selects.
func (s *solos) drop(f func(*solo) bool) {
	stay := s.all[:0]
	for _, one := range s.all {
		if f(one) {
			go one.c.Close()
		} else {
			stay = append(stay, one)
		}
	}
	clear(s.all[len(stay):])
	s.all = stay
}

// The methods below are called with mu held, except open, look and abort.

// take returns a connection that a round trip may use, or nil. A call that can be cancelled and has
// no deadline may not: rueidis would start its goroutines.
func (b *batcher) take(ctx context.Context, now time.Time) *solo {
	s := &b.solos
	if _, bounded := ctx.Deadline(); !b.single || !bounded && ctx.Done() != nil {
		return nil
	}
	if now.Sub(b.lastReply) >= fresh {
		s.waiting = 0
		return nil
	}
	for _, one := range s.all {
		if !one.taken && now.Sub(one.used) <= soloIdle {
			one.taken = true
			one.count++
			return one
		}
	}
	if s.waiting++; s.waiting > soloAfter && len(s.all) < minTrips && !s.opening && now.After(s.next) {
		s.waiting, s.opening = 0, true
		go b.open() //nolint:gosec,contextcheck // the connection outlives the call
	}
	return nil
}

// conn returns the connection of a round trip: its own, or the shared one.
func (b *batcher) conn(own *solo) conn {
	if own == nil {
		return b.c
	}
	return own.c
}

// put notes the end of a round trip on its own connection.
func (b *batcher) put(own *solo, res rueidis.RedisResult) {
	if own == nil {
		return
	}
	own.taken, own.ctx, own.used = false, nil, time.Now()
	if res.NonRedisError() != nil {
		b.solos.next = own.used.Add(soloPause)
	} else if !b.closed {
		return
	}
	b.solos.drop(func(s *solo) bool { return s == own })
}

// open opens a connection. It may wait for one of the client's pool.
func (b *batcher) open() {
	c, _ := b.c.Dedicate()
	ctx, cancel := context.WithTimeout(context.Background(), soloPause)
	defer cancel()
	res := c.Do(ctx, c.B().Ping().Build())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.solos.opening = false
	one := &solo{c: c}
	b.solos.all = append(b.solos.all, one)
	if b.put(one, res); !b.solos.looks && len(b.solos.all) > 0 {
		b.solos.looks = true
		time.AfterFunc(soloLook, b.look)
	}
}

// look closes the connections that nothing uses, and those with a call whose ctx has ended: then
// the call returns. It looks again later if there are others.
func (b *batcher) look() {
	b.mu.Lock()
	b.solos.drop(func(s *solo) bool { return !s.taken && time.Since(s.used) >= soloIdle })
	var calls []solo // as they are now
	for _, one := range b.solos.all {
		if one.ctx != nil {
			calls = append(calls, *one)
		}
	}
	if b.solos.looks = len(b.solos.all) > 0; b.solos.looks {
		time.AfterFunc(soloLook, b.look)
	}
	b.mu.Unlock()
	for _, c := range calls {
		if c.ctx.Err() != nil { // a ctx may do anything: without the lock
			b.mu.Lock()
			b.solos.drop(func(s *solo) bool { return s.c == c.c && s.taken && s.count == c.count })
			b.mu.Unlock()
		}
	}
}

// abort ends the round trips on their own connections. It is for a client that is closed.
func (b *batcher) abort() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.solos.drop(func(*solo) bool { return true })
}
