package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server/access"
)

const (
	// auditQueue is the number of entries that wait for a slow writer. More are lost, and counted:
	// a reader of the audit that stalls must not stop the locks.
	auditQueue = 4096

	// foldFor is how long equal refusals are counted before they are written as one entry, and
	// foldMost how many different ones are counted at the same time. More are counted by identity
	// alone: a client without rights must not fill the disk.
	foldFor  = time.Second
	foldMost = 1024

	// maxText is how much of a name or a reason is recorded.
	maxText = driver.MaxKey
)

// An Entry is one line of the audit: a grant, a release, a break, or a call that was refused for
// want of rights.
type Entry struct {
	Time     time.Time `json:"time"`
	Identity string    `json:"identity"`
	Remote   string    `json:"remote,omitempty"` // the address of the client
	Verb     string    `json:"verb"`             // acquire, release, break, observe; or the route
	Kind     string    `json:"kind,omitempty"`   // of lock
	Name     string    `json:"name,omitempty"`
	Fence    uint64    `json:"fence,omitempty"`
	Owner    string    `json:"owner,omitempty"` // the tag of the owner: never the owner itself
	Outcome  string    `json:"outcome"`         // granted, released, broken, begun, failed, unknown, denied, unauthenticated
	Reason   string    `json:"reason,omitempty"`
	Count    int       `json:"count,omitempty"` // so many equal refusals since the last one

	subject subject
}

// An Audit records what clients did, as lines of JSON. Grants, releases, breaks and refusals for
// want of rights are recorded. Renewals, busy answers and reads are not.
type Audit struct {
	entries chan auditEntry
	closing chan struct{}
	done    sync.WaitGroup
	lost    atomic.Int64
	err     atomic.Pointer[error] // of the last write

	w      io.Writer
	folded map[Entry]int // refusals, with how many came since they were written
}

// An auditEntry is an entry on its way. If written is not nil, it gets the result of the write.
type auditEntry struct {
	*Entry
	written chan error
}

// NewAudit returns an audit that is written to w, one line for each Write. The caller closes it
// when the server has ended.
func NewAudit(w io.Writer) *Audit {
	a := &Audit{entries: make(chan auditEntry, auditQueue), closing: make(chan struct{}), w: w, folded: map[Entry]int{}}
	a.done.Go(a.run)
	return a
}

// Close writes the entries that wait, and ends the audit.
func (a *Audit) Close() error {
	close(a.closing)
	a.done.Wait()
	return a.Err()
}

