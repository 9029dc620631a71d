package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

const (
	childWord = "child" // the argument that makes this program one of the competing processes
	childs    = 4       // the number of processes
	threads   = 4       // goroutines of each
)

// A kind is the work of the processes. Its word is passed to them as an argument.
type kind struct {
	word, name string
	open       func(addr string, later func(func())) ([]locker, error) // one for each goroutine
}

// An opener opens a locker.
type opener func(addr string, later func(func())) (locker, error)

// shared opens one locker for all goroutines of a process.
func (open opener) shared(addr string, later func(func())) ([]locker, error) {
	l, err := open(addr, later)
	return slices.Repeat([]locker{l}, threads), err
}

func kinds() []kind {
	out := []kind{
		{"baton", "raw: a baton through BLPOP and LPUSH", opener(openBaton).shared},
		{"queue", "raw: a queue by scripts, and a message", openQueue},
	}
	for i, p := range peers() {
		out = append(out, kind{fmt.Sprint("peer", i), p.name, opener(p.open).shared})
	}
	return append(out, kind{"alone", "distlock, 16 lockers: no local hand-offs", openLockers})
}

// openLockers opens a Locker for each goroutine, all on one client: hand-offs go through the server
// only.
func openLockers(addr string, later func(func())) ([]locker, error) {
	s, err := openStore(addr, later)
	if err != nil {
		return nil, err
	}
	return lockers(s, later)
}

// lockers returns a Locker for each goroutine, all on one store.
func lockers(s driver.Store, later func(func()), opts ...distlock.Option) ([]locker, error) {
	out := make([]locker, threads)
	for w := range out {
		var err error
		if out[w], err = newDistlock(s, later, opts...); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// The indexes of the kinds.
const (
	kindBaton = iota
	_         // the raw queue
	kindOurs
	kindRedislock
)

// A batonLocker hands off an element of a list.
type batonLocker struct {
	take, pass func(context.Context, string) error
}

func openBaton(addr string, later func(func())) (locker, error) {
	c, err := connect(addr, later)
	if err != nil {
		return nil, err
	}
	return batonLocker{
		func(ctx context.Context, key string) error { return takeBaton(ctx, c, key) },
		func(ctx context.Context, key string) error { return passBaton(ctx, c, key) },
	}, nil
}

func (l batonLocker) lock(ctx context.Context, key string) (hold, error) {
	return batonHold{l, key}, l.take(ctx, key)
}

type batonHold struct {
	l   batonLocker
	key string
}

func (h batonHold) unlock() error { return h.l.pass(context.Background(), h.key) }

// processes measures one key that several processes contend for.
func (b *bench) processes(addr string) error {
	title := fmt.Sprintf("Redis, one key, %d processes with %d goroutines each, hold 0", childs, threads)
	if !b.pick(title) {
		return nil
	}
	all := kinds()
	figures, err := b.rotate(title, len(all), func(i int) (figure, error) {
		d := longer * b.each
		if b.round == 0 {
			d /= 5
		}
		f, err := b.fleet(addr, all[i], fmt.Sprintf("fleet-%s-%d", all[i].word, b.round), d)
		if err != nil {
			return f, fmt.Errorf("%s: %w", all[i].name, err)
		}
		return f, nil
	})
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{perSecond, {"to the peer", "x"}, {"to the baton", "x"}, worst, jain}}
	best := 0.0
	for _, f := range figures[kindRedislock : len(figures)-1] {
		best = max(best, f.Rate)
	}
	base := figures[kindBaton].Rate
	for i, f := range figures {
		t.Rows = append(t.Rows, row{all[i].name, []float64{f.Rate, f.Rate / best, f.Rate / base, f.Worst.Seconds(), f.Jain}})
	}
	alone := figures[len(figures)-1]
	t.Goals = append(contendedGoals(figures[kindOurs], best),
		atLeast("without local hand-offs: rate, times the bare one", alone.Rate/base, 0.8),
		below("without local hand-offs: worst wait", alone.Worst, 100*time.Millisecond),
		atLeast("without local hand-offs: Jain's index", alone.Jain, 0.95))
	b.report(t)
	return nil
}

// fleet runs the processes for one round.
func (b *bench) fleet(addr string, k kind, key string, d time.Duration) (figure, error) {
	if k.word == "baton" {
		var s stack
		defer s.undo()
		c, err := connect(addr, s.push)
		if err != nil {
			return figure{}, err
		}
		if err := passBaton(b.ctx, c, key+"-0"); err != nil {
			return figure{}, err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return figure{}, err
	}
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	var members []*member
	defer func() {
		for _, m := range members {
			m.end()
		}
	}()
	for range childs {
		m, err := start(ctx, program, addr, k.word, key, d)
		if err != nil {
			return figure{}, err
		}
		members = append(members, m)
	}
	for _, m := range members { // all are connected
		if _, err := m.lines.ReadString('\n'); err != nil {
			return figure{}, errors.Join(err, m.end())
		}
	}
	for _, m := range members {
		if _, err := io.WriteString(m.stdin, "go\n"); err != nil {
			return figure{}, err
		}
	}
	var tallies []tally
	var took time.Duration
	for _, m := range members {
		var got childReport
		if err := json.NewDecoder(m.lines).Decode(&got); err != nil {
			return figure{}, errors.Join(err, m.end())
		}
		tallies, took = append(tallies, got.Tallies...), max(took, got.Took)
	}
	return sum(tallies, took)
}

// A member is one of the processes.
type member struct {
	cmd    *osexec.Cmd
	stdin  io.WriteCloser
	lines  *bufio.Reader
	stderr strings.Builder
	ended  bool
}

func start(ctx context.Context, program, addr, word, key string, d time.Duration) (*member, error) {
	m := &member{cmd: osexec.CommandContext(ctx, program, childWord, "-redis", addr, "-kind", word, "-key", key, "-for", d.String())}
	m.cmd.Stderr = &m.stderr
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	m.lines = bufio.NewReader(stdout)
	return m, m.cmd.Start()
}

// end waits for the process. If the process failed, the error has its standard error.
func (m *member) end() error {
	if m.ended {
		return nil
	}
	m.ended = true
	_ = m.stdin.Close()
	if err := m.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, m.stderr.String())
	}
	return nil
}

