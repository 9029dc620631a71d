package mysql

import (
	"bytes"
	"context"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

const (
	// perKey is how many attempts on one key a process makes at a time. The server runs them one by
	// one. More of them would only take connections from other keys, and from the release that they
	// wait for.
	perKey = 2

	// together is the maximum number of attempts in one statement. The statement has the lock of
	// the key for some milliseconds.
	together = 64

	// sendSize bounds the texts of an attempt that is sent with others.
	sendSize = 1024

	// togetherLimit bounds a statement for many attempts. It is longer than the server waits for
	// the lock of a key.
	togetherLimit = 10 * time.Second
)

// passing lets the attempts on a key pass in order, perKey at a time. Attempts that have to wait
// are made together, in one statement. The attempts that it does not make pass alone: if the key is
// free, or if their queue entries are near the head.
type passing struct {
	s    *Store
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	keys   map[string]*keyAttempts // those that have attempts
}

// A keyAttempts has the attempts on one key.
type keyAttempts struct {
	busy  int // those in progress, and the statements for many
	queue []*attempt
	sent  []*attempt // in those statements
}

// An attempt waits for its turn or its answer.
type attempt struct {
	r     *driver.Request
	text  []byte        // as distlock_attempt_all reads it, after its index
	ready chan struct{} // closed when it passes or is answered

	// Guarded by passing.mu.
	alone  bool // it is not sent with others
	passed bool // it has its turn
	left   bool // its caller has left

	// Set before ready is closed.
	answered bool
	res      driver.Result
	err      error
}

func (t *passing) open(s *Store) {
	t.s, t.keys = s, map[string]*keyAttempts{}
	t.ctx, t.stop = context.WithCancel(context.Background())
}

func (t *passing) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop()
	t.wg.Wait()
}

// enter waits until an attempt has its turn, which ends with leave, or its answer.
func (t *passing) enter(ctx context.Context, r *driver.Request) (*attempt, error) {
	a := &attempt{r: r, ready: make(chan struct{})}
	t.mu.Lock()
	k := t.keys[r.Key]
	if k == nil {
		k = &keyAttempts{}
		t.keys[r.Key] = k
	}
	if k.busy < perKey { // then nobody waits
		k.busy++
		t.mu.Unlock()
		return a, nil
	}
	if a.text = textOf(r); a.text == nil {
		a.alone = true
	}
	k.queue = append(k.queue, a)
	t.mu.Unlock()
	select {
	case <-a.ready:
		return a, a.err
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.passed {
		return a, nil // its call ends with ctx
	}
	a.left = true
	k.queue = slices.DeleteFunc(k.queue, func(o *attempt) bool { return o == a })
	return nil, ctx.Err()
}

// settle waits until no statement for many has an attempt of an owner that the caller has left: it
// would add a queue entry after the release.
func (t *passing) settle(ctx context.Context, id driver.ID) {
	t.mu.Lock()
	var all []*attempt
	if k := t.keys[id.Key]; k != nil {
		all = slices.DeleteFunc(slices.Clone(k.sent), func(a *attempt) bool { return a.r.Owner != id.Owner })
	}
	t.mu.Unlock()
	for _, a := range all {
		select {
		case <-a.ready:
		case <-ctx.Done():
		}
	}
}

// leave ends a turn.
func (t *passing) leave(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doneLocked(key)
}

// doneLocked gives the turn of a call that has ended to the next.
func (t *passing) doneLocked(key string) {
	k := t.keys[key]
	k.busy--
	many := k.manyLocked()
	switch {
	case len(many) > 0 && !t.closed:
		k.busy++
		k.sent = append(k.sent, many...)
		t.wg.Go(func() { t.run(key, many) })
	case len(k.queue) > 0:
		next := k.queue[0]
		k.queue = k.queue[1:]
		k.busy++
		next.passed = true
		close(next.ready)
	case k.busy == 0:
		delete(t.keys, key)
	}
}

// manyLocked removes the attempts that are sent together from the queue and returns them, if it is
// their turn.
func (k *keyAttempts) manyLocked() (many []*attempt) {
	if len(k.queue) == 0 || k.queue[0].alone {
		return nil
	}
	var rest []*attempt
	owners := map[string]bool{}
	for _, a := range k.queue {
		if a.alone || len(many) == together || owners[a.r.Owner] {
			rest = append(rest, a)
		} else {
			owners[a.r.Owner] = true
			many = append(many, a)
		}
	}
	if len(many) == 1 {
		return nil
	}
	k.queue = rest
	return many
}

// run sends many attempts. Those that are not answered are the next that pass, alone.
func (t *passing) run(key string, many []*attempt) {
	ctx, cancel := context.WithTimeout(t.ctx, togetherLimit)
	defer cancel()
	err := t.s.attemptAll(ctx, key, many)
	t.mu.Lock()
	defer t.mu.Unlock()
	var rest []*attempt
	for _, a := range many {
		switch {
		case a.answered || a.left || err != nil:
			a.err = err
			close(a.ready)
		default:
			a.alone = true
			rest = append(rest, a)
		}
	}
	k := t.keys[key]
	k.sent = slices.DeleteFunc(k.sent, func(a *attempt) bool { return slices.Contains(many, a) })
	k.queue = append(rest, k.queue...)
	t.doneLocked(key)
}

// textOf returns an attempt as distlock_attempt_all reads it, without its index. It returns nil for
// one that must be sent alone.
func textOf(r *driver.Request) []byte {
	meta := sqlrow.EncodeMeta(r.Meta)
	if r.Floor > 0 || len(r.Holder)+len(r.Task)+len(meta)+len(r.Value) > sendSize {
		return nil
	}
	text := append(hex.AppendEncode([]byte(`,"`), digest(r.Owner)), '"')
	for _, n := range []int64{micros(r.QueueTTL), r.Weight, r.Limit} {
		text = strconv.AppendInt(append(text, ','), n, 10)
	}
	for _, b := range [][]byte{[]byte(r.Holder), []byte(r.Task), meta, r.Value} {
		text = append(hex.AppendEncode(append(text, `,"`...), b), '"')
	}
	return append(text, ']')
}

// attemptAll sends attempts to distlock_attempt_all, and sets the results of those that it made.
func (s *Store) attemptAll(ctx context.Context, key string, many []*attempt) error {
	var least time.Duration
	text := []byte("'[")
	for i, a := range many {
		if ttl := a.r.QueueTTL; ttl > 0 && (least == 0 || ttl < least) {
			least = ttl
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(strconv.AppendInt(append(text, '['), int64(i), 10), a.text...)
	}
	rows, err := s.query(ctx, s.claims, "CALL distlock_attempt_all"+list(hexOf(key), number(micros(least)), string(text)+"]'"))
	if err != nil || len(rows) == 0 {
		return err
	}
	row := reader{sqlrow.Reader{Cells: rows[0]}}
	for _, behind := range []int{counted, 0} { // of the owners that had an entry, and of those that had none
		indexes := row.Text()
		if indexes == "" {
			continue
		}
		for text := range strings.SplitSeq(indexes, ",") {
			i, err := strconv.Atoi(text)
			if err != nil || i < 0 || i >= len(many) || len(rows[0]) < 2 {
				return sqlrow.ErrAnswer
			}
			res, err := result(many[i].r, [][][]byte{rows[0][2:]})
			if err != nil {
				return err
			}
			res.Behind, res.Blocker.Value = behind, bytes.Clone(res.Blocker.Value)
			many[i].res, many[i].answered = res, true
		}
	}
	return nil
}

// counted is up to how many entries distlock_acquire counts.
const counted = 17
