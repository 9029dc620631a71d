package etcd

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
)

func newPool() *pool {
	return &pool{clock: keeper.NewClock(), idle: map[int64][]*lease{}, used: map[string]*lease{}}
}

func newLease(id int64) *lease {
	return &lease{id: id, seconds: 10, end: time.Now().Add(10 * time.Second)}
}

// A lease with a transaction of unknown outcome never gets another claim: the transaction may come
// late, and its claim would live as long as the other.
func TestPool_doubt(t *testing.T) {
	s := &Store{pool: pool{clock: keeper.NewClock(), idle: map[int64][]*lease{}}}
	one, two := newLease(1), newLease(2)
	one.doubt = true
	s.give(one)
	if l := s.pool.take(10, driver.Whole); l != nil {
		t.Errorf("the lease %d was taken", l.id)
	}
	s.give(two)
	if l := s.pool.take(10, driver.Whole); l != two || l.whole {
		t.Errorf("%+v", l)
	}
}

// Replies of one owner's calls may arrive in another order than their transactions were made. The
// lease of the last transaction is the one that has the claim.
func TestPool_order(t *testing.T) {
	p := newPool()
	early, late := newLease(1), newLease(2)
	if free := p.keep("key", late, 20); free != nil {
		t.Errorf("%+v", free)
	}
	if free := p.keep("key", early, 10); free != early || p.of("key") != late {
		t.Errorf("free is %+v, the key has %+v", free, p.of("key"))
	}
	if l := p.forget("key", 15); l != nil {
		t.Errorf("a release at revision 15 frees the lease of revision %d", l.since)
	}
	if l := p.forget("key", 25); l != late {
		t.Errorf("%+v", l)
	}
}

// A lease needs no keep-alive within a second after its last one, if it is a second longer than the
// TTL. Otherwise its next claim would live for less than its TTL.
func TestPool_whole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, seconds := range []int64{10, 11, 31} {
			p := newPool()
			l := &lease{id: 1, seconds: seconds, end: time.Now().Add(time.Duration(seconds) * time.Second)}
			for _, idle := range []time.Duration{0, 500 * time.Millisecond, time.Second, 1001 * time.Millisecond} {
				sent := &beat{sent: time.Now(), kept: p.clock.Now()}
				p.give(l)
				p.renewed(l, sent)
				time.Sleep(idle)
				for _, weight := range []int64{1, driver.Whole} {
					want := weight == driver.Whole && seconds > slackFrom && idle < time.Second
					if l := p.take(seconds, weight); l == nil || l.whole != want {
						t.Errorf("a lease of %d s, %v after its keep-alive, for weight %d: %+v, want whole: %v", seconds, idle, weight, l, want)
					}
					p.give(l)
				}
				p.take(seconds, 0)
			}
		}
	})
}

// A host that was suspended may not know it, but the time of day has moved.
func TestPool_suspended(t *testing.T) {
	p, l := newPool(), newLease(1)
	l.seconds, l.kept = 31, p.clock.Now()
	l.end = time.Now().Add(31 * time.Second)
	p.give(l)
	if l := p.take(31, driver.Whole); l == nil || !l.whole {
		t.Errorf("%+v, want a whole lease", l)
	}
	l.end = l.end.Round(0).Add(-5 * time.Second) // by the time of day, the keep-alive was sent 5 s ago
	p.give(l)
	if l := p.take(31, driver.Whole); l == nil || l.whole {
		t.Errorf("%+v, want a lease that needs a keep-alive", l)
	}
}

// Without the slack, a lease is as long as the TTL.
func TestStore_seconds(t *testing.T) {
	for _, least := range []int64{2, 10, 11, 12, 20} {
		s := &Store{}
		s.least.Store(least)
		for _, ttl := range []time.Duration{2, 9.5e9, 10e9, 10.5e9, 11e9, 30e9, 60e9} {
			for _, weight := range []int64{0, 1, driver.Whole} {
				n := s.seconds(ttl, weight)
				if sure := time.Duration(n)*time.Second - slack(weight, n); sure < ttl || n < least {
					t.Errorf("a TTL of %v with weight %d: a lease of %d s, of which %v are sure", ttl, weight, n, sure)
				}
			}
		}
	}
}

