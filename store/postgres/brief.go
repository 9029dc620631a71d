package postgres

import (
	"github.com/distlock/distlock/internal/pgwire"
)

// Brief prepares the store for a process that makes few calls and then ends, such as a command. The
// connection for claims also listens for notifications, so a process that waits for a lock has one
// connection instead of two. Each call takes a little longer, and one that waits for a transaction
// of another client delays the others. Call Brief before the first other call.
func (s *Store) Brief() { s.brief = s.listener.conf == nil }

// share makes the connection for claims listen, and returns it. It returns nil if there is a
// pooler.
func (l *listener) share() (*pgwire.Conn, error) {
	s := l.s
	if s.ready.Load() == nil { // a statement without effect connects
		if err := s.claims.do(l.ctx, &call{st: &s.st.nothing}); err != nil {
			return nil, err
		}
	}
	if known := s.ready.Load(); known == nil || known.pooled {
		return nil, nil
	}
	var conn *pgwire.Conn
	for i := range s.st.listen {
		c := &call{st: &s.st.listen[i]}
		if err := s.claims.do(l.ctx, c); err != nil {
			return nil, err
		}
		if i > 0 && c.conn != conn {
			return nil, errUnsent // the first one was on a connection that has ended
		}
		conn = c.conn
	}
	return conn, nil
}
