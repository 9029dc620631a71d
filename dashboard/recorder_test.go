package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/deadlock"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/store/mem"
)

// A Recorder sees what happens to a claim, and passes every answer on.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(mem.New())
		ctx := t.Context()
		a, b := driver.ID{Key: "k", Owner: ownerOf("a", "k")}, driver.ID{Key: "k", Owner: ownerOf("b", "k")}
		fence := hold(t, r, "k", "a").Fence
		time.Sleep(time.Second)
		hold(t, r, "k", "b") // refused, and it does not wait
		queue(t, r, "k", "b")
		queue(t, r, "k", "b")
		if _, err := r.Renew(ctx, driver.Renewal{ID: a, TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		if err := r.Release(ctx, a); err != nil {
			t.Fatal(err)
		}
		queue(t, r, "k", "b") // granted
		if _, err := driver.Break(ctx, r, "k", driver.MaxFence, "gone"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Renew(ctx, driver.Renewal{ID: b, TTL: time.Minute}); !errors.Is(err, driver.ErrNotHeld) {
			t.Fatal(err)
		}
		acquire(t, r, driver.Request{ID: driver.ID{Key: "~check/x", Owner: "o"}, Weight: 1, Limit: driver.Whole, TTL: time.Second})
		var got []string
		for _, e := range r.Events(20, func(Event) bool { return true }) {
			got = append(got, fmt.Sprintf("%s %s %v", e.Holder, e.Type, e.For))
		}
		want := "b lost 0s; b broken 0s; b granted 4s; a released 5s; b waits 0s; a granted 0s"
		if strings.Join(got, "; ") != want {
			t.Errorf("%s", strings.Join(got, "; "))
		}
		c := r.total
		if c.Grants != 2 || c.Waits != 1 || c.Refused != 0 || c.Released != 1 || c.Lost != 1 || c.Broken != 1 || c.WaitMax != 4*time.Second {
			t.Errorf("%+v", c)
		}
		if e := r.Events(1, func(e Event) bool { return e.Type == EventReleased }); e[0].Fence != fence || e[0].Owner != driver.Tag(a.Owner) {
			t.Errorf("%+v", e)
		}
	})
}

// A lease that runs out is an event and counts once. What was released, broken, kept or renewed
// does not count, nor does a pass of a rate limit.
func TestRecorder_expired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(mem.New())
		d := New(r, Options{})
		ctx := t.Context()
		id := func(key string) driver.ID { return driver.ID{Key: key, Owner: ownerOf("h", key)} }
		for _, key := range []string{"dead", "late", "released", "broken", "alive", names.RateLimit.Key("r"), names.Once.Key("o")} {
			hold(t, r, key, "h")
		}
		if err := r.Release(ctx, id("released")); err != nil {
			t.Fatal(err)
		}
		if _, err := driver.Break(ctx, r, "broken", driver.MaxFence, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Renew(ctx, driver.Renewal{ID: id(names.Once.Key("o")), TTL: time.Minute, Keep: true}); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			time.Sleep(20 * time.Second)
			get(t, d, "/")
			if _, err := r.Renew(ctx, driver.Renewal{ID: id("alive"), TTL: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Renew(ctx, driver.Renewal{ID: id("late"), TTL: time.Minute}); !errors.Is(err, driver.ErrNotHeld) {
			t.Fatal(err)
		}
		var got []string
		for _, e := range r.Events(20, func(e Event) bool { return e.Type == EventExpired }) {
			got = append(got, fmt.Sprint(e.Key, " ", e.For))
		}
		slices.Sort(got)
		if strings.Join(got, "; ") != "dead 1m0s; late 1m0s" || r.total.Lost != 2 {
			t.Errorf("%q, %d lost", got, r.total.Lost)
		}
		_, body := get(t, d, "/")
		for _, want := range []string{`<span class="n">2</span><span class="l">leases that ran out or were found lost`, "did not renew it, and its lease ran out after 1 min 0 s"} {
			if !strings.Contains(body, want) {
				t.Errorf("no %q in %s", want, body)
			}
		}
	})
}