// Err returns the error of the last write, or why an entry was lost since. It is nil if all is
// well.
func (a *Audit) Err() error {
	if a == nil {
		return nil
	}
	if err := a.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Lost returns how many entries were lost, because writing failed or was too slow.
func (a *Audit) Lost() int64 { return a.lost.Load() }

// add records an entry, later.
func (a *Audit) add(e *Entry) {
	select {
	case a.entries <- auditEntry{Entry: e}:
	default:
		a.lost.Add(1)
		a.err.Store(&errStalled)
	}
}

var errStalled = errors.New("server: the audit is not written fast enough")

// write records an entry, and returns when it is written.
func (a *Audit) write(ctx context.Context, e *Entry) error {
	written := make(chan error, 1)
	select {
	case a.entries <- auditEntry{e, written}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run writes entries until the audit is closed.
func (a *Audit) run() {
	var fold <-chan time.Time
	for {
		select {
		case e := <-a.entries:
			if a.handle(e); fold == nil && len(a.folded) > 0 {
				fold = time.After(foldFor)
			}
		case <-fold:
			a.unfold()
			fold = nil
		case <-a.closing:
			for len(a.entries) > 0 {
				a.handle(<-a.entries)
			}
			a.unfold()
			return
		}
	}
}

// handle writes an entry, unless it is a refusal like one that was written within the last second,
// or one of too many: those are counted.
func (a *Audit) handle(e auditEntry) {
	if e.Outcome == outcomeDenied || e.Outcome == outcomeUnauthenticated {
		like := *e.Entry
		like.Time = time.Time{}
		if n, known := a.folded[like]; known {
			a.folded[like] = n + 1
			return
		}
		if len(a.folded) >= foldMost {
			a.folded[Entry{Identity: e.Identity, Outcome: e.Outcome, Reason: manyRefusals}]++
			return
		}
		a.folded[like] = 0
	}
	err := a.line(e.Entry)
	if e.written != nil {
		e.written <- err
	}
}

// unfold writes how often the refusals of the last second came again.
func (a *Audit) unfold() {
	for e, n := range a.folded {
		if n > 0 {
			e.Time, e.Count = time.Now().UTC(), n
			_ = a.line(&e) // see Err
		}
	}
	clear(a.folded)
}

func (a *Audit) line(e *Entry) error {
	text, err := json.Marshal(e)
	if err == nil {
		_, err = a.w.Write(append(text, '\n'))
	}
	if err != nil {
		a.lost.Add(1)
		a.err.Store(&err)
		return err
	}
	a.err.Store(nil)
	return nil
}

// manyRefusals is the reason of an entry that stands for refusals which differ.
const manyRefusals = "too many different refusals to record each"

// The outcomes of refusals.
const (
	outcomeDenied          = "denied"
	outcomeUnauthenticated = "unauthenticated"
)

// entry completes an entry with its caller.
func (s *Server) entry(ctx context.Context, e *Entry) *Entry {
	e.Time, e.Identity, e.Remote = time.Now().UTC(), access.FromContext(ctx).Name, callOf(ctx).remote
	if e.Name = e.subject.name; e.subject.is == named {
		e.Kind = e.subject.kind.Word()
	}
	// A caller without rights may send texts of any length: it must not fill the memory or the
	// disk.
	e.Name, e.Reason = brief(e.Name), brief(e.Reason)
	e.subject = subject{}
	return e
}

// brief returns the beginning of a text.
func brief(s string) string {
	if len(s) > maxText {
		return s[:maxText] + "..."
	}
	return s
}

// audit records an entry.
func (s *Server) audit(ctx context.Context, e *Entry) {
	if s.opt.Audit != nil {
		s.opt.Audit.add(s.entry(ctx, e))
	}
}

// refused records a call that was refused by its route.
func (s *Server) refused(ctx context.Context, err error) {
	outcome := outcomeDenied
	if message.ReasonOf(err).GetKind() == api.Reason_KIND_UNAUTHENTICATED {
		outcome = outcomeUnauthenticated
	}
	path := ""
	if r := callOf(ctx).request; r != nil {
		path = r.URL.Path
	}
	s.audit(ctx, &Entry{Verb: fmt.Sprintf("%.64s", path), Outcome: outcome, Reason: message.ReasonOf(err).GetText()})
}

// acquired records a grant, and an attempt that may have been granted.
func (s *Server) acquired(ctx context.Context, id driver.ID, granted bool, fence uint64, err error) {
	to, outcome := about(id.Key), "granted"
	switch {
	case to.is == probe || to.is == notice:
		return
	case err != nil && message.Reason(err).GetKind() == api.Reason_KIND_UNKNOWN:
		outcome = "unknown"
	case err != nil || !granted:
		return
	}
	s.audit(ctx, &Entry{Verb: "acquire", subject: to, Fence: fence, Owner: driver.Tag(id.Owner), Outcome: outcome})
}

// released records a release, and one that may have taken effect.
func (s *Server) released(ctx context.Context, id driver.ID, err error) {
	to, outcome := about(id.Key), "released"
	switch {
	case to.is == probe || to.is == notice:
		return
	case err != nil && message.Reason(err).GetKind() == api.Reason_KIND_UNKNOWN:
		outcome = "unknown"
	case err != nil:
		return
	}
	s.audit(ctx, &Entry{Verb: "release", subject: to, Owner: driver.Tag(id.Owner), Outcome: outcome})
}

var errNoAudit = errors.New("this server records nothing, and without a record nobody breaks locks: start it with --audit")

// begin records that claims are about to be broken. It fails if that cannot be recorded.
func (s *Server) begin(ctx context.Context, to subject, reason string) error {
	err := errNoAudit
	if s.opt.Audit != nil {
		err = s.opt.Audit.write(ctx, s.entry(ctx, &Entry{Verb: "break", subject: to, Outcome: "begun", Reason: reason}))
	}
	if err != nil {
		s.opt.Logger.ErrorContext(ctx, "a break was refused, because it cannot be recorded", "error", err)
		return message.Error(&api.Reason{
			Kind: api.Reason_KIND_UNAVAILABLE, Text: "nothing was broken, because it cannot be recorded: the server has no audit, or cannot write it",
		})
	}
	return nil
}

// broken records what was broken.
func (s *Server) broken(ctx context.Context, to subject, reason string, claims []driver.Claim, err error) {
	e := Entry{Verb: "break", subject: to, Outcome: "broken", Reason: reason}
	switch {
	case err != nil && message.Reason(err).GetKind() == api.Reason_KIND_UNKNOWN:
		e.Outcome = "unknown"
		s.audit(ctx, &e)
	case err != nil:
		e.Outcome = "failed"
		s.audit(ctx, &e)
	case len(claims) == 0:
		e.Outcome = "nothing to break"
		s.audit(ctx, &e)
	}
	for _, c := range claims {
		one := e
		one.Fence, one.Owner = c.Fence, c.Owner
		s.audit(ctx, &one)
	}
}
