// Package testenv gives tests real servers: it finds the server programs of the machine,
// starts them on free loopback ports with their data in temporary folders, and stops them
// when the test ends. Only tests import it.
//
//	func TestMain(m *testing.M) {
//		os.Exit(testenv.Main(m, testenv.Roles{"holder": hold}).Run())
//	}
//
//	func TestStore_restart(t *testing.T) {
//		r := testenv.Redis(t, testenv.AOF(), testenv.Config("maxmemory 10mb"))
//		store := open(t, r.URL)
//		...
//		r.Kill()    // SIGKILL, and it is gone when Kill returns
//		r.Restart() // the same port and the same data
//		r.Pause()   // SIGSTOP: it keeps its connections and answers nobody
//		r.Resume()
//	}
//
// # Servers
//
// [Redis], [RedisCluster], [Sentinel], [Postgres], [PgBouncer] and [Etcd] return when the
// server answers. A server that does not start fails the test and shows the end of its
// log. A test that fails later shows it too. A test that needs no more than a plain server
// asks for [Shared], and gets the one server of the package, or the one that
// DISTLOCK_TEST_REDIS or DISTLOCK_TEST_POSTGRES names.
//
// The methods of a server may be called from any goroutine while the test runs. They
// report what goes wrong with t.Errorf.
//
// # Missing programs
//
// Where a server program is missing the test is skipped, and the reason says how to
// install it. With CI=true or DISTLOCK_REQUIRE_SERVERS=1 it fails instead;
// DISTLOCK_REQUIRE_SERVERS=0 takes precedence over CI.
// Programs are looked for in PATH and where packages put them. If DISTLOCK_TEST_PATH is
// set they are looked for in its folders only. DISTLOCK_ETCD names the etcd program.
//
// # What is left behind
//
// Nothing, if the test binary ends by itself. If it is killed, Linux ends its servers with it, and
// the next run removes their folders. On other systems the servers outlive a killed test
// binary. On Windows, Pause and Resume fail the test, and Stop is Kill.
//
// # Faults
//
// [Proxy] stands between a client and a server and delays, cuts and eats what passes.
// [Helper] runs a function of the test in a process of its own, which can be stopped
// and killed. [NewClock] takes over the time of day of servers, and [NewPower] the power
// of one: when it fails, what was not synced is lost.
//
// A bound of time is held against [Stopwatch], not against the clock: machines of tests are busy. [Stalls] tells a
// history when they were.
package testenv
