package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/fence"
)

// A cell is a value with a version that other writers change.
type cell struct {
	mu      sync.Mutex
	value   int
	version int
	stolen  int // how many saves find another version
}

func (c *cell) load(context.Context) (int, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.version, nil
}

func (c *cell) save(_ context.Context, value, version int) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stolen > 0 {
		c.stolen--
		c.version++
	}
	if c.version != version {
		return false, nil
	}
	c.value, c.version = value, version+1
	return true, nil
}

func increment(n int) (int, error) { return n + 1, nil }

func TestUpdate(t *testing.T) {
	t.Run("conflicts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, began := &cell{stolen: 10}, time.Now()
			if n, err := fence.Update(t.Context(), c.load, increment, c.save, nil); n != 1 || err != nil {
				t.Errorf("%d, %v, want 1", n, err)
			}
			if took := time.Since(began); took < 250*time.Millisecond || took > 3*time.Second {
				t.Errorf("ten pauses took %v", took)
			}
		})
	})
	t.Run("too many", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for tries, opt := range map[int]*fence.UpdateOptions{3: {Tries: 3}, 1: {Tries: 1}, 100: nil} {
				c, loads := &cell{stolen: 1000}, 0
				_, err := fence.Update(t.Context(), func(ctx context.Context) (int, int, error) { loads++; return c.load(ctx) }, increment, c.save, opt)
				var conflict *fence.ConflictError
				if !errors.Is(err, fence.ErrConflict) || !errors.As(err, &conflict) || conflict.Tries != tries || loads != tries {
					t.Errorf("%d tries: %v after %d", tries, err, loads)
				}
				if want := fmt.Sprintf("fence: conflict: others were faster %d times", tries); err.Error() != want {
					t.Errorf("%q, want %q", err, want)
				}
			}
		})
	})
	t.Run("ctx", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c, began := &cell{stolen: 1000}, time.Now()
			_, err := fence.Update(ctx, c.load, increment, c.save, nil)
			if !errors.Is(err, fence.ErrConflict) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
				t.Errorf("%v after %v, want both reasons after 1 s", err, time.Since(began))
			}
			if _, err = fence.Update(ctx, c.load, increment, c.save, nil); errors.Is(err, fence.ErrConflict) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want the end of ctx alone", err)
			}
		})
	})
	t.Run("errors", func(t *testing.T) {
		mine, c := errors.New("mine"), &cell{}
		noLoad := func(context.Context) (int, int, error) { return 0, 0, mine }
		noSave := func(context.Context, int, int) (bool, error) { return false, mine }
		noChange := func(int) (int, error) { return 0, mine }
		_, one := fence.Update(t.Context(), noLoad, increment, c.save, nil)
		_, two := fence.Update(t.Context(), c.load, noChange, c.save, nil)
		_, three := fence.Update(t.Context(), c.load, increment, noSave, nil)
		for _, err := range []error{one, two, three} {
			if !errors.Is(err, mine) {
				t.Errorf("%v, want the error as it is", err)
			}
		}
		if _, err := fence.Update(t.Context(), c.load, increment, c.save, &fence.UpdateOptions{Tries: -1}); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("-1 tries: %v", err)
		}
		if c.version != 0 {
			t.Error("something was saved")
		}
	})
}

var errTaken = errors.New("the seat is taken")

// Fifty guests want one seat, and fifty want any of many: the seat is sold once, and no other sale
// is lost.
func TestUpdate_seat(t *testing.T) {
	each(t, func(t *testing.T, s source, style fence.Placeholders) {
		if style != fence.Dollar {
			t.Skip("the statements are the test's own")
		}
		ctx, db := t.Context(), s.open(t)
		run(t, db, "create table seat (id integer primary key, guest integer not null, sold integer not null, version integer not null)")
		run(t, db, "insert into seat values (1, 0, 0, 1), (2, 0, 0, 1)")
		type seat struct{ guest, sold int }
		var ready sync.WaitGroup // all have seen the seats free before the first one books
		ready.Add(100)
		book := func(id int, change func(seat) (seat, error)) error {
			together := sync.OnceFunc(func() { ready.Done(); ready.Wait() })
			_, err := fence.Update(ctx,
				func(ctx context.Context) (s seat, version int, err error) {
					err = db.QueryRowContext(ctx, "select guest, sold, version from seat where id = $1", id).Scan(&s.guest, &s.sold, &version)
					together()
					return s, version, err
				},
				change,
				func(ctx context.Context, s seat, version int) (bool, error) {
					return affected(db.ExecContext(ctx, "update seat set guest = $1, sold = $2, version = version + 1 where id = $3 and version = $4",
						s.guest, s.sold, id, version))
				}, &fence.UpdateOptions{Tries: 1000})
			return err
		}
		var won, taken atomic.Int32
		var wg sync.WaitGroup
		for guest := 1; guest <= 50; guest++ {
			wg.Go(func() {
				err := book(1, func(s seat) (seat, error) {
					if s.guest != 0 {
						return s, errTaken
					}
					return seat{guest, s.sold + 1}, nil
				})
				switch {
				case err == nil:
					won.Add(1)
				case errors.Is(err, errTaken):
					taken.Add(1)
				default:
					t.Error(err)
				}
			})
			wg.Go(func() {
				if err := book(2, func(s seat) (seat, error) { return seat{guest, s.sold + 1}, nil }); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || taken.Load() != 49 {
			t.Errorf("%d won and %d found it taken, want 1 and 49", won.Load(), taken.Load())
		}
		for id, want := range map[int]int{1: 1, 2: 50} {
			var sold int
			must(t, db.QueryRowContext(ctx, "select sold from seat where id = $1", id).Scan(&sold))
			if sold != want {
				t.Errorf("seat %d: sold %d times, want %d", id, sold, want)
			}
		}
	})
}

func affected(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}
