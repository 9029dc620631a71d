package foreign

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
)

// A release hands the key to the head of the queue. Clients that try all the time do not get the
// key in between, and do not change the order.
func TestQueue(t *testing.T) {
	srv := testenv.Redis(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := rand.Text()
	key := "lock:" + name
	const members, rounds = 6, 100
	var lockers [members]ours
	for i := range lockers {
		lockers[i] = connect(t, srv)
	}
	// One client of each kind. A kind that is missing on this machine skips only its own subtest.
	var others []*client
	for _, k := range kinds {
		t.Run(k.name, func(s *testing.T) {
			for _, find := range k.needs {
				have(s, find)
			}
			others = append(others, start(t, k, srv))
		})
	}

	first, err := lockers[0].Lock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range others { // all are ready before the test begins
		c.must("no", "take", key, long)
	}
	for _, c := range others {
		c.send("hammer", key, long, time.Minute)
	}
	holder, handed := 0, 0
	for range rounds {
		var want []int
		queue := newQueue(members)
		for i := range members - 1 {
			at := (holder + 1 + i) % members
			want = append(want, at)
			go queue.join(ctx, lockers[at], name, at)
			inQueue(t, lockers[at], name, i+1)
		}
		if err := first.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		var got []int
		for range want {
			m := <-queue.in
			if m.err != nil {
				t.Fatalf("after %d hand-offs: %v", handed, m.err)
			}
			got = append(got, m.at)
			handed++
			first = m.lease
			if len(got) < len(want) {
				if err := first.Unlock(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("the key went to %v, the queue was %v", got, want)
		}
		holder = got[len(got)-1]
	}
	for _, c := range others {
		c.silent()
	}
	if err := first.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, c := range others {
		answer, tries, _ := strings.Cut(c.answer(), " ")
		n, err := strconv.Atoi(tries)
		if answer != "yes" || err != nil {
			t.Errorf("%s: %s %s after the queue was empty", c.kind, answer, tries)
		}
		t.Logf("%s tried %d times during %d hand-offs", c.kind, n, handed)
		sum += n
	}
	if sum < handed {
		t.Errorf("%d tries are too few for %d hand-offs", sum, handed)
	}
}

// A queue collects waiters in the order of their grants.
type queue struct{ in chan member }

type member struct {
	at    int
	lease *distlock.Lease
	err   error
}

func newQueue(n int) queue { return queue{make(chan member, n)} }

func (q queue) join(ctx context.Context, o ours, name string, at int) {
	lease, err := o.Lock(ctx, name)
	q.in <- member{at, lease, err}
}

// Waiters behind another client are served in the order of their arrival when its lock has expired.
func TestQueue_behindAnother(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t, testenv.Shared())
			p := newPair(t, srv, start(t, k, srv))
			p.other.must("yes", "take", p.key, 2*short)
			const members = 4
			queue := newQueue(members)
			for at := range members {
				o := connect(t, p.srv)
				go queue.join(p.ctx, o, p.name, at)
				inQueue(t, o, p.name, at+1)
			}
			for at := range members {
				m := <-queue.in
				p.ok(m.err)
				if m.at != at {
					t.Fatalf("waiter %d was granted instead of %d", m.at, at)
				}
				p.other.must("no", "take", p.key, long)
				p.ok(m.lease.Unlock(p.ctx))
			}
			p.other.must("yes", "take", p.key, long)
		})
	}
}
