package pgwire

import (
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A Statement is one statement of a [Call], and its answer.
type Statement struct {
	Name    string // of the prepared statement
	SQL     string // prepares the statement under that name first; "": it is prepared
	Only    bool   // prepare it, and do not run it
	Args    [][]byte
	Formats []int16 // of the arguments: 1 is binary
	Results []int16 // of the columns

	Rows   [][][]byte
	Done   bool // the server has sent all rows, and an error may follow
	Parsed bool // the server has prepared it
}

// A Call is a transaction of some statements. A call without statements is a ping.
type Call struct {
	Statements []Statement

	// Then, if it is not nil, is called with the answer by the goroutine that reads, and then Done
	// is closed, if it is not nil.
	Then func(*Call)
	Done chan struct{}

	Err  error // the first error that the server sent
	Lost error // why the connection ended before the answer; nil: the answer is complete

	sent time.Time
	at   int // the statement whose answer is next
	one  [1]Statement
}

// Add adds a statement.
func (k *Call) Add(st Statement) {
	if k.Statements == nil {
		k.Statements = k.one[:0] // most calls have one
	}
	k.Statements = append(k.Statements, st)
}

func (k *Call) write(front *pgproto3.Frontend) {
	for i := range k.Statements {
		st := &k.Statements[i]
		if st.SQL != "" {
			front.SendParse(&pgproto3.Parse{Name: st.Name, Query: st.SQL})
		}
		if !st.Only {
			front.SendBind(&pgproto3.Bind{PreparedStatement: st.Name, Parameters: st.Args,
				ParameterFormatCodes: st.Formats, ResultFormatCodes: st.Results})
			front.SendExecute(&pgproto3.Execute{})
		}
	}
	front.SendSync(&pgproto3.Sync{})
}

// next returns the statement whose answer is next, or nil if the server sends too many.
func (k *Call) next() *Statement {
	if k == nil || k.at == len(k.Statements) {
		return nil
	}
	return &k.Statements[k.at]
}

func (k *Call) finish() {
	if k.Then != nil {
		k.Then(k)
	}
	if k.Done != nil {
		close(k.Done)
	}
}

// copied copies values, because the next message overwrites them.
func copied(values [][]byte) [][]byte {
	size := 0
	for _, v := range values {
		size += len(v)
	}
	out, buf := make([][]byte, len(values)), make([]byte, 0, size)
	for i, v := range values {
		if v != nil {
			at := len(buf)
			buf = append(buf, v...)
			out[i] = buf[at:len(buf):len(buf)]
		}
	}
	return out
}
