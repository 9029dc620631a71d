// Package testenv starts real servers for tests. It finds the server programs of the machine,
// starts them on free loopback ports with their data in temporary folders, and stops them when the
// test ends. Only tests import it.
//
//	func TestMain(m *testing.M) {
//		os.Exit(testenv.Main(m, testenv.Roles{"holder": hold}).Run())
//	}
//
//	func TestStore_restart(t *testing.T) {
//		r := testenv.Redis(t, testenv.AOF(), testenv.Config("maxmemory 10mb"))
//		store := open(t, r.URL)
//		...
//		r.Kill()    // SIGKILL; returns when the process is gone
//		r.Restart() // the same port and the same data
//		r.Pause()   // SIGSTOP: connections stay open, and no request is answered
//		r.Resume()
//	}
//
// # Servers
//
// [Redis], [RedisCluster], [Sentinel], [Postgres], [PgBouncer], [MariaDB] and [Etcd] return when
// the server answers. If a server does not start, the test fails and logs the end of the server's
// log. A test that fails later logs the end too. A test that needs only a plain server passes
// [Shared]. It gets the one server of the package, or the server that DISTLOCK_TEST_REDIS,
// DISTLOCK_TEST_POSTGRES or DISTLOCK_TEST_MARIADB names.
//
// The methods of a server may be called from any goroutine while the test runs. They report
// failures with t.Errorf.
//
// # Missing programs
//
// If a server program is missing, the test is skipped, and the reason says how to install the
// program. With CI=true or DISTLOCK_REQUIRE_SERVERS=1 the test fails instead.
// DISTLOCK_REQUIRE_SERVERS=0 takes precedence over CI. Programs are searched in PATH and in the
// folders that packages use. If DISTLOCK_TEST_PATH is set, only its folders are searched.
// DISTLOCK_ETCD names the etcd program.
//
// # Cleanup
//
// A test binary that ends by itself leaves nothing behind. If a test binary is killed, Linux ends
// its servers with it, and the next run removes their folders. On other systems the servers outlive
// a killed test binary. On Windows, Pause and Resume fail the test, and Stop is Kill.
//
// # Faults
//
// [Proxy] starts a proxy between a client and a server. The proxy delays, cuts and swallows data.
// [Helper] runs a function of the test in a separate process, which can be paused and killed.
// [NewClock] controls the time of day of servers. [NewPower] controls the power of a server: when
// it fails, data that was not synced is lost.
//
// Tests check time bounds with a [Stopwatch], not with the clock, because test machines are busy.
// [Stalls] reports the periods in which the machine did not run the process.
package testenv
