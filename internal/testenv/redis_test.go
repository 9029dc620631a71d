package testenv_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t, testenv.Config("maxmemory 12mb"))
	is(t, do(t, r, "PING"), "PONG")
	is(t, do(t, r, "CONFIG", "GET", "maxmemory"), "[maxmemory 12582912]")
	is(t, r.URL, "redis://default:"+testenv.Canary+"@"+r.Addr+"/0")
	is(t, r.Info(t.Context(), "role"), "master")
	if !strings.Contains(r.Log(), "Ready to accept connections") {
		t.Errorf("the log is\n%s", r.Log())
	}
	if _, err := r.Do(t.Context(), "DEBUG", "SLEEP", "0"); err == nil {
		t.Error("DEBUG is allowed without DebugCommand")
	}

	do(t, r, "SET", "k", "v")
	pid := r.PID()
	r.Kill()
	if _, err := r.Do(t.Context(), "PING"); err == nil {
		t.Error("it answers after Kill")
	}
	r.Kill() // has no effect
	r.Restart()
	is(t, do(t, r, "EXISTS", "k"), "0")
	if r.PID() == pid {
		t.Error("Restart started no new process")
	}
}

func TestRedis_aof(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t, testenv.AOF(), testenv.DebugCommand())
	is(t, do(t, r, "DEBUG", "SLEEP", "0"), "OK")
	do(t, r, "SET", "k", "v")
	addr := r.Addr
	r.Kill()
	r.Restart()
	is(t, do(t, r, "GET", "k"), "v")
	r.Stop()
	r.Restart()
	is(t, do(t, r, "GET", "k"), "v")
	r.Restart() // also of one that runs
	is(t, do(t, r, "GET", "k"), "v")
	r.RestartEmpty()
	is(t, do(t, r, "EXISTS", "k"), "0")
	is(t, r.Addr, addr)
}

func TestRedis_pause(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t)
	r.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := r.Do(ctx, "PING")
	// context.DeadlineExceeded is the error before there is a connection.
	if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused server: %v", err)
	}
	r.Resume()
	is(t, do(t, r, "PING"), "PONG")
	r.Pause()
	watch := testenv.NewStopwatch(t)
	r.Stop()
	if took := watch.Elapsed(); took >= 5*time.Second {
		t.Errorf("Stop of a paused server took %v", took)
	}
	r.Restart()
	is(t, do(t, r, "PING"), "PONG")
	r.Pause() // the end of the test must still end a paused server
}

func TestRedis_password(t *testing.T) {
	t.Parallel()
	const secret = `s3 "cr\et`
	r := testenv.Redis(t, testenv.Password(secret))
	is(t, do(t, r, "PING"), "PONG")
	replica := testenv.Redis(t, testenv.ReplicaOf(r), testenv.Password("other"))
	is(t, replica.Info(t.Context(), "role"), "slave")
	is(t, replica.Info(t.Context(), "master_link_status"), "up")
}

func TestRedis_acl(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t, testenv.ACL("user default off", "user app on >pw ~app:* +@all"))
	_, err := r.Do(t.Context(), "PING")
	var refused testenv.RedisError
	if !errors.As(err, &refused) || !strings.HasPrefix(string(refused), "NOAUTH") {
		t.Errorf("the default user is off: %v", err)
	}
	conn, err := net.Dial("tcp", r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("AUTH app pw\r\n")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := conn.Read(buf)
	if err != nil || string(buf[:n]) != "+OK\r\n" {
		t.Errorf("AUTH app: %q, %v", buf[:n], err)
	}
}

func TestRedis_tls(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t, testenv.TLS())
	is(t, do(t, r, "PING"), "PONG")
	is(t, r.URL, "rediss://default:"+testenv.Canary+"@"+r.Addr+"/0")
	conn, err := net.Dial("tcp", r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	conn.Write([]byte("PING\r\n"))
	buf := make([]byte, 7)
	if n, _ := conn.Read(buf); string(buf[:n]) == "+PONG\r\n" {
		t.Error("it speaks without TLS too")
	}

	// A new certificate is used without a restart.
	if err := r.Certs.Issue(time.Minute); err != nil {
		t.Fatal(err)
	}
	is(t, do(t, r, "CONFIG", "SET", "tls-cert-file", r.Certs.Cert, "tls-key-file", r.Certs.Key), "OK")
	is(t, do(t, r, "PING"), "PONG")
	replica := testenv.Redis(t, testenv.ReplicaOf(r))
	is(t, replica.URL, "rediss://default:"+testenv.Canary+"@"+replica.Addr+"/0")
	is(t, replica.Info(t.Context(), "master_link_status"), "up")
}

