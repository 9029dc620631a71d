//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Fifty processes each add one to a number in a plain file. They read the number and then write it,
// so only the lock protects it.
func TestRun_fifty(t *testing.T) {
	store, n := sqliteStore(t), filepath.Join(t.TempDir(), "n")
	if err := os.WriteFile(n, []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	add := func() *program {
		return start(t, store, "run", "n", "-c", "read x <"+n+"; sleep 0; echo $((x+1)) >"+n)
	}
	var all []*program
	for range 50 { // the processes also race to create the store
		all = append(all, add())
	}
	for _, p := range all {
		code := p.code(t)
		// Other processes used the file for too long: nothing was done.
		for code == exitUnavailable && p.out.Len() == 0 {
			p = add()
			code = p.code(t)
		}
		if code != 0 || p.err.Len() > 0 {
			t.Error(code, p.err.String())
		}
	}
	if got := number(t, n); got != len(all) {
		t.Errorf("the number is %d, not %d", got, len(all))
	}
}
