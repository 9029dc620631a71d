package pgadvisory

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/pgwire"
)

// A row is what the server reports about a holder or waiter of a lock.
type row struct {
	pid       int64
	exclusive bool
	granted   bool
	waited    time.Duration
	name      string // of the application
}

// claim returns the public form of a row. The server knows neither owner nor fence of other
// processes.
func (r row) claim(key string) driver.Claim {
	c := driver.Claim{Key: key, Weight: 1, Limit: driver.Whole, Waiting: !r.granted, Held: r.waited}
	if r.exclusive {
		c.Weight = driver.Whole
	}
	c.Holder = fmt.Sprintf("%s (server process %d)", cmp.Or(r.name, "unknown"), r.pid)
	return c
}

// refuse returns the blocker of an attempt, and enqueues the attempt if it watches. Facts that the
// server does not report are left out: the refusal itself is certain.
func (s *Store) refuse(ctx context.Context, a *attempt) driver.Result {
	s.mu.Lock()
	s.enqueue(a)
	res := driver.Result{Used: s.used(a.number)}
	own := s.inTheWay(a)
	if own != nil {
		res.Blocker = s.shown(own)
		res.Retry = res.Blocker.Left
	}
	s.mu.Unlock()
	if own != nil && own.exclusive() {
		return res // there is nobody else
	}
	others, _ := s.others(ctx, a)
	for _, r := range others {
		c := r.claim(a.Key)
		if r.granted {
			res.Used += c.Weight
			res.Retry = 0 // the end of that claim is unknown
		}
		if res.Blocker.Key == "" {
			res.Blocker = c
		}
	}
	if res.Blocker.Key == "" { // it has ended by now, or the server does not report it
		res.Blocker = driver.Claim{Key: a.Key, Weight: driver.Whole, Limit: driver.Whole,
			Holder: "unknown"}
	}
	return res
}

// inTheWay returns the claim of this process that blocks an attempt and ends first. s.mu is held.
func (s *Store) inTheWay(a *attempt) (first *claim) {
	for c := range s.byKey[a.number] {
		if c.state == held && c.ID != a.ID && (c.exclusive() || a.Weight == driver.Whole) &&
			(first == nil || c.ends < first.ends) {
			first = c
		}
	}
	return first
}

// others returns the other holders and waiters of the lock, holders first.
func (s *Store) others(ctx context.Context, a *attempt) ([]row, error) {
	sent := s.clock.Now()
	rows, err := s.look(ctx, a.number)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := map[int64]bool{}
	for l := range s.links {
		own[l.pid] = true
	}
	for c := range s.byKey[a.number] {
		if c.link == nil || !c.link.waits && c.state != ready {
			continue
		}
		i := slices.IndexFunc(rows, func(r row) bool { return r.pid == c.link.pid })
		switch {
		case i >= 0 && !rows[i].granted:
			c.since = max(c.since, sent) // it was not granted before
		case i < 0 && c.state == waiting && sent-c.since > time.Second:
			// It should be in the queue and is not: the connection was lost unnoticed.
			c.link.Close()
		}
	}
	return slices.DeleteFunc(rows, func(r row) bool { return own[r.pid] }), nil
}

// look queries the server for the holders and waiters of a lock.
func (s *Store) look(ctx context.Context, lock int64) (rows []row, err error) {
	l, err := s.anyLink(ctx)
	if err != nil {
		return nil, err
	}
	var answer *pgwire.Call
	done := make(chan struct{})
	key := binary.BigEndian.AppendUint64(nil, uint64(lock))
	err = l.send(look, [][]byte{key}, func(k *pgwire.Call) { answer = k; close(done) })
	s.mu.Lock()
	l.questions--
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := l.Await(ctx, done); err != nil {
		return nil, err
	}
	if answer.Lost != nil {
		return nil, &lostError{answer.Lost}
	}
	for _, columns := range answer.Statements[0].Rows {
		var n [4]int64
		for i := range n {
			n[i], _ = number(columns[i])
		}
		rows = append(rows, row{n[0], n[1] == 1, n[2] == 1, time.Duration(n[3]) * time.Millisecond,
			string(columns[4])})
	}
	return rows, answer.Err
}

// anyLink returns a connection for a question. No waiter uses it until the question is sent; the
// caller decrements questions then.
func (s *Store) anyLink(ctx context.Context) (*link, error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, errClosed
		}
		l, wait := s.pick(0, time.Minute)
		if l == nil && wait == nil {
			for o := range s.links {
				if calls, first, _ := o.Load(); !o.waits && (calls == 0 || first < stuck) {
					l = o
				}
			}
			if l == nil {
				s.dialing++
			}
		}
		if l != nil {
			l.questions++
		}
		s.mu.Unlock()
		switch {
		case l != nil:
			return l, nil
		case wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		default:
			if err := s.dial(ctx); err != nil {
				return nil, err
			}
		}
	}
}

// Show returns the holders of a key's lock, this process's claims first, and then the waiters. For
// other processes it returns the application's name and the server's process, but neither owner nor
// fence: the server does not know them.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	a := &attempt{Request: driver.Request{ID: driver.ID{Key: key}}, number: s.number(key)}
	others, err := s.others(ctx, a)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var own []*claim
	for c := range s.byKey[a.number] {
		if c.state == held && c.Key == key {
			own = append(own, c)
		}
	}
	slices.SortFunc(own, func(a, b *claim) int { return cmp.Compare(a.since, b.since) })
	var out []driver.Claim
	for _, c := range own {
		out = append(out, s.shown(c))
	}
	for _, r := range others {
		out = append(out, r.claim(key))
	}
	return out, nil
}

// Losses returns a channel that receives the claims of a connection that has ended.
func (s *Store) Losses(ctx context.Context) <-chan []driver.ID {
	losses := make(chan []driver.ID, 16) // a slow receiver notices the loss at its next renewal
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses = append(s.losses, losses)
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.losses = slices.DeleteFunc(s.losses, func(c chan []driver.ID) bool { return c == losses })
	})
	return losses
}

// notifyLosses sends ids to all channels of Losses. s.mu is held.
func (s *Store) notifyLosses(ids []driver.ID) {
	for _, c := range s.losses {
		select {
		case c <- ids:
		default:
		}
	}
}
