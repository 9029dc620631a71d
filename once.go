package distlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
)

var (
	// ErrNotRecorded says that the function ran, and that its result may not be stored: a later
	// caller may run it again. The result is returned with the error, which also has the reason:
	// [ErrLost], [ErrUnknown] or [ErrTooLarge].
	ErrNotRecorded = errors.New("distlock: result not recorded")

	// ErrTooLarge is the [ErrNotRecorded] of a result of more than 64 KiB. Nothing was stored.
	ErrTooLarge error = &kindOf{"distlock: result over 64 KiB", ErrNotRecorded}

	// ErrPanicked is the argument of Failures in [OnceOptions] if the function did not return: it
	// panicked, or ended its goroutine.
	ErrPanicked = errors.New("distlock: the function panicked")
)

// A PastError is the failure of an earlier call of [Once], which was remembered. It is final.
type PastError struct {
	Name string
	Text string // the text of that error
}

func (e *PastError) Error() string {
	return fmt.Sprintf("distlock: %s failed before: %s", names.Quote(e.Name), e.Text)
}

// A Once runs a function and remembers its result. If the process dies between the run and the
// recording, nothing is remembered, and the next caller runs the function again: at least once, not
// exactly once. Where that must not happen, record the result in the transaction of the work: see
// package fence.
//
// Results are kept in the store for a time. Two callers at once do not both run the function: the
// second waits for the first, or gets [ErrHeld] with [MaxWait] 0.
type Once[T any] struct {
	l    *Locker
	keep time.Duration
	o    OnceOptions[T]
	opts []Option
}

// OnceOptions are the options of a [Once]. The zero value is good.
type OnceOptions[T any] struct {
	// Failures reports whether an error of the function is remembered: then later callers get a
	// [*PastError]. Nil remembers none, and the next caller runs the function again. A panic is
	// passed as [ErrPanicked], and continues after that.
	Failures func(err error) bool

	Encode func(T) ([]byte, error) // nil: JSON
	Decode func([]byte) (T, error) // nil: JSON
}

// NewOnce returns a [Once] that remembers results for keep, at most 400 days. Nil for o is the zero
// [OnceOptions]; the options are the defaults of its calls. The error is [errors.ErrUnsupported] if
// the store cannot keep a record.
func NewOnce[T any](l *Locker, keep time.Duration, o *OnceOptions[T], opts ...Option) (*Once[T], error) {
	opts, err := l.kindOptions(names.Once, opts)
	if err != nil {
		return nil, err
	}
	switch f := l.features; {
	case !f.Keep || !f.Value:
		return nil, unsupported(f, "keeps no records, as Once needs")
	case keep <= 0, keep < f.MinTTL:
		return nil, invalid("keep", "a result kept for %v is below %v", keep, max(f.MinTTL, 1))
	case keep > maxKeep:
		return nil, invalid("keep", "a result kept for %v is above %v", keep, maxKeep)
	case f.MaxTTL > 0 && keep > f.MaxTTL:
		return nil, invalid("keep", "a result kept for %v is above the %v of store %s", keep, f.MaxTTL, f.Name)
	}
	once := &Once[T]{l: l, keep: keep, opts: opts}
	if o != nil {
		once.o = *o
	}
	if once.o.Encode == nil {
		once.o.Encode = func(v T) ([]byte, error) { return json.Marshal(v) }
	}
	if once.o.Decode == nil {
		once.o.Decode = func(b []byte) (v T, err error) { return v, json.Unmarshal(b, &v) }
	}
	return once, nil
}

