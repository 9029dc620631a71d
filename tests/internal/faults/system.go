package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
	"github.com/distlock/distlock/store/mem"
	"github.com/distlock/distlock/store/quorum"
)

// A System is a store under test, and everything that is particular to it.
type System struct {
	Name   string
	Faults []Applied

	// Memory says that the store is the memory of one process, which local creates. There are no
	// servers, and the clients are goroutines with bad links.
	Memory bool
	local  func() driver.Store

	// Long says that only long runs include the system.
	Long bool

	// Early says that claims end with the connection of their process, which the store itself may
	// end. See [history.Rules].
	Early bool

	// Least is the least TTL of the store, and Late how long claims outlive their TTL.
	Least, Late time.Duration

	// start sets Nodes, URL and Guard, and everything else that the faults need.
	start func(e *Env)

	// open opens the store of a URL that Env.URL returned. Nil: package open does.
	open func(ctx context.Context, url string, ttl time.Duration) (driver.Store, func(), error)

	// left returns what the clients left behind in the store, when all of them are gone and their
	// claims have ended; "": nothing.
	left func(ctx context.Context, e *Env) (string, error)
}

// links returns the faults of the routes to a server, under which everything is promised.
func links() []Applied {
	var all []Applied
	for _, a := range actions {
		if a.client {
			all = append(all, Applied{Kind: a.kind})
		}
	}
	return all
}

// except sets the promises that do not hold under some of the faults.
func except(all []Applied, not []history.Invariant, kinds ...Kind) []Applied {
	for i := range all {
		if slices.Contains(kinds, all[i].Kind) {
			all[i].Not = not
		}
	}
	return all
}

// Systems returns all systems. A new store is added only here.
func Systems() []*System {
	return []*System{
		{
			Name: "memory", Memory: true, local: func() driver.Store { return mem.New() },
			Faults: []Applied{{Kind: Partition}},
		},
		{
			Name: "sqlite", start: startSQLite,
			Faults: []Applied{{Kind: NoDisk, After: 2 * time.Second}},
		},
		{
			// With appendfsync always, Redis forgets nothing that it acknowledged. A server whose
			// data is lost has forgotten.
			Name: "redis", start: startRedis, left: redisLeft,
			Faults: append(links(), Applied{Kind: ServerStopped}, Applied{Kind: ServerKilled}, Applied{Kind: ServerEmptied, Not: forgotten},
				Applied{Kind: NoMemory}, Applied{Kind: NoDisk}),
		},
		{
			Name: "redis-replicated", start: startReplicated, left: redisLeft,
			Faults: append(links(), Applied{Kind: ServerStopped}, Applied{Kind: Promoted, Not: forgotten}, Applied{Kind: NoMemory}),
		},
		{
			// A node that has forgotten counts again after the longest TTL. Redlock does not
			// tolerate two nodes that forget within that time. Nor does it tolerate a node that
			// forgets before a claim is again on another node that was in trouble: renewals restore
			// the claim there.
			Name: "redlock", start: startRedlock, open: openRedlock, left: redisLeft,
			Faults: append(links(), Applied{Kind: ServerStopped}, Applied{Kind: ServerStopped, Nodes: 2}, Applied{Kind: ServerKilled},
				Applied{Kind: ServerEmptied, Before: 2 * time.Second, After: 5 * time.Second}, Applied{Kind: NoMemory}),
		},
		{
			Name: "postgres", start: func(e *Env) { startPostgres(e, "") }, left: postgresLeft,
			Faults: append(links(), Applied{Kind: ServerStopped}, Applied{Kind: ServerKilled}, Applied{Kind: NoDisk}),
		},
		{
			Name: "mariadb", start: startMariaDB, left: mariaDBLeft,
			Faults: append(links(), Applied{Kind: ServerStopped}, Applied{Kind: ServerKilled}),
		},
		{
			// The locks of this store belong to a connection. When the connection ends they are
			// free, a moment before their holder knows, and a holder that is stopped just then
			// knows much later. Of the faults of a route, those that the kernel makes and those
			// that only delay end no connection.
			Name: "advisory", Early: true, start: func(e *Env) { startPostgres(e, "&lock_mode=advisory") }, left: postgresLeft,
			Faults: append(except(links(), forgotten, RepliesLost, RequestsLost, Partition, Reset, ReplyCut), Applied{Kind: ServerStopped}, Applied{Kind: ServerKilled, Not: forgotten},
				Applied{Kind: NoDisk, Not: forgotten}), // PostgreSQL may end itself when it cannot write its log
		},
		{
			// Nothing that a majority acknowledged is forgotten, however many members are killed.
			// Leases have whole seconds, and etcd looks for ended ones twice a second.
			Name: "etcd", Least: 2 * time.Second, Late: 1500 * time.Millisecond, start: startEtcd, left: etcdLeft,
			Faults: append(links(), Applied{Kind: ServerStopped}, Applied{Kind: ServerStopped, Nodes: 2},
				Applied{Kind: ServerKilled}, Applied{Kind: ServerKilled, Nodes: 2}),
		},
		{
			// The claims are in the file of the server, which a crash does not harm.
			Name: "remote", start: startRemote,
			Faults: append(links(), Applied{Kind: ServerStopped}, Applied{Kind: ServerKilled}),
		},
		{
			// Each call of each client goes to one of two servers at random.
			Name: "remote-pair", start: startRemotePair, open: openRandom,
			Faults: append(links(), Applied{Kind: ServerKilled}),
		},
		{
			Name: "remote-pair-sqlite", Long: true, start: startRemotePairSQLite, open: openRandom,
			Faults: append(links(), Applied{Kind: ServerKilled}),
		},
		{
			Name: "remote-pair-postgres", Long: true, start: startRemotePairPostgres, open: openRandom,
			Faults: append(links(), Applied{Kind: ServerKilled}),
		},
		{
			Name: "remote-postgres", Long: true, start: startRemotePostgres,
			Faults: append(links(), Applied{Kind: ServerStopped}, Applied{Kind: ServerKilled}),
		},
	}
}

