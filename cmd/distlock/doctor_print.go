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

// A columns is text in two columns. On a terminal the text is wrapped and has colours.
type columns struct {
	bytes.Buffer
	width  int // 0: lines are not wrapped
	colour bool
}

func (a *app) newColumns() *columns {
	p := &columns{}
	if isTerminal(a.out) {
		p.width = max(width(a.out), 40)
		p.colour = !plainText()
	}
	return p
}

// colours are the colours of the levels: red, yellow, magenta, green.
var colours = map[string]string{"danger": "1;31", "warning": "33", "unknown": "35", "ok": "32"}

// row writes a line with a head in the first column.
func (p *columns) row(head, text string) {
	padded := fmt.Sprintf("%-*s", margin, head)
	if code := colours[head]; p.colour && code != "" {
		padded = "\x1b[" + code + "m" + head + "\x1b[0m" + strings.Repeat(" ", margin-len(head))
	}
	p.WriteString(padded)
	p.wrap(text, margin)
}

// below writes a line that continues the row before it.
func (p *columns) below(head, text string) {
	p.WriteString(strings.Repeat(" ", margin) + head)
	p.wrap(text, margin+len(head))
}

// wrap writes text. It begins a new, indented line before a word that exceeds the width.
func (p *columns) wrap(text string, indent int) {
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

// printDiagnosis prints a diagnosis for people.
func (a *app) printDiagnosis(v *diagnosis) error {
	p := a.newColumns()
	p.row("store", v.Store)
	if v.Error != "" {
		p.row("", "cannot be reached: "+v.Error)
	}
	if v.Version != "" {
		p.row("server", v.Version)
	}
	if v.Age > 0 {
		p.row("age", fmt.Sprintf("the store has remembered claims for %v", short(time.Duration(v.Age*float64(time.Second)))))
	}
	if v.Reachable && v.Features != nil {
		p.abilities(v.Features)
	}
	if v.Virtual {
		p.row("host", "a virtual machine. Its clocks stop while the hypervisor pauses it, for example during a snapshot or a "+
			"live migration: after the pause a holder may trust a lease that has ended. Check fencing tokens where the work is done")
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
	for _, f := range mergeNodes(v.Findings) {
		p.row(f.Level, f.What)
		if f.Means != "" {
			p.below("so:   ", f.Means)
			p.below("cure: ", f.Cure)
		}
	}
	if v.Reachable {
		fmt.Fprintf(p, "\nendangers locks: %d, warnings: %d, unknown: %d, fine: %d\n",
			count[driver.LevelDanger.String()], count[driver.LevelWarning.String()],
			count[driver.LevelUnknown.String()], count[driver.LevelOK.String()])
	}
	_, err := p.WriteTo(a.out)
	return err
}

// ofNode matches the beginning of a finding about one node of several.
var ofNode = regexp.MustCompile(`^node (\d+ \([^)]*\)|\S+): `)

// mergeNodes merges equal findings about several nodes into one.
func mergeNodes(all []finding) []finding {
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

func (p *columns) abilities(f *features) {
	var can []string
	for _, a := range f.abilities() {
		if a.has && a.can != "" {
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

// String returns the times as multiples of the round trip. The round trip shows the distance of the
// store, and the multiples show its work.
func (s *speed) String() string {
	if s.RoundTrip == 0 {
		return fmt.Sprintf("acquire takes %.2f ms, renew %.2f ms, release %.2f ms",
			1000*s.Acquire, 1000*s.Renew, 1000*s.Release)
	}
	times := func(d float64) float64 { return d / max(s.RoundTrip, 1e-9) }
	return fmt.Sprintf("a round trip takes %.2f ms; acquire takes %.1f, renew %.1f, release %.1f round trips",
		1000*s.RoundTrip, times(s.Acquire), times(s.Renew), times(s.Release))
}
