// Package promise_test shows the answers in docs/guarantees.md about faults that need real servers.
// For each yes, a test records a history without a violation. For each no, a test records a history
// with the violation. The tables are in internal/promise. A fence is a fencing token.
package promise_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
	"github.com/distlock/distlock/store/quorum"
)

// soon is the limit for an immediate action on a busy machine.
const soon = 10 * time.Second

var seed = flag.Uint64("seed", 1, "decides where replies are cut")

func TestMain(m *testing.M) {
	run := testenv.Main(m, testenv.Roles{"waiter": playWaiter})
	flag.Parse()
	// The tests mostly wait, which needs no processor.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(run)
}

// chance returns a source of random numbers for one test, and prints the seed to repeat the run.
func chance(t testing.TB) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", *seed)
	return rand.New(rand.NewPCG(*seed, 7))
}

// A site is a store and its servers, which belong to one test.
type site struct {
	redis []*testenv.RedisServer    // the nodes, or the primary and its replica
	pg    []*testenv.PostgresServer // the primary

	url   string                                           // of the database, on a shared server
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

// links are the proxies between one process and the servers.
type links []*testenv.ProxyServer

func (l links) each(f func(*testenv.ProxyServer)) {
	for _, p := range l {
		f(p)
	}
}

// longest is LongestTTL of a majority. After twice this time the nodes no longer count as new. A
// node may take a tenth of it to answer.
const longest = 5 * time.Second

// sites create the stores that have servers, each on its own servers.
var sites = map[string]func(t *testing.T) *site{
	"redis":      func(t *testing.T) *site { return onRedis(testenv.Redis(t)) },
	"replicated": onReplicas,
	"redlock":    onNodes,
	"postgres":   func(t *testing.T) *site { return onPostgres(testenv.Postgres(t), "") },
	"advisory":   func(t *testing.T) *site { return onPostgres(testenv.Postgres(t), "&lock_mode=advisory") },
}

// shared returns a site for a test that does not disturb the server: its own database on a server
// that all such tests share.
func shared(t *testing.T, name string) *site {
	t.Helper()
	mode := map[string]string{"postgres": "", "advisory": "&lock_mode=advisory"}
	p := testenv.Postgres(t, testenv.Shared())
	url := p.Database(t) + mode[name]
	return &site{
		pg: []*testenv.PostgresServer{p}, url: url, addrs: []string{p.Addr},
		open: func(t testing.TB, addrs ...string) driver.Store { return openURL(t, at(t, url, addrs...)) },
	}
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
			if name == "postgres" || name == "advisory" {
				test(t, shared(t, name))
				return
			}
			test(t, sites[name](t))
		})
	}
}

func onRedis(r *testenv.RedisServer) *site {
	return &site{
		redis: []*testenv.RedisServer{r}, addrs: []string{r.Addr},
		open: func(t testing.TB, addrs ...string) driver.Store { return openURL(t, testenv.URL("redis", addrs[0])) },
	}
}

// onReplicas returns a primary with a replica that must receive every grant.
func onReplicas(t *testing.T) *site {
	primary := testenv.Redis(t)
	replica := testenv.Redis(t, testenv.ReplicaOf(primary))
	s := onRedis(primary)
	s.redis = append(s.redis, replica)
	s.open = func(t testing.TB, addrs ...string) driver.Store {
		return openURL(t, testenv.URL("redis", addrs[0])+"?lock_replicas=1")
	}
	warm(t, s.store(t))
	return s
}

// onNodes returns three nodes that are old enough to count.
func onNodes(t *testing.T) *site {
	s := onNewNodes(t)
	s.open = func(t testing.TB, addrs ...string) driver.Store { return majority(t, longest, addrs...) }
	aged(t, s.store(t), s.redis)
	return s
}

// onNewNodes returns three new nodes. All of them have to grant.
func onNewNodes(t *testing.T) *site {
	s := &site{open: func(t testing.TB, addrs ...string) driver.Store { return majority(t, time.Minute, addrs...) }}
	for range 3 {
		r := testenv.Redis(t)
		s.redis, s.addrs = append(s.redis, r), append(s.addrs, r.Addr)
	}
	return s
}

func onPostgres(p *testenv.PostgresServer, mode string) *site {
	return &site{
		pg: []*testenv.PostgresServer{p}, addrs: []string{p.Addr},
		open: func(t testing.TB, addrs ...string) driver.Store { return openURL(t, at(t, p.URL+mode, addrs...)) },
	}
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
	q, err := quorum.New(t.Context(), nodes,
		&quorum.Options{Name: "redlock", LongestTTL: longest, NodeLimit: min(2*time.Second, longest/10)})
	if err != nil {
		return nil, err
	}
	t.Cleanup(q.Close)
	return q, nil
}

// aged makes nodes old enough to count, by changing the time of their first use.
func aged(t testing.TB, s driver.Store, nodes []*testenv.RedisServer) {
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

func locker(t testing.TB, s driver.Store, opts ...distlock.Option) *distlock.Locker {
	t.Helper()
	l, err := distlock.New(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		_ = l.Close(ctx) // its server may be down
	})
	return l
}

// persist acquires a lock of a store that may be unavailable for a while. It fails the test after
// some time.
func persist(
	t testing.TB, l *distlock.Locker, name string, opts ...distlock.Option,
) *distlock.Lease {
	t.Helper()
	began := time.Now()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		lease, err := l.Lock(ctx, name, opts...)
		cancel()
		switch {
		case err == nil:
			return lease
		case !troubled(err), time.Since(began) > soon:
			t.Fatalf("Lock: %v after %v", err, time.Since(began))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// unlock releases a lease. If a broken connection loses the answer, it repeats the call.
func unlock(t testing.TB, lease *distlock.Lease) {
	t.Helper()
	err := lease.Unlock(t.Context())
	for try := 1; try < 10 && troubled(err); try++ {
		err = lease.Unlock(t.Context())
	}
	if err != nil {
		t.Fatalf("Unlock: %v", err)
	}
}

// extend extends a lease. If a busy server does not answer, it repeats the call until the lease is
// lost.
func extend(t testing.TB, lease *distlock.Lease, ttl time.Duration) {
	t.Helper()
	err := lease.Extend(t.Context(), ttl)
	for troubled(err) && lease.Err() == nil {
		err = lease.Extend(t.Context(), ttl)
	}
	if err != nil {
		t.Fatalf("Extend: %v", err)
	}
}

// troubled reports whether an error is about the store, and not about the lock.
func troubled(err error) bool {
	return errors.Is(err, distlock.ErrUnavailable) || errors.Is(err, distlock.ErrUnknown)
}

// eventually calls f until it returns nil. After a while it fails the test with the last error.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	for by := time.Now().Add(2 * soon); ; time.Sleep(5 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(by) {
			t.Fatalf("%s: %v", what, err)
		}
	}
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