// Find returns the system of a name, or nil.
func Find(name string) *System {
	for _, s := range Systems() {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// Start starts the servers, and creates a route to them for each process.
func (s *System) Start(t testing.TB, o Options) *Env {
	t.Helper()
	e := &Env{System: s, tb: t}
	if s.start != nil {
		s.start(e)
	}
	e.lay(o.Processes)
	return e
}

// Open opens the store of a URL.
func (s *System) Open(ctx context.Context, url string, ttl time.Duration) (driver.Store, func(), error) {
	if s.open != nil {
		return s.open(ctx, url, ttl)
	}
	src, err := open.Open(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	return src.Store, src.Close, nil
}

// Features returns the features of the store.
func (e *Env) Features(ctx context.Context) (driver.Features, error) {
	if e.Memory {
		return e.local().Features(), nil
	}
	s, shut, err := e.Open(ctx, e.url(""), time.Second)
	if err != nil {
		return driver.Features{}, err
	}
	defer shut()
	return s.Features(), nil
}

// small returns a disk, if the machine allows the tests to create one.
func (e *Env) small(size int64) []testenv.Option {
	if !e.may("disks", testenv.CanDisk) {
		return nil
	}
	e.disk = testenv.NewDisk(e.tb, size)
	return []testenv.Option{testenv.OnDisk(e.disk)}
}

func startSQLite(e *Env) {
	folder := e.tb.TempDir()
	e.Guard = "sqlite:" + filepath.Join(folder, "guarded.db")
	if e.small(16 << 20); e.disk != nil {
		folder = e.disk.Path
	}
	folder = filepath.Join(folder, "locks") // a private folder, whatever the permissions of the disk are
	if err := os.Mkdir(folder, 0o700); err != nil {
		e.tb.Fatal(err)
	}
	e.URL = func([]string) string { return "sqlite:" + filepath.Join(folder, "locks.db") }
}

// redisNode returns a server whose memory can be taken away.
func redisNode(r *testenv.RedisServer) *Node {
	return &Node{Server: r.Server, Limit: func(on bool) error {
		limit := "0"
		if on {
			limit = "1"
		}
		_, err := r.Do(context.Background(), "CONFIG", "SET", "maxmemory", limit)
		return err
	}}
}

func redisURL(addrs []string) string { return testenv.URL("redis", addrs[0]) }

// guardRedis starts a separate Redis for the resource that the locks protect: it has no faults.
func (e *Env) guardRedis() { e.Guard = testenv.Redis(e.tb).URL }

func startRedis(e *Env) {
	e.guardRedis()
	r := testenv.Redis(e.tb, append(e.small(32<<20), testenv.AOF())...)
	e.Nodes, e.URL = []*Node{redisNode(r)}, redisURL
}

func startRedlock(e *Env) {
	e.guardRedis()
	for range 3 {
		e.Nodes = append(e.Nodes, redisNode(testenv.Redis(e.tb, testenv.AOF())))
	}
	e.URL = func(addrs []string) string { return testenv.URL("redlock", addrs...) }
}

// openRedlock opens the store like package open, except for the longest TTL: with a longest TTL of
// a minute, a node that has forgotten would not count again within a run.
func openRedlock(ctx context.Context, url string, ttl time.Duration) (driver.Store, func(), error) {
	var closes []func()
	shut := func() {
		for _, c := range closes {
			c()
		}
	}
	var nodes []driver.Store
	_, addrs, _ := strings.Cut(url, "@")
	for addr := range strings.SplitSeq(addrs, ",") {
		src, err := open.Open(ctx, testenv.URL("redis", addr))
		if err != nil {
			shut()
			return nil, nil, err
		}
		nodes, closes = append(nodes, src.Store), append(closes, src.Close)
	}
	q, err := quorum.New(ctx, nodes, &quorum.Options{Name: "redlock", LongestTTL: ttl})
	if err != nil {
		shut()
		return nil, nil, err
	}
	closes = append([]func(){q.Close}, closes...) // it calls nodes until it is closed
	return q, shut, nil
}

// forever counts the keys of the runs that have no TTL.
const forever = `local n = 0
for _, k in ipairs(redis.call('KEYS', '*proof/*')) do
	if redis.call('PTTL', k) == -1 then n = n + 1 end
end
return n`

// redisLeft counts the connections of clients, and keys that stay.
func redisLeft(ctx context.Context, e *Env) (string, error) {
	for _, n := range e.Nodes {
		r := testenv.RedisServer{Server: n.Server}
		if v, err := r.Do(ctx, "EVAL_RO", forever, "0"); err != nil {
			return "", err
		} else if v != int64(0) {
			return fmt.Sprintf("%v keys without a TTL on a Redis server", v), nil
		}
		v, err := r.Do(ctx, "CLIENT", "LIST", "TYPE", "normal")
		if err != nil {
			return "", err
		}
		text, _ := v.(string)
		if conns := strings.Count(text, "\n"); conns > 1 { // one is the connection of this call
			return fmt.Sprintf("%d connections to a Redis server", conns-1), nil
		}
	}
	return "", nil
}

func startPostgres(e *Env, query string) {
	p := testenv.Postgres(e.tb, append(e.small(400<<20), testenv.Config(
		// Every advisory claim with a waiter has a connection, and every process has one.
		"max_connections = 400", "shared_buffers = 16MB", "max_wal_size = 64MB", "restart_after_crash = on"))...)
	base := p.Database(e.tb)
	e.Guard = p.Database(e.tb)
	e.Nodes = []*Node{{Server: p.Server}}
	e.URL = func(addrs []string) string { return strings.Replace(base, p.Addr, addrs[0], 1) + query }
}

func startMariaDB(e *Env) {
	m := testenv.MariaDB(e.tb)
	base := m.Database(e.tb)
	e.guardRedis()
	e.Nodes = []*Node{{Server: m.Server}}
	e.URL = func(addrs []string) string { return strings.Replace(base, m.Addr, addrs[0], 1) }
}

// mariaDBLeft counts the connections of clients.
func mariaDBLeft(ctx context.Context, e *Env) (string, error) {
	m := testenv.MariaDBServer{Server: e.Nodes[0].Server}
	rows, err := m.Query(ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND COMMAND NOT IN ('Daemon', 'Killed')")
	if err != nil {
		return "", err
	}
	if rows[0][0] != "0" {
		return rows[0][0] + " connections to MariaDB", nil
	}
	return "", nil
}

// postgresLeft counts the connections of clients, and advisory locks.
func postgresLeft(ctx context.Context, e *Env) (string, error) {
	p := testenv.PostgresServer{Server: e.Nodes[0].Server}
	rows, err := p.Query(ctx, `select count(*) filter (where backend_type = 'client backend' and pid <> pg_backend_pid()),
		(select count(*) from pg_locks where locktype = 'advisory') from pg_stat_activity`)
	if err != nil {
		return "", err
	}
	if rows[0][0] != "0" || rows[0][1] != "0" {
		return fmt.Sprintf("%s connections to PostgreSQL, %s advisory locks", rows[0][0], rows[0][1]), nil
	}
	return "", nil
}

func startEtcd(e *Env) {
	e.guardRedis()
	for _, m := range testenv.Etcd(e.tb, testenv.Members(3)).Members {
		e.Nodes = append(e.Nodes, &Node{Server: m})
	}
	e.URL = func(addrs []string) string { return testenv.URL("etcd", addrs...) }
}

// etcdLeft counts claims and entries without a lease.
func etcdLeft(ctx context.Context, e *Env) (string, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Nodes[0].Server.URL}, Logger: zap.NewNop()})
	if err != nil {
		return "", err
	}
	defer c.Close()
	resp, err := c.Get(ctx, "distlock/k/", clientv3.WithPrefix())
	if err != nil {
		return "", err
	}
	for _, kv := range resp.Kvs {
		if kv.Lease == 0 {
			return fmt.Sprintf("the key %q of etcd has no lease", kv.Key), nil
		}
	}
	return "", nil
}
