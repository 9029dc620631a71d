package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// kinds are all errors that callers distinguish.
var kinds = map[string]error{
	"held": distlock.ErrHeld, "lost": distlock.ErrLost, "maxhold": distlock.ErrMaxHold, "released": distlock.ErrReleased, "closed": distlock.ErrClosed,
	"unavailable": distlock.ErrUnavailable, "unknown": distlock.ErrUnknown, "invalid": distlock.ErrInvalid,
	"notheld": driver.ErrNotHeld, "unsupported": errors.ErrUnsupported, "eof": io.EOF,
}

func TestErrors_is(t *testing.T) {
	for _, c := range []struct {
		err error
		is  string // the kinds that it matches; it matches no other
	}{
		{distlock.ErrHeld, "held"},
		{distlock.ErrLost, "lost"},
		{distlock.ErrMaxHold, "maxhold lost"},
		{distlock.ErrReleased, "released"},
		{distlock.ErrClosed, "closed"},
		{distlock.ErrUnavailable, "unavailable"},
		{distlock.ErrUnknown, "unknown"},
		{distlock.ErrInvalid, "invalid"},
		{&distlock.ArgumentError{What: "name"}, "invalid"},
		{&distlock.HeldError{}, "held"},
		{&distlock.LostError{Reason: distlock.LossExpired}, "lost"},
		{&distlock.LostError{Reason: distlock.LossMaxHold}, "lost maxhold"},
		{&distlock.LostError{Reason: distlock.LossTaken, Err: driver.ErrNotHeld}, "lost notheld"},
		{&distlock.LostError{Reason: distlock.LossBroken, Err: &driver.BrokenError{}}, "lost notheld"},
		{&distlock.OpError{Err: io.EOF, Unknown: true}, "unknown eof"},
		{&distlock.OpError{Err: io.EOF}, "unavailable eof"},
		{&distlock.OpError{Err: driver.ErrUnavailable}, "unavailable"},
		{&distlock.OpError{Err: driver.ErrInvalid}, "invalid"},
		{&distlock.OpError{Err: errors.ErrUnsupported}, "unsupported"},
	} {
		for name, kind := range kinds {
			want := strings.Contains(" "+c.is+" ", " "+name+" ")
			for _, err := range []error{c.err, fmt.Errorf("around: %w", c.err), errors.Join(io.ErrShortWrite, c.err)} {
				if got := errors.Is(err, kind); got != want {
					t.Errorf("%T %v is %s: %v", c.err, c.err, name, got)
				}
			}
		}
	}
}

func TestErrors_as(t *testing.T) {
	all := errors.Join(context.Canceled, &distlock.HeldError{Name: "h"}, &distlock.LostError{Name: "l"}, &distlock.OpError{Name: "o", Err: io.EOF})
	var held *distlock.HeldError
	var lost *distlock.LostError
	var op *distlock.OpError
	if !errors.As(all, &held) || !errors.As(all, &lost) || !errors.As(all, &op) || held.Name+lost.Name+op.Name != "hlo" {
		t.Errorf("%v %v %v", held, lost, op)
	}
}

