package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
)

// tooOld checks that an error names the version and the required one, and says that nothing was
// changed.
func tooOld(t *testing.T, err error, version string) {
	t.Helper()
	want := "the server is Redis " + version + ", and 6.2 or newer is required"
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, driver.ErrUnavailable) ||
		!strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v, want that Redis %s is too old", err, version)
	}
}

// A server before Redis 6.2 refuses the first call, of any kind, and keeps nothing of it. A nightly
// run has such a server.
func TestStore_oldServer(t *testing.T) {
	srv := testenv.Redis(t)
	version := srv.Info(t.Context(), "redis_version")
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	if major > 6 || major == 6 && minor >= 2 {
		t.Skipf("the server is Redis %s: this tests what one before 6.2 does", version)
	}
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		for _, r := range []driver.Request{exclusive("key"), shared("key")} {
			_, err := open(t, login{addr: srv.Addr}).Acquire(t.Context(), r)
			tooOld(t, err, version)
		}
		finds(t, open(t, login{addr: srv.Addr}), "danger: Redis "+version+" is too old")
		if n := do(t, srv, "DBSIZE"); n != int64(0) {
			t.Errorf("%v keys are left", n)
		}
	})
}

// The version is read from INFO where the server has no variable for scripts.
func TestStore_virtual_version(t *testing.T) {
	for info, old := range map[string]bool{
		"redis_version:4.0.14": true, "redis_version:5.0.3": true, "redis_version:6.0.16": true, "redis_version:6.1.240": true,
		"redis_version:6.2.0": false, "redis_version:6.2.14": false, "redis_version:7.0.15": false, "redis_version:10.0.1": false,
		"redis_version:unstable": false, "": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := virtual().Open(t).(capped)
			// The first call makes the server.
			if err := s.Release(t.Context(), exclusive("key").ID); !errors.Is(err, driver.ErrNotHeld) {
				t.Fatal(err)
			}
			s.server.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
				if cmd == "INFO" {
					c.WriteBulk("# Server\r\n" + info + "\r\nrun_id:1\r\n")
				}
				return cmd == "INFO"
			})
			res, err := s.Acquire(t.Context(), shared("key"))
			if !old {
				if err != nil || !res.Granted {
					t.Errorf("%q: %+v, %v; want a grant", info, res, err)
				}
				return
			}
			tooOld(t, err, strings.TrimPrefix(info, "redis_version:"))
			if keys := s.server.Keys(); len(keys) > 0 {
				t.Errorf("%q: the keys %q are left", info, keys)
			}
		})
	}
}
