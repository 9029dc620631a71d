package pgadvisory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/pgadvisory"
)

// psqlKey is the number of a name, as documented.
const psqlKey = "('x' || left(encode(sha256(convert_to('%s', 'UTF8')), 'hex'), 16))::bit(64)::bigint"

// TestStore_psql shows that the store and psql exclude each other, both ways.
func TestStore_psql(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("psql")
	if err != nil {
		testenv.Missing(t, "psql", "apt-get install postgresql-client")
	}
	_, url := server(t)
	s := opened(t, url)
	const name = "night ly/é"
	key := fmt.Sprintf(psqlKey, name)
	// The script reports when it has the lock, and keeps it until its input ends.
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	u.User = neturl.User(u.User.Username())
	cmd := exec.CommandContext(t.Context(), program, "-XAtq", u.String())
	cmd.Env = append(os.Environ(), "PGPASSWORD="+password) // everybody can see the arguments
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out syncBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(in, "set application_name = 'people';\nselect 'got', pg_advisory_lock(%s);\n", key)
	soon(t, 10*time.Second, func() error {
		if !strings.Contains(out.String(), "got") {
			return errors.New("psql wrote " + out.String())
		}
		return nil
	})
	res := refused(t, s, exclusive(name, time.Minute))
	if !strings.Contains(res.Blocker.Holder, "people (server process ") || res.Used != driver.Whole {
		t.Errorf("the blocker is %+v, used %d", res.Blocker, res.Used)
	}
	refused(t, s, shared(name, time.Minute))
	take(t, s, exclusive(name+"2", time.Minute))
	claims, err := s.Show(t.Context(), name)
	if err != nil || len(claims) != 1 || !strings.HasPrefix(claims[0].Holder, "people") {
		t.Errorf("Show: %+v, %v", claims, err)
	}
	fmt.Fprintf(in, "select pg_advisory_unlock(%s);\n", key)
	r := exclusive(name, time.Minute)
	soon(t, 10*time.Second, func() error { return got(t, s, r) })
	fmt.Fprintf(in, "select 'tried ' || pg_try_advisory_lock(%s);\n", key)
	soon(t, 10*time.Second, func() error {
		if !strings.Contains(out.String(), "tried false") {
			return errors.New("psql wrote " + out.String())
		}
		return nil
	})
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A syncBuffer may be written and read concurrently.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestKey pins the numbers: other programs depend on them.
func TestKey(t *testing.T) {
	for name, want := range map[string]int64{"": -2039914840885289964, "abc": -5010229573455851542, "key": 3202306911907497721} {
		if got := pgadvisory.Key(name); got != want {
			t.Errorf("Key(%q) is %d, want %d", name, got, want)
		}
	}
}

// TestStore_collision shows that two names with one number refuse each other, and that no lock is
// granted twice.
func TestStore_collision(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	a, b := opened(t, url), opened(t, url)
	for _, s := range []*pgadvisory.Store{a, b} {
		s.Collide(func(string) int64 { return 7 })
	}
	one := exclusive("one", time.Minute)
	take(t, a, one)
	refused(t, a, exclusive("two", time.Minute))
	refused(t, b, exclusive("two", time.Minute))
	if _, err := a.Renew(t.Context(), driver.Renewal{ID: driver.ID{Key: "two", Owner: one.Owner}, TTL: time.Minute}); !errors.Is(err, driver.ErrNotHeld) {
		t.Error("Renew:", err)
	}
	free(t, a, one.ID)
	free(t, b, take1(t, b, "two"))
	take(t, a, shared("one", time.Minute))
	take(t, a, shared("two", time.Minute))
	refused(t, a, exclusive("three", time.Minute))
}

// TestKey_apart shows that names with the same 32-bit number have different keys.
func TestKey_apart(t *testing.T) {
	seen := map[int32]string{}
	for i := range 300_000 {
		name := fmt.Sprint("job-", i)
		k := pgadvisory.Key(name)
		if other, ok := seen[int32(k)]; ok {
			if pgadvisory.Key(other) == k {
				t.Fatalf("%q and %q have one number", name, other)
			}
			return
		}
		seen[int32(k)] = name
	}
	t.Fatal("no pair was found: the numbers are not spread")
}

// TestStore_pooler shows that a pooler that mixes connections is refused, and that another one is
// accepted.
func TestStore_pooler(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t, testenv.Shared())
	for _, mode := range []testenv.PoolMode{testenv.PoolTransaction, testenv.PoolStatement} {
		for _, more := range [][]string{nil, {"server_round_robin = 1", "min_pool_size = 2"}} {
			pb := testenv.PgBouncer(t, pg, mode, testenv.Config(more...))
			s, err := pgadvisory.Open(t.Context(), pb.URL)
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, pgadvisory.ErrPooler) || !strings.Contains(err.Error(), "pool_mode") {
				t.Errorf("%s %v: %v", mode, more, err)
			}
		}
	}
	pb := testenv.PgBouncer(t, pg, testenv.PoolSession)
	a, b := opened(t, pb.URL), opened(t, pg.URL)
	r := exclusive("pooled", 30*time.Second)
	take(t, a, r)
	refused(t, b, exclusive("pooled", time.Minute))
	if _, err := a.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: time.Minute}); err != nil {
		t.Error(err)
	}
	free(t, a, r.ID)
	free(t, b, take1(t, b, "pooled"))
}

