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

// A Run is one torture run of a store. Create one with [New].
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
	staged  []string          // the clients with a stage in this process
	names   map[string]string // by who: the name of the process that plays it now
	done    map[What]int      // faults that were made
	errs    []error
}

// CanProcess says whether a run can have separate processes on this system.
const CanProcess = canProcess

// New returns a run of a plan, with names that begin with prefix. command returns a new process
// that passes a [Job] from its standard input, with the store's URL, to [Work]. It may be nil if
// the plan has no processes.
func New(store driver.Store, url string, p *Plan, prefix string, command func() *exec.Cmd) *Run {
	r := &Run{plan: p, store: store, url: url, command: command, prefix: prefix, ledger: newLedger(), names: map[string]string{}, done: map[What]int{}}
	r.start, r.origin = instant()
	r.rec = history.NewSince(r.start, func(_ int, op history.Op) { r.ledger.note(&op) })
	return r
}

// Progress returns the progress of the run.
func (r *Run) Progress() Progress { return r.ledger.progress() }

// Play runs the plan, until its time has passed or ctx ends, and leaves nothing running.
func (r *Run) Play(ctx context.Context) error {
	playing, stop := context.WithTimeout(ctx, r.plan.Time)
	defer stop()
	var groups []*group
	var wg, watching sync.WaitGroup
	watch, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	watching.Go(func() { r.watchStalls(watch) })
	for i := range r.plan.Clients {
		who := fmt.Sprint("c", i+1)
		g, err := join(r.store, r.plan, who, who, r.prefix, r.start, r.rec)
		if err != nil {
			r.fail(err)
			stop()
			break
		}
		groups = append(groups, g)
		g.play(playing, &wg)
		wg.Go(func() { r.cuts(playing, g) })
	}
	for i := range r.plan.Processes {
		wg.Go(func() {
			if err := r.process(playing, fmt.Sprint("p", i+1)); err != nil {
				r.fail(err)
				stop() // a process that cannot work ends the run at once
			}
		})
	}
	wg.Wait()
	for _, g := range groups {
		wg.Go(g.leave)
	}
	wg.Wait()
	stopWatch()
	watching.Wait()
	return errors.Join(r.errs...)
}

func (r *Run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// did counts and records a fault.
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
func (r *Run) cuts(ctx context.Context, g *group) {
	for _, f := range r.plan.of(g.name) {
		if !r.due(ctx, f, g.name) {
			return
		}
		from := time.Now()
		g.link.Cut(chaos.All)
		sleep(ctx, f.For)
		g.link.Heal()
		r.did(Cut, g.name, string(Cut), from, time.Now())
	}
}

// due waits until the time of a fault has come and the client holds something.
func (r *Run) due(ctx context.Context, f Fault, client string) bool {
	if !sleep(ctx, f.At-time.Since(r.start)) {
		return false
	}
	for !r.ledger.holds(client) {
		if !sleep(ctx, time.Millisecond) {
			return false
		}
	}
	return true
}

// sleep waits for d, and reports whether ctx is still active.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// process keeps one process running, and produces its planned faults.
func (r *Run) process(ctx context.Context, who string) error {
	runtime.LockOSThread() // the process dies with the thread that started it
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
			<-p.read // the process may end by itself
			cancel()
		}()
		killed, left, err := r.plague(alive, p, faults)
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
		faults = left
	}
}

// plague pauses a process as planned. It returns when the process is to be killed or ctx ends. The
// ctx ends with the process.
func (r *Run) plague(ctx context.Context, p *process, faults []Fault) (kill bool, left []Fault, err error) {
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
		sleep(ctx, f.For)
		err = p.resume()
		r.did(Pause, p.name, history.Pause, from, time.Now())
		if err != nil {
			return false, nil, err
		}
	}
	<-ctx.Done()
	return false, nil, nil
}

// stop pauses a process while it holds something: between the signal and its effect, the process
// may release a hold.
func (r *Run) stop(ctx context.Context, p *process) (from time.Time, err error) {
	for {
		from = time.Now()
		if err := p.pause(); err != nil {
			return from, err
		}
		sleep(ctx, 5*time.Millisecond) // time to read the last output of the process
		if r.ledger.holds(p.name) || ctx.Err() != nil {
			return from, nil
		}
		if err := p.resume(); err != nil {
			return from, err
		}
		for !r.ledger.holds(p.name) && sleep(ctx, time.Millisecond) {
		}
	}
}

// keep stores the history of a process that has ended.
func (r *Run) keep(p *process, died time.Duration) {
	h := p.history(died)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts = append(r.parts, h)
	r.notes = append(r.notes, p.notes...)
	r.stalled = append(r.stalled, pauses(p.stalls, []string{p.name})...)
	// A killed process cannot report a stall during which it was killed.
	if silent := died - p.heard.Sub(r.start); died > 0 && silent > (1+beatEvery)*tick+stallLeast {
		r.stalled = append(r.stalled, pauses([]stall{{died - silent, died}}, []string{p.name})...)
	}
}

// Clean ends the claims that killed processes and lost answers left in the store. It returns their
// number.
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

// Settle waits until nothing of the run is in the store. Queue entries that were left behind expire
// by themselves, after seconds. So does a claim in a store that cannot break claims.
func (r *Run) Settle(ctx context.Context) error {
	for known := 0; ; {
		left := 0
		for _, err := range driver.List(ctx, r.store, r.prefix) {
			switch {
			case err != nil && known > 0 && ctx.Err() != nil: // ctx ended during the listing
				return leftBehind(ctx, known)
			case err != nil:
				return err
			}
			left++
		}
		if known = left; known == 0 {
			return nil
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return leftBehind(ctx, known)
		}
	}
}

func leftBehind(ctx context.Context, n int) error {
	return fmt.Errorf("torture: %d claims and queue entries are left: %w", n, context.Cause(ctx))
}
