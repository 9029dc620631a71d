package redis

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// A frame builds one call. All texts of a call are parts of one string, so that they cost one
// allocation. The other fields of a frame are reused.
type frame struct {
	buf  []byte
	ends []int // where the texts end in buf
	list []string
	keys int // how many of the texts are keys

	channel []byte // buffer for the name of a channel
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func newFrame() *frame {
	f := frames.Get().(*frame)
	f.buf, f.ends, f.keys = f.buf[:0], f.ends[:0], 0
	return f
}

// free returns the frame to the pool. After it, only the strings of the call may be used.
func (f *frame) free() {
	if cap(f.buf) > 16<<10 {
		f.buf = nil
	}
	clear(f.list)
	frames.Put(f)
}

// name adds the Redis keys of a name: its own and those with a suffix.
func (f *frame) name(prefix, key string, parts ...string) {
	at := len(f.buf)
	f.buf = appendName(f.buf, prefix, key)
	to := len(f.buf)
	f.end()
	for _, part := range parts {
		f.buf = append(f.buf, '{')
		f.buf = append(f.buf, f.buf[at:to]...)
		f.buf = append(f.buf, part...)
		f.end()
	}
	f.keys = len(f.ends)
}

func (f *frame) end() { f.ends = append(f.ends, len(f.buf)) }

func (f *frame) text(s string) {
	f.buf = append(f.buf, s...)
	f.end()
}

func (f *frame) number(n int64) {
	f.buf = strconv.AppendInt(f.buf, n, 10)
	f.end()
}

// life adds a duration in ms.
func (f *frame) life(d time.Duration) { f.number(ms(d)) }

// ms rounds up: a claim lives at least as long as requested.
func ms(d time.Duration) int64 {
	n := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		n++
	}
	return n
}

// terms adds weight, limit and queue TTL of a request.
func (f *frame) terms(r *driver.Request) {
	f.buf = strconv.AppendInt(f.buf, r.Weight, 10)
	f.buf = append(f.buf, ' ')
	f.buf = strconv.AppendInt(f.buf, r.Limit, 10)
	f.buf = append(f.buf, ' ')
	f.buf = strconv.AppendInt(f.buf, ms(r.QueueTTL), 10)
	f.end()
}

// value adds bytes.
func (f *frame) value(b []byte) {
	f.buf = append(f.buf, b...)
	f.end()
}

// who adds holder, task and meta, without an end.
func (f *frame) who(r *driver.Request) {
	f.part(r.Holder)
	f.part(r.Task)
	if len(r.Meta) > 0 {
		for _, k := range slices.Sorted(maps.Keys(r.Meta)) {
			f.part(k)
			f.part(r.Meta[k])
		}
	}
}

// whoSize returns how many bytes who adds.
func whoSize(r *driver.Request) int {
	n := partSize(r.Holder) + partSize(r.Task)
	for k, v := range r.Meta {
		n += partSize(k) + partSize(v)
	}
	return n
}

func (f *frame) part(s string) {
	f.buf = strconv.AppendInt(f.buf, int64(len(s)), 10)
	f.buf = append(f.buf, ':')
	f.buf = append(f.buf, s...)
}

// partSize returns how many bytes part adds.
func partSize(s string) int {
	digits := 1
	for n := len(s); n > 9; n /= 10 {
		digits++
	}
	return digits + 1 + len(s)
}

// call returns the finished call of a script.
func (f *frame) call(s *script) Call {
	all := string(f.buf)
	f.list = f.list[:0]
	from := 0
	for _, to := range f.ends {
		f.list = append(f.list, all[from:to])
		from = to
	}
	return Call{Verb: "EVALSHA", Script: s.sha, Keys: f.list[:f.keys], Args: f.list[f.keys:]}
}
