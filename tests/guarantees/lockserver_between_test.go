package guarantees_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/remote"
	"github.com/distlock/distlock/tests/internal/faults"
)

// A repeater is a proxy for HTTP/1.1 that delivers some calls twice, and some late, after it has
// answered by itself that there was no answer.
type repeater struct {
	to          string
	ttl         time.Duration
	mu          sync.Mutex
	rng         *rand.Rand
	late        sync.WaitGroup
	twice, then atomic.Int64
}

func (p *repeater) draw() (what int, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rng.IntN(8), upTo(p.rng, 2*p.ttl)
}

func (p *repeater) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || strings.HasSuffix(r.URL.Path, "/Watch") {
		w.WriteHeader(http.StatusHTTPVersionNotSupported)
		return
	}
	what, delay := p.draw()
	again := func() {
		p.late.Go(func() {
			time.Sleep(delay)
			if resp, err := p.send(context.WithoutCancel(r.Context()), r, body); err == nil {
				resp.Body.Close()
			}
		})
	}
	switch what {
	case 0: // late, and the caller has no answer
		p.then.Add(1)
		again()
		w.WriteHeader(http.StatusGatewayTimeout)
		return
	case 1, 2, 3: // now and later, or twice at once
		p.twice.Add(1)
		if strings.Contains(r.URL.Path, "/Release") { // also several
			// The second of two releases is answered "not held", which must not be the caller's
			// answer: so it is sent after the first was answered.
			defer again()
			break
		}
		if what == 3 {
			delay = 0
		}
		again()
	}
	resp, err := p.send(r.Context(), r, body)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

