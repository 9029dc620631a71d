package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress_noTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := newProgress(&out)
		for i := range 31 {
			p.show("step %d", i)
			time.Sleep(time.Second)
		}
		p.clear()
		want := "... 10s  step 10\n... 20s  step 20\n... 30s  step 30\n"
		if out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	})
}

func TestProgress_terminal(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out)
	p.terminal = true
	p.show("%d %%", 1)
	p.clear()
	if want := "\r\033[K0s  1 % \r\033[K"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