// The condition of a store, and the free slots of a semaphore, in words.
func TestWords(t *testing.T) {
	for want, levels := range map[string][]driver.Level{
		"answers; no warnings": {driver.LevelOK}, "answers; 1 warning": {driver.LevelOK, driver.LevelWarning}, "answers; 1 danger; 2 warnings": {driver.LevelWarning, driver.LevelDanger, driver.LevelWarning},
	} {
		var h health
		for _, l := range levels {
			h.Findings = append(h.Findings, driver.Finding{Level: l})
		}
		if got := h.Words(); got != want || h.Quiet() != (len(levels) == 1) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	l := &lockView{Kind: names.Semaphore, Holders: []claimView{{Weight: 2, Limit: 3}}}
	if got := headline(l); got != "2 of 3 slots are held, 1 of 3 slots are free." {
		t.Error(got)
	}
}

// A grant that the store pushed to a watcher counts, once.
func TestRecorder_Pushed(t *testing.T) {
	r := NewRecorder(mem.New())
	hold(t, r, "k", "a")
	queue(t, r, "k", "b")
	id := driver.ID{Key: "k", Owner: ownerOf("b", "k")}
	r.Pushed(id, driver.Wake{})
	r.Pushed(id, driver.Wake{Granted: true, Fence: 7})
	r.Pushed(id, driver.Wake{Granted: true, Fence: 7})
	if e := r.Events(2, func(e Event) bool { return e.Type == EventGranted && e.Holder == "b" }); len(e) != 1 || e[0].Fence != 7 {
		t.Errorf("%+v", e)
	}
}

// The memory of a Recorder is bounded.
func TestRecorder_bounded(t *testing.T) {
	r := NewRecorder(mem.New())
	for i := range maxKnown + 100 {
		hold(t, r, fmt.Sprint("k", i), "h")
	}
	if n := len(r.known); n != maxKnown {
		t.Errorf("%d claims are remembered", n)
	}
	if n := len(r.Events(2*maxEvents, func(Event) bool { return true })); n != maxEvents {
		t.Errorf("%d events are remembered", n)
	}
}

// A deadlock that ends within two seconds is seen, with its tasks, and its page says what to do.
func TestRecorder_deadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newCounted()
		r := NewRecorder(store)
		d := New(r, Options{})
		failed := make(chan error, 2)
		accounts := []string{"account/1", "account/2"}
		for n := range 2 {
			l, err := distlock.New(r, distlock.Holder(fmt.Sprintf("transfer-%d", n)))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close(t.Context())
			go func() {
				failed <- l.Do(t.Context(), accounts[n], func(ctx context.Context) error {
					time.Sleep(100 * time.Millisecond)
					return l.Do(ctx, accounts[1-n], func(context.Context) error { return nil })
				})
			}()
		}
		if a, b := <-failed, <-failed; !errors.Is(errors.Join(a, b), distlock.ErrDeadlock) {
			t.Fatal(a, b)
		}
		_, body := get(t, d, "/")
		if !strings.Contains(body, "transfer-0 holds account/1 and waits for account/2; transfer-1 holds account/2 and waits for account/1") {
			t.Errorf("the overview has no deadlock: %s", body)
		}
		if _, body := get(t, d, "/graph"); !strings.Contains(body, `&#34;bad&#34;:true`) {
			t.Error("the picture has no deadlock")
		}
		if n := store.lists.Load(); n != 1 {
			t.Errorf("%d scans for a page", n)
		}
		time.Sleep(time.Minute)
		if _, body := get(t, d, "/graph"); !strings.Contains(body, "It has ended: one of the calls failed.") || strings.Contains(body, "</b> holds ") {
			t.Error("the graph shows a deadlock that has ended as one of now")
		}
	})
}