// A childReport is the result of one of the processes.
type childReport struct {
	Tallies []tally
	Took    time.Duration
}

// child is one of the processes: it connects, prints that it is ready, waits for a line, works, and
// prints its result.
func child(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(childWord, flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr, word, key := flags.String("redis", "", ""), flags.String("kind", "", ""), flags.String("key", "", "")
	d := flags.Duration("for", time.Second, "")
	if err := flags.Parse(args); err != nil {
		return 64
	}
	for _, k := range append(kinds(), fileKinds()...) {
		if k.word != *word {
			continue
		}
		got, err := k.work(ctx, *addr, *key, *d, stdin, stdout)
		if err == nil {
			err = json.NewEncoder(stdout).Encode(got)
		}
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	}
	return 64
}

func (k kind) work(ctx context.Context, addr, key string, d time.Duration, stdin io.Reader, stdout io.Writer) (got childReport, err error) {
	var s stack
	defer s.undo()
	b := &bench{ctx: ctx}
	lockers, err := k.open(addr, s.push)
	if err != nil {
		return got, err
	}
	var deeds []deed
	for _, l := range lockers {
		deeds = append(deeds, b.contend(l, key))
	}
	fmt.Fprintln(stdout, "ready")
	if _, err := bufio.NewReader(stdin).ReadString('\n'); err != nil {
		return got, err
	}
	got.Tallies, got.Took, err = run(ctx, func(ctx context.Context, w int) error { return deeds[w](ctx, w) }, threads, d)
	return got, err
}