func TestRedis_unixSocket(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t, testenv.UnixSocket())
	conn, err := net.Dial("unix", r.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Write([]byte("PING\r\n"))
	buf := make([]byte, 7)
	n, err := conn.Read(buf)
	if string(buf[:n]) != "+PONG\r\n" {
		t.Errorf("PING: %q, %v", buf[:n], err)
	}
}

func TestRedis_replica(t *testing.T) {
	t.Parallel()
	primary := testenv.Redis(t)
	do(t, primary, "SET", "k", "v")
	replica := testenv.Redis(t, testenv.ReplicaOf(primary))
	is(t, do(t, replica, "GET", "k"), "v")
	_, err := replica.Do(t.Context(), "SET", "k", "w")
	var refused testenv.RedisError
	if !errors.As(err, &refused) || !strings.HasPrefix(string(refused), "READONLY") {
		t.Errorf("SET on a replica: %v", err)
	}
	primary.Kill()
	is(t, do(t, replica, "REPLICAOF", "NO", "ONE"), "OK")
	is(t, do(t, replica, "SET", "k", "w"), "OK")
}

func TestRedis_shared(t *testing.T) {
	a := testenv.Redis(t, testenv.Shared())
	do(t, a, "SET", "testenv", "1")
	t.Run("again", func(t *testing.T) {
		b := testenv.Redis(t, testenv.Shared())
		is(t, b.Addr, a.Addr)
		is(t, do(t, b, "GET", "testenv"), "1")
		is(t, b.PID(), 0)
	})
	is(t, do(t, a, "PING"), "PONG") // the server did not end with the subtest
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	c := testenv.RedisCluster(t, testenv.AOF())
	is(t, len(c.Addrs()), 6)
	for _, n := range c.Nodes {
		info := do(t, n, "CLUSTER", "INFO")
		for _, want := range []string{"cluster_state:ok", "cluster_slots_assigned:16384", "cluster_size:3"} {
			if !strings.Contains(info, want) {
				t.Errorf("%s: no %s in\n%s", n.Addr, want, info)
			}
		}
	}
	owners := map[*testenv.RedisServer]int{}
	var first *testenv.RedisServer
	for _, key := range strings.Split("abcdefghijklmnop", "") {
		n, err := c.PrimaryOf(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = n
		}
		is(t, do(t, n, "SET", key, key), "OK")
		owners[n]++
	}
	is(t, len(owners), 3)

	// Replication is asynchronous: data that the replica has not received yet is lost with the
	// primary.
	eventually(t, 15*time.Second, "the replica has it all", func() bool {
		return strings.Contains(first.Info(t.Context(), "slave0"), ",state=online,offset="+first.Info(t.Context(), "master_repl_offset")+",")
	})
	first.Kill()
	var next *testenv.RedisServer
	eventually(t, 15*time.Second, "a replica takes over", func() (ok bool) {
		var err error
		next, err = c.PrimaryOf(t.Context(), "a")
		return err == nil
	})
	is(t, do(t, next, "GET", "a"), "a")
	first.Restart()
	eventually(t, 15*time.Second, "the old primary is a replica", func() bool {
		return first.Info(t.Context(), "role") == "slave"
	})
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := testenv.Sentinel(t, testenv.Replicas(2), testenv.Password("pw"))
	is(t, len(s.Addrs()), 3)
	is(t, len(s.Nodes), 3)
	first, err := s.Primary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	is(t, first, s.Nodes[0])
	do(t, first, "SET", "k", "v")
	is(t, do(t, first, "WAIT", "2", "5000"), "2")
	first.Kill()
	var next *testenv.RedisServer
	eventually(t, 20*time.Second, "the sentinels fail over", func() bool {
		next, err = s.Primary(t.Context())
		return err == nil && next != first && next.Info(t.Context(), "role") == "master"
	})
	is(t, do(t, next, "GET", "k"), "v")
}
