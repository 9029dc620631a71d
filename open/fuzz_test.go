package open_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/distlock/distlock/open"
)

// FuzzOpen checks that a URL of any store, with any text after the password, is opened or refused
// without a panic, and that the error shows no part of the password. The ctx has ended, so no
// server is called. Clusters are left out, because their client leaves a goroutine asleep for a
// second.
func FuzzOpen(f *testing.F) {
	schemes := []string{
		"redis", "rediss", "valkeys", "redis+unix", "redis+sentinel", "redlock", "redlocks",
		"postgres", "postgresql", "reddis", "etcd", "https", "memory", "sqlite",
	}
	for i := range schemes {
		f.Add(uint8(i), "", "@127.0.0.1:1/0")
		f.Add(uint8(i), "%zz", "@h:65536/-1?lock_ttl=5&lock_ttl=5")
		f.Add(uint8(i), "@:/?#%", "@a,b,c/x?sslmode=bad&node=redis://u:canary1@b:x")
		f.Add(uint8(i), " \x00", "@h?tls_ca=/nosuch&lock_mode=advisory&sentinel_password=canary1&master_name=m")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.Fuzz(func(t *testing.T, scheme uint8, password, rest string) {
		if at := strings.LastIndex(rest, "@"); at < 0 || strings.Contains(rest, "passfile") || strings.Contains(rest, "servicefile") {
			return // no password, or files of this machine
		}
		text := schemes[int(scheme)%len(schemes)] + "://u:canary1" + password + "canary1" + rest
		s, err := open.Open(ctx, text)
		if err == nil {
			s.Close()
			return
		}
		for _, shown := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
			if strings.Contains(shown, "canary1") {
				t.Errorf("%q: %s", text, shown)
			}
		}
	})
}