func (p *repeater) send(ctx context.Context, r *http.Request, body []byte) (*http.Response, error) {
	out, err := http.NewRequestWithContext(ctx, r.Method, p.to+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = r.Header.Clone()
	out.Header.Del("Connect-Timeout-Ms") // a late call has its time again
	return http.DefaultTransport.RoundTrip(out)
}

// A proxy delivers calls twice, and late, also an Acquire after the Release of its claim. There is
// one holder at a time all the same.
func TestLockServer_delivered(t *testing.T) {
	t.Parallel()
	const ttl, lasts = time.Second, 12 * time.Second
	s, rng, began := sites["remote"](t), chance(t), time.Now()
	d := newLoad(ttl, func(rng *rand.Rand) string {
		return fmt.Sprint("key ", int(time.Since(began)/(500*time.Millisecond)), " ", rng.IntN(3))
	})
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var proxies [2]*repeater
	for i := range proxies {
		p := &repeater{to: s.locks[0].URL, ttl: ttl, rng: rand.New(rand.NewPCG(rng.Uint64(), 7))}
		proxies[i] = p
		web := httptest.NewServer(p)
		t.Cleanup(func() {
			web.Close()
			p.late.Wait()
		})
		name := fmt.Sprint("link ", i)
		store, err := openErr(t, web.URL)
		for try := 0; err != nil && try < 20; try++ { // its first call may be a late one
			store, err = openErr(t, web.URL)
		}
		if err != nil {
			t.Fatal(err)
		}
		l := locker(t, store, distlock.TTL(ttl), distlock.Holder(name))
		for range 3 {
			c := d.client(name, l, rng.Uint64())
			clients.Go(func() { c.Run(ctx) })
		}
	}
	stopStalls := testenv.Stalls(100*time.Millisecond, func(from, to time.Time) {
		for i := range proxies {
			d.Recorder.Fault(fmt.Sprint("link ", i), history.Pause, from, to)
		}
	})
	for time.Since(began) < lasts || d.Grants.Load() < 100 && time.Since(began) < 4*lasts {
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	clients.Wait()
	stopStalls()
	v := history.Check(d.Recorder.History(), history.Rules{
		Tolerance: 500 * time.Millisecond, Stuck: 10*ttl + soon, Min: history.Minimums{Grants: 100, ContendedWaits: 20},
	})
	twice, late := proxies[0].twice.Load()+proxies[1].twice.Load(), proxies[0].then.Load()+proxies[1].then.Load()
	t.Logf("%d calls delivered twice, %d late: %d grants, %d waits", twice, late, v.Grants, v.Waits)
	if err := v.Err(); err != nil {
		t.Error(err)
	}
	if twice < 20 || late < 5 {
		t.Error("too few for a result")
	}
}

// balance listens on one address, and connects each client to the next server in turn.
func balance(t testing.TB, addrs ...string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for i := 0; ; i++ {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addrs[i%len(addrs)])
			if err != nil {
				near.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
				conns.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					pair[0].Close()
					pair[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	return l.Addr().String()
}

// Two servers with two files are behind one address. A client that meets both fails and names both,
// and gets locks of one store only. A client with store_id gets none of the other.
func TestLockServer_two_stores(t *testing.T) {
	t.Parallel()
	one, two := testenv.LockServer(t, faults.ServerRole, ""), testenv.LockServer(t, faults.ServerRole, "")
	addr := balance(t, one.Addr, two.Addr)
	id := func(url string) string { // as a server names its store
		resp, err := http.Post(url+"/distlock.v1.Store/Features", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.Header.Get("Distlock-Store")
	}
	by := map[string]driver.Store{id(one.URL): openURL(t, one.URL), id(two.URL): openURL(t, two.URL)}
	if len(by) != 2 {
		t.Fatal("the stores have one identity")
	}
	urls := []string{"http://" + addr}
	for pin := range by {
		urls = append(urls, urls[0]+"?store_id="+pin)
	}
	for _, url := range urls {
		client, err := openErr(t, url)
		for try := 0; err != nil && try < 4; try++ { // a pinned client may meet the other one first
			client, err = openErr(t, url)
		}
		if err != nil {
			t.Fatal(err)
		}
		meets(t, client, by, url)
	}
}

// meets makes calls at the same time, by connections to both servers.
func meets(t *testing.T, client driver.Store, by map[string]driver.Store, url string) {
	t.Helper()
	const n = 16
	var calls sync.WaitGroup
	var granted, refused atomic.Int64
	for i := range n {
		calls.Go(func() {
			id := driver.ID{Key: fmt.Sprint(url, " ", i), Owner: fmt.Sprint("owner ", i)}
			res, err := client.Acquire(t.Context(), driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute})
			var other *remote.OtherStoreError
			switch {
			case err == nil && res.Granted:
				granted.Add(1)
			case errors.As(err, &other) && other.Want != other.Found && by[other.Want] != nil && by[other.Found] != nil:
				refused.Add(1)
			default:
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	calls.Wait()
	stores := 0
	for id, s := range by {
		held := 0
		for _, err := range driver.List(t.Context(), s, url+" ") {
			if err != nil {
				t.Fatal(err)
			}
			held++
		}
		if held > 0 {
			stores++
			if int64(held) != granted.Load() || strings.Contains(url, "store_id=") && !strings.Contains(url, id) {
				t.Errorf("%s: the store %s has %d claims, and %d were granted", url, id, held, granted.Load())
			}
		}
	}
	if stores != 1 || refused.Load() == 0 {
		t.Errorf("%s: claims in %d stores, %d granted, %d refused", url, stores, granted.Load(), refused.Load())
	}
}

// The host of a server with a SQLite file reboots while 1,000 locks are held by others: the file
// has the boot identifier of an earlier boot. No lock is granted to a rival, and no lease is lost.
func TestLockServer_reboot(t *testing.T) {
	t.Parallel()
	const n, ttl = 1000, 30 * time.Second
	file := filepath.Join(t.TempDir(), "locks.db")
	v := testenv.LockServer(t, faults.ServerRole, "sqlite:"+file+"?holders=remote")
	s := onLockServers(v)
	l, rival := locker(t, s.store(t), distlock.TTL(ttl)), locker(t, s.store(t), distlock.TTL(ttl))
	leases := holdMany(t, l, n)
	for range 3 {
		v.Kill()
		reboot(t, file)
		v.Restart()
		granted := 0
		for i := range n {
			_, err := rival.TryLock(t.Context(), fmt.Sprint("key ", i))
			for troubled(err) { // a connection of the server that was killed
				_, err = rival.TryLock(t.Context(), fmt.Sprint("key ", i))
			}
			if !errors.Is(err, distlock.ErrHeld) {
				granted++
			}
		}
		if granted > 0 {
			t.Errorf("%d of %d locks were not refused after the reboot", granted, n)
		}
	}
	for i, lease := range leases {
		if err := lease.Err(); err != nil {
			t.Fatalf("lease %d: %v", i, err)
		}
	}
	extend(t, leases[0], ttl)
	unlock(t, leases[0])
	unlock(t, persist(t, rival, "key 0"))
	t.Logf("3 reboots under %d leases: none lost, and none granted to a rival", n)
}

// reboot makes a file one of an earlier boot.
func reboot(t testing.TB, file string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	res, err := db.ExecContext(t.Context(), "update meta set value = 'an earlier boot' where name = 'boot'")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := res.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%d boot identifiers, %v", n, err)
	}
}

// holdMany acquires n locks.
func holdMany(t testing.TB, l *distlock.Locker, n int) []*distlock.Lease {
	leases := make([]*distlock.Lease, n)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				leases[i] = persist(t, l, fmt.Sprint("key ", i))
			}
		})
	}
	wg.Wait()
	return leases
}
