package chaos

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNoAnswer is the error of a call whose request or reply was lost. Its outcome is unknown.
	// If its ctx ended meanwhile, the error also wraps the error of the ctx.
	ErrNoAnswer = errors.New("chaos: no answer")

	// ErrClosed is the error of calls to a Store that is closed, or was closed during the call. In
	// the second case the outcome is unknown.
	ErrClosed = errors.New("chaos: link closed")
)

// A Kind is a kind of fault.
type Kind uint8

// The kinds.
const (
	RequestLost Kind = iota + 1 // nothing arrives, and the caller gets no reply
	ReplyLost                   // the request is executed, and the caller gets no reply
	RequestLate                 // it arrives later, also after the caller has given up
	ReplyLate
	Repeated    // it arrives twice, the second time later; the caller gets the first reply
	Frozen      // nothing of this client moves for a while; then everything continues
	Unavailable // driver.ErrUnavailable, and nothing arrives
	WakeLost    // a watch stays silent though there is news
	WakeFalse   // a watch is ready though there is no news
	CutOff      // by command only: everything sent in a direction is lost
)

func (k Kind) String() string {
	names := [...]string{
		"", "request lost", "reply lost", "request late", "reply late", "repeated",
		"frozen", "unavailable", "wake lost", "wake false", "cut off",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// A Verb is the name of a call to a store.
type Verb string

// The verbs.
const (
	Acquire  Verb = "acquire"
	Renew    Verb = "renew"
	Release  Verb = "release"
	RenewAll Verb = "renew all"
	Watch    Verb = "watch"
	Show     Verb = "show"
	List     Verb = "list"
	Break    Verb = "break"
	Inspect  Verb = "inspect"
)

// A Fault is one fault, as reported to [Options.Observe].
type Fault struct {
	Client   string // Options.Name
	Kind     Kind
	Verb     Verb   // the call that met it; empty if it affects the whole link
	Key      string // of that call
	From, To time.Time
}

func (f Fault) String() string {
	if f.Verb == "" {
		return fmt.Sprintf("%s: %v for %v", f.Client, f.Kind, f.To.Sub(f.From))
	}
	return fmt.Sprintf("%s: %s of %q %v, %v", f.Client, f.Verb, f.Key, f.Kind, f.To.Sub(f.From))
}
