package torture

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/internal/lab/history"
)

// A Run is one torture of a store. Make one with New.
type Run struct {
	plan    *Plan
	store   driver.Store
	url     string
	command func() *exec.Cmd
	prefix  string
	cast    func(*Job) *exec.Cmd // nil: command

	start  time.Time
	origin time.Duration // start, on the clock of the host
	rec    *history.Recorder
	ledger *ledger

	mu      sync.Mutex
	parts   []*history.History // of processes that have ended
	stalled []history.Op
	notes   []Note
	staged  []string          // who has a stage in this process
	names   map[string]string // by who: the name of the process that plays it now
	done    map[What]int      // faults that were done
	errs    []error
}

// CanProcess says whether a run can have processes of its own on this system.
const CanProcess = canProcess

// New returns a run by a plan, under names that begin with prefix. The command gives a new process that passes
// a Job from its standard input, with the store's URL, to Work; with no processes in the plan it may be nil.
func New(store driver.Store, url string, p *Plan, prefix string, command func() *exec.Cmd) *Run {
	r := &Run{plan: p, store: store, url: url, command: command, prefix: prefix, ledger: newLedger(), names: map[string]string{}, done: map[What]int{}}
	r.start, r.origin = instant()
	r.rec = history.NewSince(r.start, func(_ int, op history.Op) { r.ledger.note(&op) })
	return r
}

// Progress tells how far the run is.
func (r *Run) Progress() Progress { return r.ledger.progress() }

// Play does it all, until its time is over or ctx ends, and leaves nothing running.
func (r *Run) Play(ctx context.Context) error {
	playing, stop := context.WithTimeout(ctx, r.plan.Time)
	defer stop()
	var parties []*party
	var wg, watching sync.WaitGroup
	watch, rest := context.WithCancel(context.WithoutCancel(ctx))
	watching.Go(func() { r.watchStalls(watch) })
	for i := range r.plan.Clients {
		who := fmt.Sprint("c", i+1)
		t, err := join(r.store, r.plan, who, who, r.prefix, r.start, r.rec)
		if err != nil {
			r.fail(err)
			stop()
			break
		}
		parties = append(parties, t)
		t.play(playing, &wg)
		wg.Go(func() { r.cuts(playing, t) })
	}
	for i := range r.plan.Processes {
		wg.Go(func() {
			if err := r.process(playing, fmt.Sprint("p", i+1)); err != nil {
				r.fail(err)
				stop() // one that cannot work is told at once
			}
		})
	}
	wg.Wait()
	for _, t := range parties {
		wg.Go(t.leave)
	}
	wg.Wait()
	rest()
	watching.Wait()
	return errors.Join(r.errs...)
}

