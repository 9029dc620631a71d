package mysql

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

// clock is the server's clock in microseconds, read when the expression is evaluated: after the
// statement has the lock of the row. The time zone of the store's connections is UTC.
const clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))"

// insertSQL acquires a key that nobody uses: nobody has a claim or a queue entry, not even one that
// has ended, and there are fences. Assignments take effect from left to right, so all of them
// follow the first, which takes the row for this attempt. The returned row has the answer: the
// claim is granted if the row names this attempt. The fence of a new row is above those of all rows
// that were deleted.
var insertSQL = strings.NewReplacer("@now", clock, "@mine", "attempt = VALUES(attempt)",
	"@floor", "COALESCE((SELECT CAST(m.value AS SIGNED) + 128 FROM distlock_meta m WHERE m.name = 'fence'), 0)").Replace(
	"INSERT INTO distlock_claim (lock_key, slot, attempt, since, last, fence, granted, ends," +
		" weight, `limit`, holder, task, meta, value, owner)" +
		" VALUES (?, '', ?, @now, GREATEST(since, @floor), last, last, since + ?, ?, ?, ?, ?, ?, ?, ?)" +
		" ON DUPLICATE KEY UPDATE attempt = IF(ends = 0 AND others = 0 AND entries = 0" +
		" AND last < 9007199254740608, VALUES(attempt), attempt), since = IF(@mine, @now, since)," +
		" last = IF(@mine, GREATEST(last + 128, since), last), fence = IF(@mine, last, fence)," +
		" granted = IF(@mine, last, granted), ends = IF(@mine, since + VALUES(ends) - VALUES(since), ends)," +
		" weight = IF(@mine, VALUES(weight), weight), `limit` = IF(@mine, VALUES(`limit`), `limit`)," +
		" kept = IF(@mine, 0, kept), pushed = IF(@mine, 0, pushed), broken = IF(@mine, NULL, broken)," +
		" holder = IF(@mine, VALUES(holder), holder), task = IF(@mine, VALUES(task), task)," +
		" meta = IF(@mine, VALUES(meta), meta), value = IF(@mine, VALUES(value), value)," +
		" owner = IF(@mine, VALUES(owner), owner) RETURNING attempt, fence")

// takeSQL does the same if the key has a row, for less: the server sends only the fence.
const takeSQL = "UPDATE distlock_claim SET since = " + clock + ", last = LAST_INSERT_ID(GREATEST(last + 128, since))," +
	" fence = last, granted = last, ends = since + ?, weight = ?, `limit` = ?, kept = 0, pushed = 0, broken = NULL," +
	" holder = ?, task = ?, meta = ?, value = ?, owner = ?" +
	" WHERE lock_key = ? AND slot = '' AND ends = 0 AND others = 0 AND entries = 0 AND last < 9007199254740608"

// Acquire grants or refuses a claim.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if err := cmp.Or(ctx.Err(), r.Validate(features())); err != nil {
		return driver.Result{}, err
	}
	a, err := s.passing.enter(ctx, &r)
	if err != nil {
		return driver.Result{}, err
	}
	if a.answered {
		return a.res, nil
	}
	defer s.passing.leave(r.Key) //nolint:contextcheck // the statement that it starts is for other callers
	if r.Weight == driver.Whole && r.Floor == 0 && !s.slow.has(r.Key) {
		fence, err := s.direct(ctx, &r)
		if err != nil {
			return driver.Result{}, err
		}
		if sqlrow.IsFence(fence) {
			s.seen.set(r.Key, true)
			s.sweeper.granted()
			return driver.Result{Granted: true, Fresh: true, Fence: uint64(fence), Used: r.Weight}, nil
		}
	}
	rows, err := s.query(ctx, s.claims, "CALL distlock_acquire"+list(hexOf(r.Key), hexOf(digest(r.Owner)),
		number(micros(r.TTL)), number(r.Weight), number(r.Limit), number(micros(r.QueueTTL)), number(int64(r.Floor)),
		hexOf(r.Holder), hexOf(r.Task), hexOrNull(sqlrow.EncodeMeta(r.Meta)), hexOrNull(r.Value)))
	if err != nil {
		return driver.Result{}, err
	}
	res, err := result(&r, rows)
	if err != nil {
		return driver.Result{}, err
	}
	s.seen.set(r.Key, true)
	s.slow.set(r.Key, r.Weight < driver.Whole || !res.Granted || res.Behind > 0)
	if res.Granted {
		s.sweeper.granted()
		s.poller.soon(r.Key)
	}
	return res, nil
}

