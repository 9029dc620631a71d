package guarantees_test

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
	"github.com/distlock/distlock/store/quorum"
	"github.com/distlock/distlock/store/redis/goredisstore"
	"github.com/distlock/distlock/tests/internal/faults"
)

// A site is a store and its servers, which belong to one test.
type site struct {
	redis []*testenv.RedisServer    // the nodes, or the primary and its replica
	pg    []*testenv.PostgresServer // the primary
	etcd  []*testenv.Server         // the members
	maria []*testenv.MariaDBServer
	locks []*testenv.Server // lock servers

	url   string                                           // for another process
	addrs []string                                         // of the servers that a client connects to
	open  func(t testing.TB, addrs ...string) driver.Store // with the addresses of servers or proxies
}

// store opens the store directly.
func (s *site) store(t testing.TB) driver.Store {
	t.Helper()
	return s.open(t, s.addrs...)
}

// through opens the store through proxies, one for each address.
func (s *site) through(t testing.TB) (driver.Store, links) {
	t.Helper()
	var all links
	var addrs []string
	for _, a := range s.addrs {
		p := testenv.Proxy(t, a)
		all, addrs = append(all, p), append(addrs, p.Addr)
	}
	return s.open(t, addrs...), all
}

func (s *site) servers() []*testenv.Server {
	var all []*testenv.Server
	for _, r := range s.redis {
		all = append(all, r.Server)
	}
	for _, p := range s.pg {
		all = append(all, p.Server)
	}
	for _, m := range s.maria {
		all = append(all, m.Server)
	}
	return slices.Concat(all, s.etcd, s.locks)
}

// links are the proxies between one process and the servers.
type links []*testenv.ProxyServer

func (l links) each(f func(*testenv.ProxyServer)) {
	for _, p := range l {
		f(p)
	}
}

// shortest returns the TTL of tests that wait for the end of a claim. Members of etcd have a least
// TTL of two seconds.
func (s *site) shortest() time.Duration {
	if s.etcd != nil {
		return 2 * time.Second
	}
	return time.Second
}

// longest is LongestTTL of a majority. After twice this time the nodes no longer count as new. A
// node may take a tenth of it to answer.
const longest = 5 * time.Second

// sites create the stores that have servers, each on its own servers.
var sites = map[string]func(t *testing.T) *site{
	"redis":      func(t *testing.T) *site { return onRedis(testenv.Redis(t), clients["rueidis"]) },
	"replicated": onReplicas,
	"redlock":    func(t *testing.T) *site { return onNodes(t, 3, longest) },
	"postgres":   func(t *testing.T) *site { return onPostgres(testenv.Postgres(t), "") },
	"advisory":   func(t *testing.T) *site { return onPostgres(testenv.Postgres(t), "&lock_mode=advisory") },
	"mariadb":    func(t *testing.T) *site { return onMariaDB(testenv.MariaDB(t)) },
	"etcd":       onEtcd,
	"remote":     func(t *testing.T) *site { return onLockServers(testenv.LockServer(t, faults.ServerRole, "")) },
}

// shared returns a site for a test that does not disturb the server: its own database on a server
// that all such tests share.
func shared(t *testing.T, name string) *site {
	t.Helper()
	if name == "mariadb" {
		m := testenv.MariaDB(t, testenv.Shared())
		s := onMariaDB(m)
		s.url = m.Database(t)
		return s
	}
	mode, ok := map[string]string{"postgres": "", "advisory": "&lock_mode=advisory"}[name]
	if !ok {
		return sites[name](t)
	}
	p := testenv.Postgres(t, testenv.Shared())
	s := onPostgres(p, "")
	s.url = p.Database(t) + mode
	return s
}

// onEach runs a test on the named sites.
func onEach(t *testing.T, names []string, test func(t *testing.T, s *site)) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, sites[name](t))
		})
	}
}

// onLinks is [onEach] for a test that does not disturb the servers.
func onLinks(t *testing.T, names []string, test func(t *testing.T, s *site)) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, shared(t, name))
		})
	}
}

