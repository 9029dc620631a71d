package chaos

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNoAnswer is the error of a call that was lost on the way, or whose answer was. Its
	// outcome is unknown. If its ctx ended meanwhile, the error is that of the ctx too.
	ErrNoAnswer = errors.New("chaos: no answer")

	// ErrClosed is the error of calls to a Store that is closed, or was closed while they
	// were under way. The outcome of the latter is unknown.
	ErrClosed = errors.New("chaos: link closed")
)

// A Kind is a way to misbehave.
type Kind uint8

// The kinds.
const (
	RequestLost Kind = iota + 1 // nothing arrives, and the caller hears nothing
	ReplyLost                   // the request is served, and the caller hears nothing
	RequestLate                 // it arrives later, also when the caller has gone
	ReplyLate
	Repeated    // it arrives twice, the second time later; the caller gets the first reply
	Frozen      // nothing of this client moves for a while; then all goes on
	Unavailable // driver.ErrUnavailable, and nothing arrives
	WakeLost    // a watch stays silent though there is news
	WakeFalse   // a watch is ready though there is none
	CutOff      // by command only: all that is sent in a direction is lost
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

// A Verb is a call that can be made to a store.
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

// A Fault is one misbehaviour, as it is told to Options.Observe.
type Fault struct {
	Client   string // Options.Name
	Kind     Kind
	Verb     Verb   // the call that met it; empty if it met the whole link
	Key      string // of that call
	From, To time.Time
}

func (f Fault) String() string {
	if f.Verb == "" {
		return fmt.Sprintf("%s: %v for %v", f.Client, f.Kind, f.To.Sub(f.From))
	}
	return fmt.Sprintf("%s: %s of %q %v, %v", f.Client, f.Verb, f.Key, f.Kind, f.To.Sub(f.From))
}