func TestErrors_messages(t *testing.T) {
	broken := &driver.BrokenError{Reason: "by\nhand"}
	for want, err := range map[string]error{
		`distlock: "x" is held`: &distlock.HeldError{Name: "x"},
		`distlock: "x" is held by me for 2.3s, 30s left, 4 ahead`: &distlock.HeldError{
			Name: "x", Holder: "me", Held: 2345 * time.Millisecond, Left: 30100 * time.Millisecond, Ahead: 4, Fence: 7,
		},
		`distlock: "x" is held, 16 ahead`:                             &distlock.HeldError{Name: "x", Ahead: 16},
		`distlock: "x" is held, at least 17 ahead`:                    &distlock.HeldError{Name: "x", Ahead: 17},
		`distlock: "x" is held by me for 15ms`:                        &distlock.HeldError{Name: "x", Holder: "me", Held: 15400 * time.Microsecond},
		`distlock: "x" is held by "\u202eevil"`:                       &distlock.HeldError{Name: "x", Holder: "\u202eevil"},
		`distlock: "x" is held by host-7.example:123 (a)`:             &distlock.HeldError{Name: "x", Holder: "host-7.example:123 (a)"},
		`distlock: lease of "x" lost: not renewed in time`:            &distlock.LostError{Name: "x", Reason: distlock.LossExpired},
		`distlock: lease of "x" lost: longest hold reached`:           &distlock.LostError{Name: "x", Reason: distlock.LossMaxHold},
		`distlock: lease of "x" lost: broken: "by\nhand"`:             &distlock.LostError{Name: "x", Reason: distlock.LossBroken, Err: broken},
		`distlock: lease of "x" lost: the store no longer holds it`:   &distlock.LostError{Name: "x", Reason: distlock.LossTaken, Err: driver.ErrNotHeld},
		`distlock: release "x": outcome unknown: EOF`:                 &distlock.OpError{Op: "release", Name: "x", Unknown: true, Err: io.EOF},
		`distlock: acquire "x": driver: store unavailable`:            &distlock.OpError{Op: "acquire", Name: "x", Err: driver.ErrUnavailable},
		`distlock: election "x" is held by me`:                        &distlock.HeldError{Kind: distlock.KindElection, Name: "x", Holder: "me"},
		`distlock: lease of rate limit "x" lost: not renewed in time`: &distlock.LostError{Kind: distlock.KindRateLimit, Name: "x", Reason: distlock.LossExpired},
		`distlock: acquire semaphore "x": EOF`:                        &distlock.OpError{Op: "acquire", Kind: distlock.KindSemaphore, Name: "x", Err: io.EOF},
		`distlock: list: EOF`:                                         &distlock.OpError{Op: "list", Err: io.EOF},
		`distlock: longest hold reached`:                              distlock.ErrMaxHold,
		`distlock: invalid name: empty`:                               &distlock.ArgumentError{What: "name", Why: "empty"},
	} {
		if got := err.Error(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	long := (&distlock.HeldError{Name: strings.Repeat("é", 100), Holder: strings.Repeat("h", 1000)}).Error()
	if len(long) > 220 {
		t.Errorf("%d bytes: %s", len(long), long)
	}
}

// Two errors about the same loss are printed as one: the context of a lease may report the loss
// before the lease does.
func TestErrors_oneLoss(t *testing.T) {
	loss := distlock.LostError{Name: "x", Fence: 7, Reason: distlock.LossExpired}
	same, later, other, election := loss, loss, loss, loss
	later.Fence, other.Name, election.Kind = 8, "y", distlock.KindElection
	err := fmt.Errorf("work: %w", &loss)
	if !errors.Is(err, &same) {
		t.Error("the same loss is another one")
	}
	for what, target := range map[string]error{"fence": &later, "name": &other, "kind": &election} {
		if errors.Is(err, target) {
			t.Errorf("another %s is the same loss", what)
		}
	}
}

// An error shows whole characters of a long name, up to a bound for the printed form.
func TestErrors_showLongNames(t *testing.T) {
	for _, c := range []struct{ key, want string }{
		{"", `""`},
		{`a "name"`, `"a \"name\""`},
		{strings.Repeat("a", 64), `"` + strings.Repeat("a", 64) + `"`},
		{strings.Repeat("a", 65), `"` + strings.Repeat("a", 64) + `"...`},
		{strings.Repeat("a", 63) + "é", `"` + strings.Repeat("a", 63) + `"...`},
		{strings.Repeat("a", 62) + "éa", `"` + strings.Repeat("a", 62) + `é"...`},
		{strings.Repeat("\x00", 100), `"` + strings.Repeat(`\x00`, 16) + `"...`},
		{strings.Repeat("\U0010ffff", 100), `"` + strings.Repeat(`\U0010ffff`, 6) + `"...`},
		{strings.Repeat("\xff", 20), `"` + strings.Repeat(`\xff`, 16) + `"...`},
	} {
		err := &distlock.HeldError{Name: c.key}
		if want := "distlock: " + c.want + " is held"; err.Error() != want {
			t.Errorf("%s, want %s", err, want)
		}
	}
}

// durations matches the part of the error that differs from run to run.
var durations = regexp.MustCompile(`\b(\d+(\.\d+)?(h|m|s|ms))+\b`)

// TestREADME_error checks that the error in the README is the error that users get.
func TestREADME_error(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "<!-- example: quoteWait -->\n```go\n")
	code, _, _ := strings.Cut(after, "```\n")
	var want strings.Builder
	for line := range strings.Lines(code) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "// "); ok {
			want.WriteString(text + "\n")
		}
	}
	inBubble(t, func(t *testing.T, g *gate) {
		lease := must(t)(g.locker(t, distlock.Holder("ci-3")).Lock(t.Context(), "deploy"))
		time.Sleep(2 * time.Minute)
		err := quoteWait(t.Context(), g.locker(t))
		if err == nil {
			t.Fatal("the lock was not held")
		}
		plain := func(s string) string { return durations.ReplaceAllString(strings.TrimSpace(s), "<time>") }
		if plain(err.Error()) != plain(want.String()) {
			t.Errorf("the README says\n%s\nand the error is\n%v", want.String(), err)
		}
		free(t, lease)
	})
}
