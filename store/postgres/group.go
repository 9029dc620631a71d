package postgres

import "github.com/distlock/distlock/internal/pgwire"

// A group is a set of calls that run as one statement.
type group struct {
	st    *statement
	args  [][]byte
	calls []*call
}

// grouped combines adjacent calls whose statement has a form for many calls.
func grouped(calls []*call) []group {
	var groups []group
	for i := 0; i < len(calls); {
		first, n := calls[i], 1
		for first.st.all != nil && i+n < len(calls) && calls[i+n].st == first.st {
			n++
		}
		g := group{first.st, first.args, calls[i : i+n]}
		if n > 1 {
			g.st, g.args = first.st.all, columns(g.calls)
		}
		groups = append(groups, g)
		i += n
	}
	return groups
}

// columns returns an array for each parameter.
func columns(calls []*call) [][]byte {
	args := make([][]byte, len(calls[0].args))
	for p := range args {
		args[p] = array(len(calls), func(b []byte, i int) []byte {
			c := calls[i]
			switch arg := c.args[p]; {
			case arg == nil:
				return append(b, "null"...)
			case c.st.formats[p] == 1:
				return appendBytes(b, arg)
			default:
				return appendText(b, arg)
			}
		})
	}
	return args
}

// assign gives each call its rows from a connection. If the number of rows differs from the number
// of calls, no call gets any.
func (g group) assign(rows [][][]byte, conn *pgwire.Conn) {
	for i, c := range g.calls {
		c.answered, c.conn = true, conn
		switch len(g.calls) {
		case 1:
			c.rows = rows
		case len(rows):
			c.rows = rows[i : i+1]
		}
	}
}