// A deadlock that comes back is counted for as long as it does, and others do not push it out.
func TestDeadlocks_often(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(mem.New(), Options{})
		add := func(name, print string) {
			task := func(a, b string) deadlock.Task {
				return deadlock.Task{Waits: driver.Claim{Key: a, Holder: "w-" + b}, Holds: []driver.Claim{{Key: b}}}
			}
			d.found.add([]deadlock.Task{task(name, "x"), task("x", name)}, print)
		}
		for i := range 49 {
			add("a", fmt.Sprint(i))
			add("a", fmt.Sprint(i)) // seen again
			add("b", fmt.Sprint(i/40))
			time.Sleep(10 * time.Second)
		}
		_, body := get(t, d, "/")
		for _, want := range []string{"(49 times in 8 min 0 s): w-a holds a", "(2 times in 6 min 40 s): w-b holds b"} {
			if !strings.Contains(body, want) {
				t.Errorf("no %q in %s", want, body)
			}
		}
	})
}

// Callers that wait without a deadlock cost no reads.
func TestRecorder_noDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newCounted()
		r := NewRecorder(store)
		notice := func(task, key, wants string) {
			acquire(t, r, driver.Request{
				ID: driver.ID{Key: names.Notice.Key("t" + task), Owner: task}, Weight: 1, Limit: driver.Whole, TTL: time.Second, Task: task,
				Value: fmt.Appendf(nil, `{"key":%q,"wants":%q,"weight":1,"limit":1}`, key, wants),
			})
		}
		notice("1", "a", "b")
		notice("2", "b", "c")
		notice("3", "d", "a")
		time.Sleep(time.Minute)
		if n := store.shows.Load(); n != 0 {
			t.Errorf("%d reads", n)
		}
		notice("4", "b", "a")
		notice("5", "a", "b")
		synctest.Wait()
		if n := store.shows.Load(); n == 0 {
			t.Error("a ring of notices was not looked at")
		}
		time.Sleep(time.Minute)
	})
}

// A series forgets what is older than its buckets.
func TestSeries(t *testing.T) {
	born := time.Now()
	s := newSeries(born, 10*time.Second, 6)
	for i := range 10 {
		s.at(born.Add(time.Duration(i) * 10 * time.Second)).Grants = i + 1
	}
	from, points := s.points(born.Add(95 * time.Second))
	if len(points) != 6 || points[0].Grants != 5 || points[5].Grants != 10 || !from.Equal(born.Add(40*time.Second)) {
		t.Errorf("%v %+v", from.Sub(born), points)
	}
	if got := s.seconds(born.Add(95 * time.Second)); got != 5 {
		t.Errorf("%v s of the current bucket have passed", got)
	}
	if all, span := s.sum(born.Add(95*time.Second), 3); all.Grants != 8+9+10 || span != 25*time.Second {
		t.Errorf("%+v in %v", all, span)
	}
	s.advance(born.Add(time.Hour))
	if _, points := s.points(born.Add(time.Hour)); points[0].Grants != 0 || len(points) != 6 {
		t.Errorf("%+v", points)
	}
}

// Both charts have everything that has happened, also in the step that is not complete.
func TestChart_current(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(mem.New())
		d := New(r, Options{})
		time.Sleep(6 * time.Minute)
		for i := range 8 {
			hold(t, r, fmt.Sprint("k", i), "h")
		}
		time.Sleep(2 * time.Second)
		for span, want := range map[string]string{"1h": `0,4]`, "24h": `[0,0.13]`} {
			text, words := d.chart(span, time.Now())
			if _, grants, _ := strings.Cut(text, `"grants":`); !strings.HasPrefix(words, "8 grants, ") || !strings.Contains(strings.SplitAfter(grants, "]")[0], want) {
				t.Errorf("%s: %s %s", span, words, text)
			}
		}
	})
}