// Do returns the remembered result of a name, or runs f and remembers its result. The context of f
// ends if the lease is lost. A failure that is not remembered, a result that cannot be stored, and
// a panic leave nothing behind.
//
// If the store does not answer the recording, Do repeats it while the lease can be trusted; if ctx
// has ended or the [Locker] is closed, for as long as [Lease.Unlock] would. Then it returns the
// result with [ErrNotRecorded].
//
// An error is [ErrNotAcquired] if and only if this call did not run f. A remembered result comes
// without an error, and a remembered failure is a [*PastError], which is ErrNotAcquired: it stays
// the same until the result is forgotten, so do not try again.
func (o *Once[T]) Do(ctx context.Context, name string, f func(ctx context.Context) (T, error), opts ...Option) (T, error) {
	if f == nil {
		var none T
		return none, outcome(false, errNilFunc)
	}
	ran := false
	v, err := o.do(ctx, name, func(ctx context.Context) (T, error) {
		ran = true
		return f(ctx)
	}, opts)
	return v, outcome(ran, err)
}

func (o *Once[T]) do(ctx context.Context, name string, f func(ctx context.Context) (T, error), opts []Option) (T, error) {
	var none T
	r, err := o.l.request(ctx, names.Once, name, ModeExclusive, append(o.opts, opts...))
	if err != nil {
		return none, err
	}
	r.Weight, r.Limit = driver.Whole, driver.Whole
	lease, err := o.l.acquire(ctx, r)
	var held *HeldError
	switch {
	case errors.As(err, &held) && held.record != nil:
		return o.read(name, held.record.Value)
	case err != nil:
		return none, err
	}
	return o.run(ctx, lease, f)
}

// Result returns the remembered result of a name, and whether there is one. A remembered failure is
// a [*PastError].
func (o *Once[T]) Result(ctx context.Context, name string) (v T, found bool, err error) {
	claims, err := o.l.show(ctx, names.Once, name)
	if err != nil {
		return v, false, err
	}
	for _, c := range claims {
		if c.Kept {
			v, err = o.read(name, c.Value)
			return v, true, err
		}
	}
	return v, false, nil
}

// run runs f under a lease and records its result, or else releases the lease, also if f or
// Failures panics.
func (o *Once[T]) run(ctx context.Context, lease *Lease, f func(ctx context.Context) (T, error)) (v T, err error) {
	if !lease.q.BeginWork() {
		return v, lease.finish(ctx, ErrClosed)
	}
	var record []byte
	returned := false
	defer func() {
		if record == nil {
			err = lease.finish(ctx, err)
		}
	}()
	defer func() {
		if !returned { // the panic continues, whatever the recording returns
			if record, _ = o.write(v, ErrPanicked); record != nil { // Failures may panic too
				_ = lease.q.Record(ctx, o.keep, record)
			}
		}
	}()
	v, err = f(lease.Context(ctx))
	returned = true
	record, bad := o.write(v, err)
	if record == nil {
		return v, errors.Join(err, bad)
	}
	if lost := lease.q.Record(ctx, o.keep, record); lost != nil {
		return v, errors.Join(err, fmt.Errorf("%w: %w", ErrNotRecorded, lost))
	}
	return v, err
}

// The first byte of a record.
const (
	markResult  = '+' // the encoded result follows
	markFailure = '-' // the text of the error follows
)

// write returns the record of a run; nil if there is nothing to remember.
func (o *Once[T]) write(v T, failed error) ([]byte, error) {
	if failed != nil {
		if o.o.Failures == nil || !o.o.Failures(failed) {
			return nil, nil
		}
		text := append([]byte{markFailure}, failed.Error()...)
		return text[:min(len(text), 1+maxValue)], nil
	}
	b, err := o.o.Encode(v)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotRecorded, err)
	case len(b) > maxValue:
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(b))
	}
	return append([]byte{markResult}, b...), nil
}

// read is the reverse of write.
func (o *Once[T]) read(name string, record []byte) (v T, err error) {
	switch {
	case len(record) > 0 && record[0] == markFailure:
		return v, &PastError{Name: name, Text: string(record[1:])}
	case len(record) > 0 && record[0] == markResult:
		if v, err = o.o.Decode(record[1:]); err == nil {
			return v, nil
		}
	default:
		err = errors.New("it has no mark")
	}
	return v, fmt.Errorf("distlock: the record of %s cannot be read: %w", names.Quote(name), err)
}
