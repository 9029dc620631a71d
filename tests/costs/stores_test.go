package costs_test

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/distlock/distlock/internal/testenv"
)

// A subject is a store to measure.
type subject struct {
	name  string
	url   string
	meter *meter                       // nil: the store has no network
	inner func() (float64, bool)       // commands that the server ran, including those of scripts
	disk  func() (float64, bool)       // bytes written to disk
	size  func() (bytes, rows float64) // stored bytes, and number of keys or rows
	least time.Duration                // the least TTL, if it is longer than life
}

// subjects are the stores with their names in docs/costs.md.
var subjects = []struct {
	name  string
	make  func(t *testing.T) subject
	alone bool // the measurement covers this whole process
}{
	{"memory", memory, true},
	{"SQLite", sqlite, true},
	{"Redis", redis, false},
	{"Redlock, 3 nodes", redlock, false},
	{"PostgreSQL", postgres, false},
	{"PostgreSQL advisory", advisory, false},
	{"MariaDB", mariadb, false},
	{"etcd", etcd, false},
}

func unmeasured() (float64, bool) { return 0, false }

func memory(*testing.T) subject {
	return subject{url: "memory:", inner: unmeasured, disk: unmeasured,
		size: func() (float64, float64) { return heap(), 0 }}
}

// heap returns the memory in use.
func heap() float64 {
	runtime.GC()
	runtime.GC() // also frees objects with a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func sqlite(t *testing.T) subject {
	file := filepath.Join(t.TempDir(), "locks.db")
	return subject{url: "sqlite:" + file, inner: unmeasured, disk: written, size: func() (float64, float64) {
		var n float64
		for _, f := range []string{file, file + "-wal"} {
			if info, err := os.Stat(f); err == nil {
				n += float64(info.Size())
			}
		}
		return n, 0
	}}
}

// written returns the number of bytes that this process has written to files, if the system reports
// it.
func written() (float64, bool) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "wchar: "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
			return f, err == nil
		}
	}
	return 0, false
}

func redis(t *testing.T) subject { return redisNodes(t, 1) }

func redlock(t *testing.T) subject { return redisNodes(t, 3) }

func redisNodes(t *testing.T, n int) subject {
	s := subject{meter: &meter{count: resp}, disk: unmeasured}
	var nodes []*testenv.RedisServer
	var urls []string
	for range n {
		node := testenv.Redis(t)
		nodes = append(nodes, node)
		urls = append(urls, testenv.URL("redis", s.meter.front(t, node.Addr)))
	}
	if s.url = urls[0]; n > 1 {
		s.url = "redlock:?lock_node_limit=2s&node=" + strings.Join(urls, "&node=")
	}
	s.inner = func() (sum float64, ok bool) {
		for _, node := range nodes {
			info, err := node.Do(context.Background(), "INFO", "commandstats")
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(fmt.Sprint(info)) {
				name, rest, found := strings.Cut(line, ":calls=")
				if count, _, _ := strings.Cut(rest, ","); found && name != "cmdstat_info" &&
					name != "cmdstat_ping" {
					calls, _ := strconv.ParseFloat(count, 64)
					sum += calls
				}
			}
		}
		return sum, true
	}
	s.size = func() (bytes, rows float64) {
		for _, node := range nodes {
			// By key: the memory of the server also moves by what its connections and scripts need.
			sum, err := node.Do(context.Background(), "EVAL",
				"local n = 0 for _, k in ipairs(redis.call('KEYS', '*')) do n = n + redis.call('MEMORY', 'USAGE', k) end return n", "0")
			if err != nil {
				t.Fatal(err)
			}
			used, _ := strconv.ParseFloat(fmt.Sprint(sum), 64)
			keys, err := node.Do(context.Background(), "DBSIZE")
			if err != nil {
				t.Fatal(err)
			}
			n, _ := strconv.ParseFloat(fmt.Sprint(keys), 64)
			bytes, rows = bytes+used, rows+n
		}
		return bytes, rows
	}
	return s
}

func postgres(t *testing.T) subject {
	s, server := postgresServer(t)
	s.size = func() (float64, float64) {
		rows := query(t, server, "select coalesce(sum(b), 0), coalesce(sum(n), 0) from ("+
			"select sum(pg_column_size(k.*)) b, count(*) n from distlock.key k union all select sum(pg_column_size(c.*)), count(*) from distlock.claim c) t")
		return rows[0], rows[1]
	}
	return s
}

func advisory(t *testing.T) subject {
	s, _ := postgresServer(t)
	s.url += "&lock_mode=advisory"
	s.size = func() (float64, float64) { return 0, 0 } // there is no table
	return s
}

func postgresServer(t *testing.T) (subject, *testenv.PostgresServer) {
	s := subject{meter: &meter{count: pgwire}, inner: unmeasured}
	server := testenv.Postgres(t)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = s.meter.front(t, server.Addr)
	s.url = u.String()
	s.disk = func() (float64, bool) {
		return query(t, server, "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")[0], true
	}
	return s, server
}

func mariadb(t *testing.T) subject {
	s := subject{meter: &meter{count: mysql}, inner: unmeasured}
	server := testenv.MariaDB(t)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = s.meter.front(t, server.Addr)
	s.url = u.String()
	s.disk = func() (float64, bool) {
		return query(t, server, "select variable_value from information_schema.global_status where variable_name = 'innodb_os_log_written'")[0], true
	}
	s.size = func() (float64, float64) {
		rows := query(t, server, "select (select count(*) from distlock_claim) + (select count(*) from distlock_queue)")
		return math.NaN(), rows[0]
	}
	return s
}

// etcd is one member. Its messages, answers and reports of progress cross each other, so there are
// no round trips to count.
func etcd(t *testing.T) subject {
	s := subject{meter: &meter{count: grpc, crossing: true}, inner: unmeasured, disk: unmeasured, least: 3 * time.Second}
	server := testenv.Etcd(t)
	s.url = testenv.URL("etcd", s.meter.front(t, server.Members[0].Addr))
	c, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s.size = func() (float64, float64) {
		resp, err := c.Get(context.Background(), "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return math.NaN(), float64(resp.Count)
	}
	return s
}

// query returns the numbers of a row.
func query(t *testing.T, server interface {
	Query(ctx context.Context, text string) ([][]string, error)
}, sql string,
) []float64 {
	t.Helper()
	rows, err := server.Query(context.Background(), sql)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%s: %v %v", sql, rows, err)
	}
	var out []float64
	for _, text := range rows[0] {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}
