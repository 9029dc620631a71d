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

// A span is the time of a call. The store served the call at some moment in between.
type span struct{ began, ended time.Time }

// A probe panics with a failure or a late. The panic ends only the current rule.
type (
	failure string // the store broke the rule
	late    string // no verdict: a claim that the check relies on may have ended
)

// wrong ends the rule with a failure that does not depend on time.
func (p *probe) wrong(format string, args ...any) {
	panic(failure(where() + ": " + fmt.Sprintf(format, args...)))
}

// fail ends the rule with a failure if all claims that the rule relies on were live when the last
// call returned. If one of them may have ended, the rule ends without a verdict. In virtual time
// only the store itself can be slow, and that is a failure.
func (p *probe) fail(format string, args ...any) {
	over := p.last.ended.Sub(p.until)
	if p.env.Virtual || over < 0 {
		p.wrong(format, args...)
	}
	panic(late(fmt.Sprintf("%s: a call ended %v after a claim that it relies on", where(), over)))
}

// while runs a part of the rule that relies on a life that the call born started.
func (p *probe) while(born span, life time.Duration, part func()) {
	was := p.until
	p.until = born.began.Add(life)
	part()
	p.until = was
}

// grantAfter attempts r until it is granted. The grant must come after the end of a life that the
// call born started: not before, and soon after. Slow calls are no problem: the life started during
// the call born, and the store decided during the attempt.
func (p *probe) grantAfter(r driver.Request, born span, life time.Duration) driver.Result {
	for {
		res := p.attempt(r)
		least, most := p.since(born)
		switch {
		case res.Granted && most < life:
			p.wrong("Acquire(%s): granted after %v, though its blocker lives for %v", describe(r), most, life)
		case res.Granted:
			return res
		case least > life+p.patience:
			p.wrong("Acquire(%s): refused after %v, though its blocker lives for %v", describe(r), least, life)
		}
		time.Sleep(p.ttl / 20)
	}
}

// since returns how much time passed in the store between the call born and the last one.
func (p *probe) since(born span) (least, most time.Duration) {
	return max(0, p.last.began.Sub(born.ended)), p.last.ended.Sub(born.began)
}

// remaining fails unless a duration that the last call reported is the rest of a life that the call
// born started.
func (p *probe) remaining(what string, got time.Duration, born span, life time.Duration) {
	least, most := p.since(born)
	if got < life-most-p.grain || got > life-least+max(p.grain, p.ttl/10) {
		p.fail("%s: got %v, want about %v", what, got, life-most)
	}
}

// outlive sleeps until a life that the call born started has certainly ended.
func (p *probe) outlive(born span, life time.Duration) {
	time.Sleep(time.Until(born.ended.Add(life + p.patience)))
}

// wait sleeps for a multiple of the TTL.
func (p *probe) wait(ttls float64) { time.Sleep(time.Duration(ttls * float64(p.ttl))) }

// pause lets the store finish its background work.
func (p *probe) pause() {
	if p.env.Virtual {
		synctest.Wait()
	} else {
		time.Sleep(p.ttl / 4)
	}
}

// where returns the line of the rule that called the probe.
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