// direct acquires a key that nobody uses without a procedure, and returns its fence. It returns 0
// if the key is in use, or if the server cannot do this.
func (s *Store) direct(ctx context.Context, r *driver.Request) (fence int64, err error) {
	exists := s.seen.has(r.Key)
	key, owner := []byte(r.Key), digest(r.Owner)
	holder, task, meta, value := []byte(r.Holder), []byte(r.Task), orNull(sqlrow.EncodeMeta(r.Meta)), orNull(r.Value)
	err = s.raw(ctx, func(ctx context.Context, c *conn) error {
		if exists {
			rows, id, err := c.exec(ctx, takeSQL, micros(r.TTL), r.Weight, r.Limit, holder, task, meta, value, owner, key)
			if rows > 0 {
				fence = id
			}
			return err
		}
		if !s.ready.Load().returning {
			return nil
		}
		attempt := rand.Int64() | 1 //nolint:gosec // it needs no secret randomness
		got, err := c.row(ctx, insertSQL, key, attempt, micros(r.TTL), r.Weight, r.Limit, holder, task, meta, value, owner)
		if err == nil && got[0] == attempt {
			fence = got[1]
		}
		return err
	})
	return fence, err
}

// result reads an answer of distlock_acquire.
func result(r *driver.Request, rows [][][]byte) (driver.Result, error) {
	if len(rows) != 1 {
		return driver.Result{}, sqlrow.ErrAnswer
	}
	row := reader{sqlrow.Reader{Cells: rows[0]}}
	answer, fence := row.Text(), row.Number()
	res := driver.Result{Used: row.Number(), Ahead: int(row.Number()), Behind: int(row.Number())}
	retry := row.Number()
	switch {
	case row.Err != nil:
		return driver.Result{}, row.Err
	case answer == "i":
		return driver.Result{}, fmt.Errorf("%w: floor %d is more than an hour ahead", driver.ErrInvalid, r.Floor)
	case answer == "f":
		return driver.Result{}, fmt.Errorf("%w: no fences are left", driver.ErrUnavailable)
	case answer == "-":
		res.Retry, res.Blocker = sqlrow.Span(retry), row.claim(r.Key)
		return res, row.Err
	case (answer == "+" || answer == "=") && sqlrow.IsFence(fence):
		res.Granted, res.Fresh, res.Fence, res.Ahead = true, answer == "+", uint64(fence), 0
		return res, nil
	}
	return driver.Result{}, sqlrow.ErrAnswer
}

// updateSQL releases an exclusive claim that nobody waits for. It reads the clock before it has the
// lock of the row: the claim may have ended since then, but nobody else has the key.
const updateSQL = "UPDATE distlock_claim SET ends = 0, meta = NULL, value = NULL, news = news + 1" +
	" WHERE lock_key = ? AND slot = '' AND owner = ? AND entries = 0 AND broken IS NULL" +
	" AND ends > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// Release ends a claim or removes a queue entry.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !validKey(id.Key) || id.Owner == "" || len(id.Owner) > driver.MaxOwner {
		return driver.ErrNotHeld // no owner can hold it
	}
	s.passing.settle(ctx, id)
	owner := digest(id.Owner)
	if !s.slow.has(id.Key) {
		var released int64
		err := s.raw(ctx, func(ctx context.Context, c *conn) (err error) {
			released, _, err = c.exec(ctx, updateSQL, []byte(id.Key), owner)
			return err
		})
		if err != nil {
			return err
		}
		if released > 0 {
			s.poller.soon(id.Key)
			return nil
		}
	}
	rows, err := s.query(ctx, s.claims, "CALL distlock_release"+list(hexOf(id.Key), hexOf(owner)))
	if err != nil {
		return err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return sqlrow.ErrAnswer
	}
	if string(rows[0][0]) != "1" {
		return driver.ErrNotHeld
	}
	s.poller.soon(id.Key)
	return nil
}