// onEtcd returns a cluster of three members.
func onEtcd(t *testing.T) *site {
	url := func(addrs []string) string { return testenv.URL("etcd", addrs...) }
	s := &site{
		etcd: testenv.Etcd(t, testenv.Members(3)).Members,
		open: func(t testing.TB, addrs ...string) driver.Store { return openURL(t, url(addrs)) },
	}
	for _, m := range s.etcd {
		s.addrs = append(s.addrs, m.Addr)
	}
	s.url = url(s.addrs)
	return s
}

// clients open a store on one Redis server, with each client library.
var clients = map[string]func(t testing.TB, addr string) driver.Store{
	"rueidis": func(t testing.TB, addr string) driver.Store { return openURL(t, testenv.URL("redis", addr)) },
	"goredis": func(t testing.TB, addr string) driver.Store {
		return goredis(t, goclient.NewClient(&goclient.Options{Addr: addr}))
	},
}

// goredis opens a store with a client of go-redis, and closes both at the end of the test.
func goredis(t testing.TB, c *goclient.Client) driver.Store {
	t.Helper()
	t.Cleanup(func() { c.Close() })
	s, err := goredisstore.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func onRedis(r *testenv.RedisServer, open func(t testing.TB, addr string) driver.Store) *site {
	return &site{
		redis: []*testenv.RedisServer{r}, addrs: []string{r.Addr}, url: r.URL,
		open: func(t testing.TB, addrs ...string) driver.Store { return open(t, addrs[0]) },
	}
}

// onReplicas returns a primary with a replica that must receive every grant.
func onReplicas(t *testing.T) *site {
	primary := testenv.Redis(t)
	replica := testenv.Redis(t, testenv.ReplicaOf(primary))
	s := onRedis(primary, func(t testing.TB, addr string) driver.Store {
		return openURL(t, testenv.URL("redis", addr)+"?lock_replicas=1")
	})
	s.redis = append(s.redis, replica)
	warm(t, s.store(t))
	return s
}

// onNodes returns nodes that are old enough to count.
func onNodes(t *testing.T, n int, longest time.Duration, opts ...testenv.Option) *site {
	s := onNewNodes(t, n, longest, opts...)
	aged(t, s.store(t), longest, s.redis)
	return s
}

// onNewNodes returns new nodes. All of them have to grant.
func onNewNodes(t *testing.T, n int, longest time.Duration, opts ...testenv.Option) *site {
	s := &site{open: func(t testing.TB, addrs ...string) driver.Store {
		return majority(t, longest, addrs...)
	}}
	for range n {
		r := testenv.Redis(t, opts...)
		s.redis, s.addrs = append(s.redis, r), append(s.addrs, r.Addr)
	}
	s.url = testenv.URL("redlock", s.addrs...)
	return s
}

func onPostgres(p *testenv.PostgresServer, mode string) *site {
	s := &site{pg: []*testenv.PostgresServer{p}, addrs: []string{p.Addr}, url: p.URL + mode}
	s.open = func(t testing.TB, addrs ...string) driver.Store {
		return openURL(t, at(t, s.url, addrs...))
	}
	return s
}

func onMariaDB(m *testenv.MariaDBServer) *site {
	s := &site{maria: []*testenv.MariaDBServer{m}, addrs: []string{m.Addr}, url: m.URL}
	s.open = func(t testing.TB, addrs ...string) driver.Store {
		return openURL(t, at(t, s.url, addrs...))
	}
	return s
}

// onLockServers returns a store behind lock servers.
func onLockServers(servers ...*testenv.Server) *site {
	s := &site{locks: servers}
	for _, v := range servers {
		s.addrs = append(s.addrs, v.Addr)
	}
	s.url = "http://" + strings.Join(s.addrs, ",")
	s.open = func(t testing.TB, addrs ...string) driver.Store { return openURL(t, at(t, s.url, addrs...)) }
	return s
}

// behindServers returns a Redis server that each client uses through a lock server of its own. A
// proxy is between the lock server and Redis.
func behindServers(r *testenv.RedisServer) *site {
	return &site{redis: []*testenv.RedisServer{r}, addrs: []string{r.Addr}, open: func(t testing.TB, addrs ...string) driver.Store {
		return openURL(t, testenv.LockServer(t, faults.ServerRole, testenv.URL("redis", addrs[0])).URL)
	}}
}

// at replaces the hosts of a URL.
func at(t testing.TB, raw string, hosts ...string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(raw, u.Host, strings.Join(hosts, ","), 1)
}

func openURL(t testing.TB, url string) driver.Store {
	t.Helper()
	s, err := openErr(t, url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openErr is openURL with an error.
func openErr(t testing.TB, url string) (driver.Store, error) {
	s, err := open.Open(t.Context(), url)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { s.Close() })
	return s.Store, nil
}

// majority combines independent Redis servers into one store.
func majority(t testing.TB, longest time.Duration, addrs ...string) driver.Store {
	t.Helper()
	urls := make([]string, len(addrs))
	for i, a := range addrs {
		urls[i] = testenv.URL("redis", a)
	}
	s, err := majorityErr(t, longest, urls...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// majorityErr is majority with an error, and with URLs of the servers.
func majorityErr(t testing.TB, longest time.Duration, urls ...string) (driver.Store, error) {
	var nodes []driver.Store
	for _, u := range urls {
		n, err := openErr(t, u)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return combine(t, longest, nodes)
}

// nodeLimit returns the time that a node may take. It is as long as possible, up to the length of a
// scheduler stall.
func nodeLimit(longest time.Duration) time.Duration { return min(longest/10, 2*time.Second) }

func combine(t testing.TB, longest time.Duration, nodes []driver.Store) (driver.Store, error) {
	q, err := quorum.New(t.Context(), nodes,
		&quorum.Options{Name: "redlock", LongestTTL: longest, NodeLimit: nodeLimit(longest)})
	if err != nil {
		return nil, err
	}
	t.Cleanup(q.Close)
	return q, nil
}

// aged makes nodes old enough to count, by changing the time of their first use.
func aged(t testing.TB, s driver.Store, longest time.Duration, nodes []*testenv.RedisServer) {
	t.Helper()
	const mark = "{lock:}:birth"
	for _, r := range nodes {
		var name, id string
		var born int64
		if _, err := fmt.Sscan(fmt.Sprint(do(t, r, "GET", mark)), &name, &born, &id); err != nil {
			t.Fatal(err)
		}
		do(t, r, "SET", mark, fmt.Sprint(name, " ", born-time.Hour.Microseconds(), " ", id))
	}
	waitCounted(t, s, longest)
}

// waitCounted waits until a majority is no longer a new deployment.
func waitCounted(t testing.TB, s driver.Store, longest time.Duration) {
	t.Helper()
	eventually(t, "the nodes count", func() error {
		info, err := driver.Inspect(t.Context(), s)
		if err == nil && info.Age < 2*longest {
			time.Sleep(2*longest - info.Age)
			err = errors.New("the nodes are too new")
		}
		return err
	})
}

// warm waits until a store grants.
func warm(t testing.TB, s driver.Store) {
	t.Helper()
	unlock(t, persist(t, locker(t, s), "warm"))
}

// do sends a command to a server.
func do(t testing.TB, srv *testenv.RedisServer, args ...string) any {
	t.Helper()
	v, err := srv.Do(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// spread waits until all nodes hold the key. A busy node may have missed the first attempt, and
// gets the claim with a renewal.
func spread(t testing.TB, nodes []*testenv.RedisServer) {
	t.Helper()
	eventually(t, "all nodes hold the key", func() error {
		for _, r := range nodes {
			if do(t, r, "EXISTS", "lock:key") != int64(1) {
				return errors.New("a node does not hold it")
			}
		}
		return nil
	})
}

// query runs a statement on a server.
func query(t testing.TB, srv *testenv.PostgresServer, sql string) [][]string {
	t.Helper()
	rows, err := srv.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}
