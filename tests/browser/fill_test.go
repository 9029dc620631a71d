package browser

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/distlock/distlock/driver"
)

// fill makes 8,900 locks, one of them with 1,000 waiters.
func fill(t *testing.T, s driver.Store) {
	t.Helper()
	claim(t, s, "contended", "first")
	var group sync.WaitGroup
	for w := range 16 {
		group.Go(func() {
			for i := w; i < 9900; i += 16 {
				if i < 1000 {
					claim(t, s, "contended", fmt.Sprintf("waiter-%d", i))
				} else {
					claim(t, s, fmt.Sprintf("lock/%d", i), "holder")
				}
			}
		})
	}
	group.Wait()
}

// tokenOf makes a token.
func tokenOf(t *testing.T, file, identity, allow string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command, "token", "new", identity, "--tokens", file, "--allow", allow)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for field := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(field, "dl_") {
			return field
		}
	}
	t.Fatalf("no token in %s", out)
	return ""
}