// A lease that is about to end is not taken, and leases of claims that nobody released are
// forgotten.
func TestPool_ends(t *testing.T) {
	p := newPool()
	old := newLease(1)
	old.end = time.Now().Add(4 * time.Second)
	p.give(old)
	if l := p.take(10, driver.Whole); l != nil {
		t.Errorf("%+v", l)
	}
	for i := range 1000 {
		l := newLease(int64(i))
		l.end = time.Now().Add(-time.Minute)
		p.keep(string(rune(i+1000)), l, 1)
	}
	if len(p.used) > 200 {
		t.Errorf("%d leases that have ended are remembered", len(p.used))
	}
}

// answers is a stream of keep-alives that answers from a channel.
type answers struct {
	pb.Lease_LeaseKeepAliveClient
	ch   chan *pb.LeaseKeepAliveResponse
	sent chan int64
}

func (a answers) Recv() (*pb.LeaseKeepAliveResponse, error) {
	r, ok := <-a.ch
	if !ok {
		return nil, io.EOF
	}
	return r, nil
}

// The n-th answer belongs to the n-th request, also if both are for the same lease. An answer for
// another lease ends the stream.
func TestStream_order(t *testing.T) {
	_, cancel := context.WithCancel(t.Context())
	defer cancel()
	st := &stream{cancel: cancel, more: make(chan struct{}, 1)}
	one, two := &beat{id: 7, done: make(chan struct{})}, &beat{id: 7, done: make(chan struct{})}
	three := &beat{id: 8, done: make(chan struct{})}
	for _, b := range []*beat{one, two, three} {
		st.add(b)
		st.next()
	}
	a := answers{ch: make(chan *pb.LeaseKeepAliveResponse)}
	ended := make(chan error, 1)
	go func() { ended <- st.receive(a) }()
	a.ch <- &pb.LeaseKeepAliveResponse{ID: 7, TTL: 5}
	soon, cancelSoon := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancelSoon()
	if ttl, err := one.wait(soon); ttl != 5 || err != nil {
		t.Fatal(ttl, err)
	}
	now, cancelNow := context.WithCancel(t.Context())
	cancelNow()
	if ttl, err := two.wait(now); err == nil {
		t.Errorf("the second request has the answer %d to the first", ttl)
	}
	a.ch <- &pb.LeaseKeepAliveResponse{ID: 9, TTL: 5}
	err := <-ended
	if err == nil || errors.Is(err, io.EOF) {
		t.Error(err)
	}
	st.end(err)
	if _, err := three.wait(t.Context()); err == nil {
		t.Error("a request without an answer succeeded")
	}
}

func (a answers) Send(r *pb.LeaseKeepAliveRequest) error {
	a.sent <- r.ID
	return nil
}

// A caller sends its keep-alive itself, unless the stream is not open or many are not answered:
// then it might block, and run sends.
func TestStream_direct(t *testing.T) {
	a := answers{sent: make(chan int64, direct+2)}
	st := &stream{more: make(chan struct{}, 1)}
	flush := func(id int64) (sent int, left bool) {
		st.add(&beat{id: id, done: make(chan struct{})})
		st.flush()
		select {
		case <-st.more:
			left = true
		default:
		}
		return len(a.sent), left
	}
	if sent, left := flush(0); sent != 0 || !left {
		t.Errorf("%d were sent before the stream was open; left to run: %v", sent, left)
	}
	st.conn, st.open = a, true
	for i := range direct - 1 {
		if sent, left := flush(int64(i + 1)); sent != i+2 || left {
			t.Fatalf("%d were sent, want %d; left to run: %v", sent, i+2, left)
		}
	}
	if sent, left := flush(direct); sent != direct || !left {
		t.Errorf("%d were sent, want %d; left to run: %v", sent, direct, left)
	}
	st.pending = nil // answered
	st.sending.Lock()
	if sent, left := flush(direct + 1); sent != direct || !left {
		t.Errorf("%d were sent while another goroutine sends; left to run: %v", sent, left)
	}
	st.sending.Unlock()
	st.drain()
	for i := range direct + 2 {
		if id := <-a.sent; id != int64(i) {
			t.Fatalf("the request %d is for the lease %d", i, id)
		}
	}
}
