package testenv_test

import (
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// When the power fails, a server keeps the data that it synced, and no more.
func TestPower(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opt  testenv.Option
		want any
	}{
		"always": {testenv.AOF(), "1"},
		"no":     {testenv.Config("appendonly yes", "appendfsync no"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testenv.Redis(t, tt.opt)
			do := func(args ...string) any {
				t.Helper()
				v, err := r.Do(t.Context(), args...)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			do("SET", "before", "1")
			p := testenv.NewPower(t, r.Server)
			for range 2 { // the data is there again after each failure
				do("SET", "key", "1")
				p.Fail()
				r.Restart()
				if got := do("GET", "key"); got != tt.want {
					t.Errorf("the key is %v, want %v", got, tt.want)
				}
			}
			if got := do("GET", "before"); got != "1" {
				t.Errorf("the data from before NewPower is %v", got)
			}
		})
	}
}