func (r *Run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// did counts a fault, and takes it down.
func (r *Run) did(what What, client, name string, from, to time.Time) {
	r.rec.Fault(client, name, from, to)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[what]++
}

func (r *Run) watchStalls(ctx context.Context) {
	var all []stall
	stalls(ctx, r.start, func(s stall) { all = append(all, s) }, nil)
	var clients []string
	for i := range r.plan.Clients {
		clients = append(clients, fmt.Sprint("c", i+1))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stalled = append(r.stalled, pauses(all, clients)...)
}

// cuts cuts the link of a client of this process, as planned.
func (r *Run) cuts(ctx context.Context, t *party) {
	for _, f := range r.plan.of(t.name) {
		if !r.due(ctx, f, t.name) {
			return
		}
		from := time.Now()
		t.link.Cut(chaos.All)
		over(ctx, f.For)
		t.link.Heal()
		r.did(Cut, t.name, string(Cut), from, time.Now())
	}
}

// due waits until it is time for a fault and the client holds something.
func (r *Run) due(ctx context.Context, f Fault, client string) bool {
	if !over(ctx, f.At-time.Since(r.start)) {
		return false
	}
	for !r.ledger.holds(client) {
		if !over(ctx, time.Millisecond) {
			return false
		}
	}
	return true
}

// over lets time pass, and reports whether ctx goes on.
func over(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// process keeps one process running, and does to it what is planned.
func (r *Run) process(ctx context.Context, who string) error {
	runtime.LockOSThread() // a process that dies with its parent dies with the thread that started it
	defer runtime.UnlockOSThread()
	faults := r.plan.of(who)
	for n := 1; ; n++ {
		job := &Job{Plan: r.plan, Who: who, Name: fmt.Sprintf("%s.%d", who, n), Prefix: r.prefix, Origin: r.origin, Store: r.url}
		cmd := r.actor(job)
		p, err := spawn(cmd, job, r.ledger.note)
		if err != nil {
			return err
		}
		r.named(who, p.name)
		alive, cancel := context.WithCancel(ctx)
		go func() {
			<-p.read // it may end by itself
			cancel()
		}()
		killed, rest, err := r.plague(alive, p, faults)
		if !killed {
			err = errors.Join(err, p.finish(r.plan.TTL+10*time.Second))
		}
		died := time.Duration(0)
		if killed {
			at := time.Now()
			died = at.Sub(r.start)
			p.kill()
			r.did(Kill, p.name, string(Kill), at, at)
		}
		r.keep(p, died)
		if !killed || err != nil {
			return err
		}
		faults = rest
	}
}

// plague pauses a process as planned, until it is to be killed or ctx, which ends with the process, does.
func (r *Run) plague(ctx context.Context, p *process, faults []Fault) (kill bool, rest []Fault, err error) {
	for i, f := range faults {
		if !r.due(ctx, f, p.name) {
			return false, nil, nil
		}
		from, err := r.stop(ctx, p)
		if err != nil {
			return false, nil, err
		}
		if f.What == Kill {
			return true, faults[i+1:], nil
		}
		over(ctx, f.For)
		err = p.resume()
		r.did(Pause, p.name, history.Pause, from, time.Now())
		if err != nil {
			return false, nil, err
		}
	}
	<-ctx.Done()
	return false, nil, nil
}

// stop stops a process while it holds something: what it holds when the signal comes, it may have given back when
// the signal works.
func (r *Run) stop(ctx context.Context, p *process) (from time.Time, err error) {
	for {
		from = time.Now()
		if err := p.pause(); err != nil {
			return from, err
		}
		over(ctx, 5*time.Millisecond) // for what it said last to be read
		if r.ledger.holds(p.name) || ctx.Err() != nil {
			return from, nil
		}
		if err := p.resume(); err != nil {
			return from, err
		}
		for !r.ledger.holds(p.name) && over(ctx, time.Millisecond) {
		}
	}
}

// keep keeps what a process that has ended did.
func (r *Run) keep(p *process, died time.Duration) {
	h := p.history(died)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts = append(r.parts, h)
	r.notes = append(r.notes, p.notes...)
	r.stalled = append(r.stalled, pauses(p.stalls, []string{p.name})...)
	// One that was killed cannot tell of the stall in which that met it.
	if silent := died - p.heard.Sub(r.start); died > 0 && silent > (1+beatEvery)*tick+stallLeast {
		r.stalled = append(r.stalled, pauses([]stall{{died - silent, died}}, []string{p.name})...)
	}
}

// Clean ends the claims that killed processes and lost answers left in the store. It returns how many there were.
func (r *Run) Clean(ctx context.Context) (int, error) {
	var names []string
	for c, err := range driver.List(ctx, r.store, r.prefix) {
		if err != nil {
			return 0, err
		}
		if !c.Waiting && !slices.Contains(names, c.Key) {
			names = append(names, c.Key)
		}
	}
	n := 0
	for _, key := range names {
		broken, err := driver.Break(ctx, r.store, key, 0, "left by distlock torture")
		if n += len(broken); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Settle waits until nothing of the run is in the store. Places in line that were left behind end by themselves, after
// seconds, and so does a claim on a store that cannot break one.
func (r *Run) Settle(ctx context.Context) error {
	for known := 0; ; {
		left := 0
		for _, err := range driver.List(ctx, r.store, r.prefix) {
			switch {
			case err != nil && known > 0 && ctx.Err() != nil: // the time was over while it looked
				return leftBehind(ctx, known)
			case err != nil:
				return err
			}
			left++
		}
		if known = left; known == 0 {
			return nil
		}
		if !over(ctx, 50*time.Millisecond) {
			return leftBehind(ctx, known)
		}
	}
}

func leftBehind(ctx context.Context, n int) error {
	return fmt.Errorf("torture: %d claims and places are left: %w", n, context.Cause(ctx))
}
