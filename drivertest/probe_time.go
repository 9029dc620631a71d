package drivertest

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
)

// A span is when a call was under way. The store served it at some instant in between.
type span struct{ began, ended time.Time }

// failure and late are what a probe panics with. They end the law and no other.
type (
	failure string // the store broke the law
	late    string // what was found proves nothing, since what it relies on may have ended by then
)

// wrong ends the law with what is wrong whatever time it is.
func (p *probe) wrong(format string, args ...any) {
	panic(failure(where() + ": " + fmt.Sprintf(format, args...)))
}

// fail ends the law with what is wrong if all that the law relies on was live when the last call
// ended. If it may not have been, nothing is proved, and the law ends without a verdict. In
// virtual time only the store itself can be slow, and that is no excuse.
func (p *probe) fail(format string, args ...any) {
	over := p.last.ended.Sub(p.until)
	if p.env.Virtual || over < 0 {
		p.wrong(format, args...)
	}
	panic(late(fmt.Sprintf("%s: a call ended %v after what it relies on", where(), over)))
}

// while runs a part of the law that relies on what the call born gave a life.
func (p *probe) while(born span, life time.Duration, part func()) {
	was := p.until
	p.until = born.began.Add(life)
	part()
	p.until = was
}

// passes asks for r until it is granted, which must be when something else has ended that the
// call born gave a life: not before, and soon after. How slow the calls are does not matter:
// the life began while born was under way, and the answer was found while the ask was.
func (p *probe) passes(r driver.Request, born span, life time.Duration) driver.Result {
	for {
		res := p.ask(r)
		least, most := p.since(born)
		switch {
		case res.Granted && most < life:
			p.wrong("Acquire(%s): granted after %v, though what is in its way lives for %v", words(r), most, life)
		case res.Granted:
			return res
		case least > life+p.patience:
			p.wrong("Acquire(%s): refused after %v, though what is in its way lives for %v", words(r), least, life)
		}
		time.Sleep(p.ttl / 20)
	}
}

// since tells how much time passed in the store between the call born and the last one.
func (p *probe) since(born span) (least, most time.Duration) {
	return max(0, p.last.began.Sub(born.ended)), p.last.ended.Sub(born.began)
}

// rest wants a duration told by the last call to be what is left of a life that born gave.
func (p *probe) rest(what string, got time.Duration, born span, life time.Duration) {
	least, most := p.since(born)
	if got < life-most-p.grain || got > life-least+max(p.grain, p.ttl/10) {
		p.fail("%s: got %v, want about %v", what, got, life-most)
	}
}

// outlive sleeps until what the call born gave a life has surely ended.
func (p *probe) outlive(born span, life time.Duration) {
	time.Sleep(time.Until(born.ended.Add(life + p.patience)))
}

// wait sleeps for a multiple of the TTL.
func (p *probe) wait(ttls float64) { time.Sleep(time.Duration(ttls * float64(p.ttl))) }

// pause lets the store finish what it does by itself.
func (p *probe) pause() {
	if p.env.Virtual {
		synctest.Wait()
	} else {
		time.Sleep(p.ttl / 4)
	}
}

// where returns the line of the law that called the probe.
func where() string {
	pc := make([]uintptr, 16)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.Function, "(*probe)") || !more {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
}