// The page of a lock says why it waits.
func TestWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		d := New(s, Options{})
		owner := ownerOf("ci-1", "deploy")
		why := func() (out []string) {
			p := d.newPage(newRequest(t, "/locks/lock/deploy"), nil, "lock")
			p.id, _ = d.identify(p.r)
			for _, w := range d.lock(p, names.Lock, "deploy").(*lockBody).Why {
				words := ""
				for _, piece := range w.Pieces {
					if words += piece.Text; !piece.Ago.IsZero() {
						words += span(p.Now.Sub(piece.Ago))
					} else if !piece.Left.IsZero() {
						words += span(piece.Left.Sub(p.Now))
					}
				}
				out = append(out, w.Level+"|"+words)
			}
			return out
		}
		expect := func(when, want string) {
			t.Helper()
			if got := why(); !strings.Contains(strings.Join(got, "\n"), want) {
				t.Errorf("%s: no %q in %q", when, want, got)
			}
		}
		hold(t, s, "deploy", "ci-1")
		if got := why(); len(got) != 0 {
			t.Errorf("nobody waits, and %q", got)
		}
		time.Sleep(time.Second)
		queue(t, s, "deploy", "ci-2")
		queue(t, s, "deploy", "ci-3")
		time.Sleep(3 * time.Second)
		expect("at first", "|ci-1 holds it (exclusive), for 4 s. Its lease ends in 56 s unless it is renewed.")
		expect("at first", "|2 callers wait in a queue, in order of arrival. First is ci-2, for 3 s.")
		if _, err := s.Renew(t.Context(), driver.Renewal{ID: driver.ID{Key: "deploy", Owner: owner}, TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		expect("after a renewal", "Its lease is alive: it was renewed 3 s ago, and 57 s are left, of at least 1 min 0 s.")
		time.Sleep(30 * time.Second)
		expect("without renewals", "bad|ci-1 holds it (exclusive), for 37 s. Its lease is not being renewed: 27 s are left")
	})
}

// The times of the answer to "why?" are those of the table, in the same form, and exact times are
// next to them.
func TestWhy_times(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is midnight
		s := NewRecorder(mem.New())
		d := New(s, Options{})
		hold(t, s, "deploy", "ci-1")
		queue(t, s, "deploy", "ci-2")
		time.Sleep(5 * time.Second)
		_, body := get(t, d, "/locks/lock/deploy")
		_, why, _ := strings.Cut(body, "ci-1 holds it (exclusive), for ")
		if !strings.HasPrefix(why, `<time datetime="2000-01-01T00:00:00Z" title="2000-01-01 00:00:00.000 UTC" data-ago>5 s</time>. Its lease ends in <time `) {
			t.Errorf("%.300s", why)
		}
		for want, n := range map[string]int{
			`<time datetime="2000-01-01T00:01:00Z" title="2000-01-01 00:01:00.000 UTC" data-left>55 s</time>`:       2,
			`since <time datetime="2000-01-01T00:00:00Z" title="2000-01-01 00:00:00.000 UTC">00:00:00 UTC</time>`:   1,
			`ago, at <time datetime="2000-01-01T00:00:00Z" title="2000-01-01 00:00:00.000 UTC">00:00:00 UTC</time>`: 2,
		} {
			if got := strings.Count(body, want); got != n {
				t.Errorf("%s: %d times, want %d: %s", want, got, n, body)
			}
		}
		if got := clock(time.Now(), time.Now().Add(-time.Hour)); got != "1999-12-31 23:00:05 UTC" {
			t.Error(got)
		}
	})
}

// A text that does not look like what it is is quoted.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"deploy": "deploy", "名前": "名前", "a b": "a b", "": `""`, " a": `" a"`, "a  b": `"a  b"`, "\u202ex": `"\u202ex"`, "\u3164": `"\u3164"`, "\xff": `"\xff"`, "a\nb": `"a\nb"`,
	} {
		if got := text(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "under 1 s", 59 * time.Second: "59 s", 61 * time.Second: "1 min 1 s", 25 * time.Hour: "1 d 1 h", 90 * time.Minute: "1 h 30 min"} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
