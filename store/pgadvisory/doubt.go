package pgadvisory

// A connection holds a shared lock as many times as it acquired it. The server does not report the
// count, an unlock removes one of them without regard to the reader, and a rollback undoes neither.
// When a statement that acquires or frees a lock fails, it may have had its effect or not. A second
// unlock may then free the lock of another reader on the same connection, and nobody would notice.
//
// Such a claim is in doubt. It is freed when the connection has only claims in doubt on that
// number: then an unlock too many has no effect. Until then the real holders keep the lock, and
// more readers may join them. The connection stays open: closing it would end the claims of others.

// doubt records that it is unknown whether the server holds the lock of a busy claim. It reports
// whether the claim can be freed now. If not, the claim ends for its owner and is freed later. s.mu
// is held.
func (s *Store) doubt(c *claim, reason error) (now bool) {
	l := c.link
	c.state = releasing
	if !c.doubted {
		c.doubted = true
		l.doubts[c.number]++
	}
	if l.doubts[c.number] == l.holds[c.number] {
		s.settle(l, c.number)
		return true
	}
	l.forget(c)
	s.unlist(c)
	c.finish(reason == nil, reason)
	return false
}

// settle frees the claims in doubt if the connection has no other claims on the number. Meanwhile
// no reader joins: the unlock could free the lock of a reader that joined before it was sent. s.mu
// is held.
func (s *Store) settle(l *link, number int64) {
	if n := l.doubts[number]; n == 0 || n < l.holds[number] {
		return
	}
	for c := range l.claims {
		if c.number != number || c.busy != nil { // it is being freed
			continue
		}
		s.list(c)
		s.release(c, nil)
	}
}
