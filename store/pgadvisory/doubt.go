package pgadvisory

// A connection has a shared lock as often as it took it. The server does not tell how often, an unlock takes back one of them
// whoever asked for it, and a rollback undoes neither. So when a statement that takes or frees a lock fails, it may have been done or not,
// and to free the lock again may free it for another reader on the same connection, who would not be told.
//
// Such a claim is in doubt. It is given back when no claim on its connection but such ones is left of the number: then an unlock too
// many finds nothing. Until then those who do hold the lock keep it, and more may join them. The connection is not broken: that would
// end what others hold.

// doubt notes that nobody knows whether the server holds the lock of a claim that is busy. It reports whether the claim can be given
// back now. If not, it is ended for its owner, and given back later. It is called with the lock held.
func (s *Store) doubt(c *claim, reason error) (now bool) {
	l := c.link
	c.state = leaving
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

// settle gives back the claims in doubt, if there are no others of the number on a connection. While it does, nobody joins: one who did
// so before the unlock is sent would be freed by it. It is called with the lock held.
func (s *Store) settle(l *link, number int64) {
	if n := l.doubts[number]; n == 0 || n < l.holds[number] {
		return
	}
	for c := range l.claims {
		if c.number != number || c.busy != nil { // it is given back just now
			continue
		}
		c.begin()
		s.list(c)
		s.wg.Go(func() { s.freeUnseen(c, 0, nil) })
	}
}
