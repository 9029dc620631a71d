package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
)

// birthMark is the Redis key of the mark.
const birthMark = "{lock:}:birth"

// inspected opens a store that reports ages, and makes its server look an hour old.
func inspected(t *testing.T, srv *testenv.RedisServer) *redis.Store {
	t.Helper()
	s := at(t, srv.URL)
	if _, err := s.Inspect(t.Context()); err != nil {
		t.Fatal(err)
	}
	var name, id string
	var since int64
	if _, err := fmt.Sscan(fmt.Sprint(do(t, srv, "GET", birthMark)), &name, &since, &id); err != nil {
		t.Fatal(err)
	}
	do(t, srv, "SET", birthMark, fmt.Sprint(name, " ", since-time.Hour.Microseconds(), " ", id))
	if age := grant(t, s, exclusive("old")).Age; age < time.Hour {
		t.Fatalf("age %v, want an hour: this tests nothing", age)
	}
	return s
}

// bornAfter acquires a name until the server answers, and checks that the answer has the age of a
// server that was born after began.
func bornAfter(t *testing.T, s *redis.Store, began time.Time) {
	t.Helper()
	for tries := 1; ; tries++ {
		res, err := s.Acquire(t.Context(), exclusive("key"))
		if err == nil {
			if res.Age <= 0 || res.Age > time.Since(began) {
				t.Errorf("age %v, want that of a server born %v ago", res.Age, time.Since(began))
			}
			return
		}
		if tries == 100 {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond) // the connection has to be made again
	}
}

// A server that restarts with its mark, with or without its last writes, counts as just born: the
// two cases look the same.
func TestStore_age_restart(t *testing.T) {
	for name, opts := range map[string][]testenv.Option{
		"snapshot": {testenv.Config("save 3600 1")},
		"everysec": {testenv.Config("appendonly yes", "appendfsync everysec")},
		"always":   {testenv.AOF()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t, opts...)
			s := inspected(t, srv)
			before := identity(t, s)
			if name == "snapshot" {
				do(t, srv, "SAVE")
			}
			began := time.Now()
			srv.Kill()
			srv.Restart()
			if do(t, srv, "EXISTS", birthMark) != int64(1) {
				t.Fatal("the mark is lost: this tests nothing")
			}
			bornAfter(t, s, began)
			if after := identity(t, s); after != before {
				t.Errorf("identity %s, before the restart %s", after, before)
			}
		})
	}
}

// A server that keeps nothing on disk has forgotten every claim after a restart, and has a new
// identity.
func TestStore_identity_forgotten(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	s := inspected(t, srv)
	before := identity(t, s)
	if again := identity(t, at(t, srv.URL)); again != before {
		t.Errorf("two stores on one server: %s and %s", before, again)
	}
	began := time.Now()
	srv.Kill()
	srv.Restart()
	bornAfter(t, s, began)
	if after := identity(t, s); after == before {
		t.Errorf("identity %s, as before a restart without the data", after)
	}
}

// Two databases of a server are two stores, and one server.
func TestStore_identity_databases(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	var infos []driver.Info
	for _, url := range []string{srv.URL, "redis://" + srv.Addr + "/1", testenv.Redis(t).URL} {
		info, err := at(t, url).Inspect(t.Context())
		if err != nil || info.Server == "" {
			t.Fatalf("%+v, %v", info, err)
		}
		infos = append(infos, info)
	}
	if infos[0].Identity == infos[1].Identity || infos[0].Server != infos[1].Server || infos[0].Server == infos[2].Server {
		t.Errorf("two databases of a server, and another server: %+v", infos)
	}
}

// A replica that replaces its primary has the primary's mark, and may lack its last claims.
func TestStore_age_promoted(t *testing.T) {
	primary := testenv.Redis(t)
	replica := testenv.Redis(t, testenv.ReplicaOf(primary))
	before := identity(t, inspected(t, primary))
	mark := do(t, primary, "GET", birthMark)
	for tries := 0; do(t, replica, "GET", birthMark) != mark; tries++ {
		if tries == 1000 {
			t.Fatal("the replica does not follow")
		}
		time.Sleep(10 * time.Millisecond)
	}
	s := at(t, replica.URL)
	began := time.Now()
	do(t, replica, "REPLICAOF", "NO", "ONE")
	if after := identity(t, s); after != before {
		t.Errorf("identity %s, before the failover %s", after, before)
	}
	bornAfter(t, s, began)
}

// A mark from the future was written before the clock was set back. The server counts its age from
// the first call that sees it, not from when the clock has caught up.
func TestStore_age_future(t *testing.T) {
	srv := testenv.Redis(t)
	s := inspected(t, srv)
	began := time.Now()
	id := srv.Info(t.Context(), "master_replid")
	do(t, srv, "SET", birthMark, fmt.Sprint("name ", began.Add(time.Hour).UnixMicro(), " ", id))
	bornAfter(t, s, began)
	time.Sleep(20 * time.Millisecond)
	if age := grant(t, s, exclusive("key 2")).Age; age < 20*time.Millisecond {
		t.Errorf("age %v after 20ms", age)
	}
}

// For a user who may not see the replication ID, the server always counts as just born. Such a user
// does not change the mark for others.
func TestStore_age_blind(t *testing.T) {
	srv := testenv.Redis(t, testenv.ACL("user default on nopass ~* &* +@all",
		"user blind on >secret ~* &* +@all -info"))
	s := inspected(t, srv)
	blind := at(t, "redis://blind:secret@"+srv.Addr)
	if _, err := blind.Inspect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if age := grant(t, blind, exclusive("key")).Age; age != time.Microsecond {
		t.Errorf("age %v, want the lowest", age)
	}
	if age := grant(t, s, exclusive("key 2")).Age; age < time.Hour {
		t.Errorf("age %v for another user, want an hour", age)
	}
}

func identity(t *testing.T, s *redis.Store) string {
	t.Helper()
	info, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Identity
}
