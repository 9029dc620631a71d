package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// margin is the width of the first column.
const margin = 9

// A paper is text in two columns. On a terminal it is wrapped and has colours; elsewhere a line is a line.
type paper struct {
	bytes.Buffer
	width  int // 0: lines are not wrapped
	colour bool
}

func (a *app) newPaper() *paper {
	p := &paper{}
	if isTerminal(a.out) {
		p.width = max(width(a.out), 40)
		p.colour = !plainText()
	}
	return p
}

// colours are those of levels: red, yellow, magenta, green.
var colours = map[string]string{"danger": "1;31", "warning": "33", "unknown": "35", "ok": "32"}

// row writes a word and what it is about.
func (p *paper) row(head, text string) {
	word := fmt.Sprintf("%-*s", margin, head)
	if code := colours[head]; p.colour && code != "" {
		word = "\x1b[" + code + "m" + head + "\x1b[0m" + strings.Repeat(" ", margin-len(head))
	}
	p.WriteString(word)
	p.wrap(text, margin)
}

// below writes a line that belongs to the one before.
func (p *paper) below(head, text string) {
	p.WriteString(strings.Repeat(" ", margin) + head)
	p.wrap(text, margin+len(head))
}

// wrap writes words, and begins a new line, indented, where the terminal would.
func (p *paper) wrap(text string, indent int) {
	at := indent
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case p.width > 0 && at+1+n > p.width:
			p.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			p.WriteByte(' ')
			at++
		}
		p.WriteString(word)
		at += n
	}
	p.WriteByte('\n')
}

// printVisit writes what doctor found out, for people.
func (a *app) printVisit(v *visit) error {
	p := a.newPaper()
	p.row("store", v.Store)
	if v.Error != "" {
		p.row("", "cannot be reached: "+v.Error)
	}
	if v.Version != "" {
		p.row("server", v.Version)
	}
	if v.Age > 0 {
		p.row("age", fmt.Sprintf("it has remembered claims for %v", short(time.Duration(v.Age*float64(time.Second)))))
	}
	if v.Reachable && v.Features != nil {
		p.abilities(v.Features)
	}
	if v.Virtual {
		p.row("host", "a virtual machine. No clock here moves while the hypervisor pauses it, as for a snapshot or a live migration: a holder may then trust a lease that has ended. Check fencing tokens where the work is done")
	}
	if v.Speed != nil {
		p.row("speed", v.Speed.String())
	}
	if len(v.Findings) > 0 {
		p.WriteByte('\n')
	}
	count := map[string]int{}
	for _, f := range v.Findings {
		count[f.Level]++
	}
	for _, f := range together(v.Findings) {
		p.row(f.Level, f.What)
		if f.Means != "" {
			p.below("so:   ", f.Means)
			p.below("cure: ", f.Cure)
		}
	}
	if v.Reachable {
		fmt.Fprintf(p, "\nendangers locks: %d, warnings: %d, unknown: %d, fine: %d\n", count[driver.Danger.String()], count[driver.Warning.String()],
			count[driver.Unknown.String()], count[driver.OK.String()])
	}
	_, err := p.WriteTo(a.out)
	return err
}

// ofNode is how what is found of one node of several begins.
var ofNode = regexp.MustCompile(`^node (\d+ \([^)]*\)|\S+): `)

// together makes one of what is found of several nodes alike.
func together(all []finding) []finding {
	nodes := map[finding][]string{}
	var out []finding
	for _, f := range all {
		at := ofNode.FindStringSubmatch(f.What)
		if at == nil {
			out = append(out, f)
			continue
		}
		f.What = strings.TrimPrefix(f.What, at[0])
		if nodes[f] == nil {
			out = append(out, f)
		}
		nodes[f] = append(nodes[f], at[1])
	}
	for i, f := range out {
		switch names := nodes[f]; len(names) {
		case 0:
		case 1:
			out[i].What = "node " + names[0] + ": " + f.What
		default:
			out[i].What = "nodes " + strings.Join(names, ", ") + ": " + f.What
		}
	}
	return out
}

func (p *paper) abilities(f *features) {
	var can []string
	for _, a := range f.abilities() {
		if a.has {
			can = append(can, a.can)
		}
	}
	p.row("can", strings.Join(can, ", ")+"; TTLs: "+f.ttls())
	for _, a := range f.abilities() {
		if !a.has {
			p.row("cannot", a.without)
		}
	}
}

// String gives times in round trips: they say what the store does, and the round trip how far it is.
func (s *speed) String() string {
	if s.RoundTrip == 0 {
		return fmt.Sprintf("acquire takes %.2f ms, renew %.2f ms, release %.2f ms", 1000*s.Acquire, 1000*s.Renew, 1000*s.Release)
	}
	times := func(d float64) float64 { return d / max(s.RoundTrip, 1e-9) }
	return fmt.Sprintf("a round trip takes %.2f ms; acquire takes %.1f, renew %.1f, release %.1f round trips",
		1000*s.RoundTrip, times(s.Acquire), times(s.Renew), times(s.Release))
}
