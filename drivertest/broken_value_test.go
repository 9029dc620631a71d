package drivertest

import (
	"bytes"
	"context"
	"iter"
	"maps"
	"sync"

	"github.com/distlock/distlock/driver"
)

// valueFaults are wrong about the data of a request.
func valueFaults() []fault {
	return []fault{
		{"values are lost", []string{"value"}, requests(func(_ *bent, r *driver.Request) { r.Value = nil })},
		{"values are cut at NUL", []string{"value"}, requests(func(_ *bent, r *driver.Request) { r.Value, _, _ = bytes.Cut(r.Value, []byte{0}) })},
		{"renew clears the value", []string{"value"}, renews(func(_ *bent, r *driver.Renewal) {
			if r.Value == nil {
				r.Value = []byte{}
			}
		})},
		{"an empty value is no value", []string{"value"}, renews(func(_ *bent, r *driver.Renewal) {
			if len(r.Value) == 0 {
				r.Value = nil
			}
		})},
		{"values are made up", []string{"no value"}, requests(func(_ *bent, r *driver.Request) {
			if r.Value == nil {
				r.Value = []byte("null")
			}
		})},
		{"holders are lost", []string{"holder"}, requests(func(_ *bent, r *driver.Request) { r.Holder = "" })},
		{"tasks are lost", []string{"holder"}, requests(func(_ *bent, r *driver.Request) { r.Task = "" })},
		{"meta is lost", []string{"value"}, requests(func(_ *bent, r *driver.Request) { r.Meta = nil })},
		{"requests are not copied", []string{"copies"}, owned(copying{false, true, true, true})},
		{"renewals are not copied", []string{"copies"}, owned(copying{true, false, true, true})},
		{"Show does not copy", []string{"copies"}, owned(copying{true, true, false, true})},
		{"blockers are not copied", []string{"copies"}, owned(copying{true, true, true, false})},
	}
}

// copying lists the data that is copied.
type copying struct{ request, renewal, shown, blocker bool }

// A payload is the data of a request.
type payload struct {
	value []byte
	meta  map[string]string
}

// or returns l, or a copy if clone is true.
func (l payload) or(clone bool) payload {
	if clone {
		return payload{bytes.Clone(l.value), maps.Clone(l.meta)}
	}
	return l
}

// owned keeps values and meta itself instead of in store/mem.
func owned(c copying) func(b *bent) {
	return func(b *bent) {
		var mu sync.Mutex
		own := map[string]payload{} // by the owner's tag
		dress := func(clone bool, cs ...driver.Claim) []driver.Claim {
			mu.Lock()
			defer mu.Unlock()
			for i := range cs {
				l := own[cs[i].Owner].or(clone)
				cs[i].Value, cs[i].Meta = l.value, l.meta
			}
			return cs
		}
		b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
			b.step.Lock() // so that the result of b.on stays true
			defer b.step.Unlock()
			was, live := b.on(r.ID)
			res, err := b.mem.Acquire(ctx, r)
			if held := live && !was.Waiting; err == nil && !held && (res.Granted || r.QueueTTL > 0) {
				mu.Lock()
				own[driver.Tag(r.Owner)] = payload{r.Value, r.Meta}.or(c.request)
				mu.Unlock()
			}
			if err == nil && !res.Granted {
				res.Blocker = dress(c.blocker, res.Blocker)[0]
			}
			return res, err
		}
		b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
			was, _ := b.on(r.ID)
			n, err := b.mem.Renew(ctx, r)
			if tag := driver.Tag(r.Owner); err == nil && r.Value != nil && (r.Keep || !was.Kept) {
				mu.Lock()
				own[tag] = payload{payload{value: r.Value}.or(c.renewal).value, own[tag].meta}
				mu.Unlock()
			}
			return n, err
		}
		shown(func(_ *bent, cs []driver.Claim) []driver.Claim { return dress(c.shown, cs...) })(b)
		b.breaks = func(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
			cs, err := b.mem.Break(ctx, key, upTo, reason)
			return dress(true, cs...), err
		}
		b.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
			return func(yield func(driver.Claim, error) bool) {
				for d, err := range b.mem.List(ctx, prefix) {
					if !yield(dress(true, d)[0], err) {
						return
					}
				}
			}
		}
	}
}
