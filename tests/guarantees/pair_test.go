package guarantees_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// A pair is a primary and a standby that can take over, with a link between them that can be cut.
type pair struct {
	primary, standby *testenv.Server
	link             *testenv.ProxyServer
	mode             string // of the store, for its URL
	join             func() // makes a restarted standby follow, and waits until it has all data
	promote          func() // makes the standby a primary
}

// pairs start the servers of the stores that replicate.
var pairs = map[string]func(t *testing.T) *pair{
	"replicated": func(t *testing.T) *pair { return newReplicas(t).pair(t) },
	"postgres":   func(t *testing.T) *pair { return newStandby(t, "").pair },
}

// onPairs runs a test on each of the pairs.
func onPairs(t *testing.T, test func(t *testing.T, p *pair)) {
	t.Helper()
	for name, start := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

func (p *pair) open(t testing.TB, srv *testenv.Server) driver.Store {
	t.Helper()
	return openURL(t, srv.URL+p.mode)
}

// cut drops everything between the two. A stopped standby would later read the data in its socket.
func (p *pair) cut() { p.link.Cut(testenv.Both) }

// takeOver kills the primary and promotes the standby.
func (p *pair) takeOver() {
	p.primary.Kill()
	p.promote()
}

// A standby is a pair of PostgreSQL servers.
type standby struct {
	*pair
	pg *testenv.PostgresServer // the primary
}

func newStandby(t *testing.T, mode string) *standby {
	t.Helper()
	pg := testenv.Postgres(t)
	s := &standby{&pair{primary: pg.Server, mode: mode}, pg}
	warm(t, s.open(t, s.primary)) // creates the tables
	s.link = testenv.Proxy(t, pg.Addr)
	host, port, _ := strings.Cut(s.link.Addr, ":")
	second := testenv.Postgres(t, testenv.StandbyOf(pg),
		testenv.Config(fmt.Sprintf("primary_conninfo = 'host=%s port=%s user=postgres'", host, port)))
	s.standby, s.promote = second.Server, second.Promote
	s.join = func() {
		at := query(t, pg, "select pg_current_wal_lsn()")[0][0]
		eventually(t, "the standby has all data", func() error {
			if query(t, second, "select pg_last_wal_replay_lsn() >= '"+at+"'::pg_lsn")[0][0] != "t" {
				return errors.New("it is behind")
			}
			return nil
		})
	}
	s.join()
	return s
}

// synchronous makes the primary answer a commit only when the standby has it.
func (s *standby) synchronous(t *testing.T) {
	t.Helper()
	query(t, s.pg, "alter system set synchronous_standby_names = '*'")
	query(t, s.pg, "select pg_reload_conf()")
	eventually(t, "commits wait for the standby", func() error {
		if rows := query(t, s.pg,
			"select 1 from pg_stat_replication where sync_state = 'sync'"); len(rows) == 0 {
			return errors.New("no standby is synchronous")
		}
		return nil
	})
}

// replicas are a primary and a replica, with a link between them that can be cut.
type replicas struct {
	primary, replica *testenv.RedisServer
	link             *testenv.ProxyServer
}

func newReplicas(t *testing.T, opts ...testenv.Option) *replicas {
	t.Helper()
	r := &replicas{primary: testenv.Redis(t, opts...), replica: testenv.Redis(t)}
	r.link = testenv.Proxy(t, r.primary.Addr)
	return r
}

// join makes the replica follow, and waits until it has all data.
func (r *replicas) join(t *testing.T) {
	t.Helper()
	host, port, _ := strings.Cut(r.link.Addr, ":")
	do(t, r.replica, "REPLICAOF", host, port)
	eventually(t, "the replica follows", func() error {
		if r.replica.Info(t.Context(), "master_link_status") != "up" {
			return errors.New("its link is down")
		}
		return nil
	})
	r.level(t)
}

// pair returns the two servers, with a replica that follows.
func (r *replicas) pair(t *testing.T) *pair {
	r.join(t)
	return &pair{
		primary: r.primary.Server, standby: r.replica.Server, link: r.link,
		join:    func() { r.join(t) },
		promote: func() { do(t, r.replica, "REPLICAOF", "NO", "ONE") },
	}
}

// level waits until the replica has all data of the primary.
func (r *replicas) level(t *testing.T) {
	t.Helper()
	eventually(t, "the replica has all data", func() error {
		has := r.replica.Info(t.Context(), "slave_repl_offset")
		if has != r.primary.Info(t.Context(), "master_repl_offset") {
			return errors.New("it is behind")
		}
		return nil
	})
}

// failOver kills the primary and promotes the replica with its current data. The old primary comes
// back without data and follows.
func (r *replicas) failOver(t *testing.T) {
	t.Helper()
	r.primary.Kill()
	do(t, r.replica, "REPLICAOF", "NO", "ONE")
	r.primary, r.replica = r.replica, r.primary
	r.link.Heal()
	r.link.Retarget(r.primary.Addr)
	r.replica.Restart()
	r.join(t)
}