// TestStore_many_keys holds a thousand keys on few connections. Releasing one frees only that one.
func TestStore_many_keys(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	s, rival := opened(t, url), opened(t, url)
	const n = 1000
	ids := make([]driver.Renewal, n)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				r := exclusive(fmt.Sprint("key", i), time.Minute)
				if err := got(t, s, r); err != nil {
					t.Error(err)
					return
				}
				ids[i] = driver.Renewal{ID: r.ID, TTL: time.Minute}
			}
		})
	}
	wg.Wait()
	if links := s.Links(); links > 4 {
		t.Errorf("%d connections", links)
	}
	if held := locks(t, pg, url); held != n {
		t.Errorf("%d locks", held)
	}
	for i, r := range s.RenewAll(t.Context(), ids) {
		if r.Err != nil {
			t.Fatal(i, r.Err)
		}
	}
	free(t, s, ids[n/2].ID)
	take(t, rival, exclusive(ids[n/2].Key, time.Minute))
	refused(t, rival, exclusive(ids[n/2+1].Key, time.Minute))
	if held := locks(t, pg, url); held != n {
		t.Errorf("%d locks", held)
	}
}

// TestStore_queue shows that waiters stand in the server's queue: no poll, no lost grant, no lock
// left behind.
func TestStore_queue(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	var lockers []*distlock.Locker
	for range 3 {
		l, err := distlock.New(opened(t, url), distlock.Backoff(5*time.Second, 10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close(context.Background()) })
		lockers = append(lockers, l)
	}
	watch := testenv.NewStopwatch(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	holders, last := 0, uint64(0)
	for _, l := range lockers {
		wg.Go(func() {
			for range 20 {
				lease, err := l.Lock(t.Context(), "key")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if holders++; holders > 1 || lease.Fence() <= last {
					t.Errorf("%d holders, fence %d after %d", holders, lease.Fence(), last)
				}
				last = lease.Fence()
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
				mu.Lock()
				holders--
				mu.Unlock()
				if err := lease.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if d := watch.Elapsed(); d > 15*time.Second {
		t.Errorf("60 holds of 5 ms took %v: waiters were not woken", d)
	}
	soon(t, 5*time.Second, func() error {
		if n := locks(t, pg, url); n != 0 {
			return fmt.Errorf("%d locks are left", n)
		}
		return nil
	})
}

// TestStore_queue_left shows that a waiter that gives up leaves the server's queue.
func TestStore_queue_left(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	a, b := opened(t, url), opened(t, url)
	held := exclusive("key", time.Minute)
	take(t, a, held)
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		w := exclusive("key", time.Minute)
		driver.Watch(ctx, b, w.ID)
		refused(t, b, w)
		soon(t, 5*time.Second, func() error {
			if n := locks(t, pg, url); n != 2 {
				return fmt.Errorf("%d locks, want one held and one waited for", n)
			}
			return nil
		})
		cancel()
		soon(t, 5*time.Second, func() error {
			if n := locks(t, pg, url); n != 1 {
				return fmt.Errorf("%d locks, want one", n)
			}
			return nil
		})
	}
	// A lock that its owner does not take is released.
	w := exclusive("key", time.Minute)
	wake := driver.Watch(t.Context(), b, w.ID)
	refused(t, b, w)
	free(t, a, held.ID)
	<-wake
	soon(t, 5*time.Second, func() error { return got(t, a, exclusive("key", time.Minute)) })
}

// TestStore_questions shows that no waiter uses a connection on which a question is about to be
// sent: the answer would arrive only after the wait.
func TestStore_questions(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s := opened(t, url)
	// Each on a connection of its own.
	short, long := exclusive("short", time.Minute), exclusive("long", time.Hour)
	take(t, s, short)
	take(t, s, long)
	free(t, s, short.ID)
	free(t, s, long.ID)
	if n := s.Links(); n < 2 {
		t.Fatalf("%d connections, want one to wait on", n)
	}
	for range 30 { // the choice is random
		if taken, err := s.WaiterTakesQuestion(t.Context()); taken || err != nil {
			t.Fatalf("the connection of a question is taken: %v, %v", taken, err)
		}
	}
}

// TestStore_connections shows that there are no more connections than Options allow, even if every
// lock was granted in the queue.
func TestStore_connections(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, rival := opened(t, url+"&lock_conns=2&lock_waits=1"), opened(t, url)
	for i := range 6 {
		held, w := exclusive(fmt.Sprint("key", i), time.Minute),
			exclusive(fmt.Sprint("key", i), time.Minute)
		take(t, rival, held)
		ctx, cancel := context.WithCancel(t.Context())
		driver.Watch(ctx, s, w.ID)
		refused(t, s, w)
		time.Sleep(20 * time.Millisecond) // it may be in the queue by now
		free(t, rival, held.ID)
		soon(t, 5*time.Second, func() error { return got(t, s, w) })
		cancel()
		if n := s.Links(); n > 3 {
			t.Fatalf("%d connections, want at most 3", n)
		}
	}
}

// TestStore_grants shows the permissions that a role needs, and the errors for a role that has
// fewer.
func TestStore_grants(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	app := "app_" + database(url)
	admin, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	run := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password() // a server started by others may require one
	u.User = neturl.UserPassword(app, password)
	as := u.String()
	run("create role " + app + " login password '" + strings.ReplaceAll(password, "'", "''") + "'")
	t.Cleanup(func() {
		_, _ = pg.Query(context.Background(), "drop role if exists "+app)
	})
	wants := func(text string) {
		t.Helper()
		if s, err := pgadvisory.Open(t.Context(), as); err == nil ||
			!strings.Contains(err.Error(), text) {
			if err == nil {
				s.Close()
			}
			t.Errorf("%v, want %q", err, text)
		}
	}
	wants("permission denied")
	unfenced := opened(t, as+"&lock_unfenced=true")
	if unfenced.Features().Fence || take(t, unfenced, exclusive("key", time.Minute)).Fence != 0 {
		t.Error("an unfenced store has fences")
	}
	run(pgadvisory.Migration(""))
	run(pgadvisory.Migration(""))
	wants("may not use it")
	run("grant usage on schema distlock to " + app +
		"; grant usage on sequence distlock.advisory_fence to " + app)
	s := opened(t, as)
	// The role acquired a lock that another role needs.
	take(t, s, exclusive("theirs", time.Minute))
	refused(t, opened(t, url), exclusive("theirs", time.Minute))
	run("alter sequence distlock.advisory_fence cache 10")
	wants("CACHE")
	run("alter sequence distlock.advisory_fence cache 1")
	run("alter sequence distlock.advisory_fence restart with " +
		fmt.Sprint(int64(driver.MaxFence>>7-1)))
	last := exclusive("last", time.Minute)
	if res := take(t, s, last); res.Fence+driver.Span > driver.MaxFence {
		t.Error("the last fence is", res.Fence)
	}
	if _, err := s.Acquire(t.Context(), exclusive("none left", time.Minute)); !errors.Is(err, driver.ErrUnavailable) {
		t.Error("without fences:", err)
	}
	if n := locks(t, pg, url); n != 3 {
		t.Errorf("%d locks, want 3: a grant without a fence was left behind", n)
	}
	for _, c := range []func() error{s.Close, unfenced.Close} {
		if err := c(); err != nil {
			t.Error(err)
		}
	}
	soon(t, 5*time.Second, func() error {
		_, err := admin.Exec(t.Context(), "drop owned by "+app)
		return err
	})
}

// TestStore_oldServer shows that a server that is too old is refused. scripts/matrix runs it with
// PostgreSQL 13.
func TestStore_oldServer(t *testing.T) {
	pg, url := server(t)
	rows, err := pg.Query(t.Context(), "show server_version_num")
	if err != nil {
		t.Fatal(err)
	}
	version := rows[0][0]
	if version >= "140000" {
		t.Skip("the server is not too old: scripts/matrix postgres-13 has one")
	}
	_, err = opened(t, url).Acquire(t.Context(), exclusive("key", time.Minute))
	if !errors.Is(err, errors.ErrUnsupported) ||
		!strings.Contains(err.Error(), "version is "+version[:2]) {
		t.Errorf("on version %s: %v", version, err)
	}
}

// TestNew_together opens many stores at once in an empty database.
func TestNew_together(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			s, err := pgadvisory.Open(t.Context(), url)
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
}

// TestNew_standby shows that a standby is refused: its locks exclude nobody at the primary.
func TestNew_standby(t *testing.T) {
	t.Parallel()
	primary := testenv.Postgres(t)
	opened(t, primary.URL) // creates the sequence
	standby := testenv.Postgres(t, testenv.StandbyOf(primary))
	s, err := pgadvisory.Open(t.Context(), standby.URL)
	if err == nil {
		defer s.Close()
		_, err = s.Acquire(t.Context(), exclusive("key", time.Minute))
	}
	if !errors.Is(err, driver.ErrUnavailable) {
		t.Error("a standby:", err)
	}
}

func TestOpen_refuses(t *testing.T) {
	for url, want := range map[string]string{
		"redis://h": "begins with",
		"postgres://u:hunter22@h/d?lock_mode=lease":           "lock_mode",
		"postgres://u:hunter22@h/d?lock_conns=many":           "lock_conns",
		"postgres://u:hunter22@h/d?lock_conns=-1":             "Conns",
		"postgres://u:hunter22@h/d?lock_waits=-2":             "Waits",
		"postgres://u:hunter22@h/d?lock_cons=1":               "lock_conns",
		"postgres://u:hunter22@h/d?lock_unfenced=yes":         "lock_unfenced",
		"postgres://u:hunter22@h:x/d":                         "",
		"postgres://u:hunter22@h/d?lock_waits=1&lock_waits=2": "twice",
	} {
		s, err := pgadvisory.Open(t.Context(), url)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, pgadvisory.ErrURL) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := pgadvisory.New(t.Context(), nil, nil); err == nil {
		t.Error("no configuration is no error")
	}
	if _, err := pgadvisory.Open(t.Context(), "postgres://u:hunter22@127.0.0.1:1/d"); !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), "hunter") {
		t.Error("no server:", err)
	}
}

func TestStore_Inspect(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	info, err := opened(t, url).Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(info.Version, "PostgreSQL 1") || info.Age <= 0 ||
		!strings.HasPrefix(info.Identity, "pgadvisory:") || len(info.Findings) != 4 {
		t.Errorf("%+v", info)
	}
}

func TestStore_Close(t *testing.T) {
	t.Parallel()
	pg, url := server(t)
	s, rival := opened(t, url), opened(t, url)
	r, w := exclusive("key", time.Minute), exclusive("other", time.Minute)
	take(t, s, r)
	take(t, rival, on(w, "other"))
	waits := exclusive("other", time.Minute)
	driver.Watch(t.Context(), s, waits.ID)
	refused(t, s, waits)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Acquire(t.Context(), r); !errors.Is(err, driver.ErrUnavailable) {
		t.Error("Acquire:", err)
	}
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: time.Minute}); !errors.Is(err, driver.ErrUnavailable) {
		t.Error("Renew:", err)
	}
	if err := s.Release(t.Context(), r.ID); !errors.Is(err, driver.ErrUnavailable) {
		t.Error("Release:", err)
	}
	if driver.Watch(t.Context(), s, r.ID) != nil {
		t.Error("Watch of a closed store")
	}
	soon(t, 5*time.Second, func() error {
		if n := locks(t, pg, url); n != 1 {
			return fmt.Errorf("%d locks, want the rival's", n)
		}
		return nil
	})
}

func on(r driver.Request, key string) driver.Request {
	r.Key = key
	return r
}
