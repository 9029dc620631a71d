package redis

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// firstServer is the first version that has all commands of the scripts.
const firstServer = "6.2"

// errAnswer says that the answer of a script is malformed.
var errAnswer = errors.New("redis: the answer is not one of ours")

// errForgets says that the server has no mark or a stale one: it has lost claims, and the script
// changed nothing.
var errForgets = fmt.Errorf("%w: redis: the server does not remember all claims", driver.ErrUnavailable)

// A reader reads the answer of a script. The first value that it cannot read sets err, and all
// values after it are zero.
type reader struct {
	rest string
	err  error
}

// word returns the text before the next space or line end.
func (r *reader) word() string {
	at := 0
	for at < len(r.rest) && r.rest[at] != ' ' && r.rest[at] != '\n' {
		at++
	}
	w := r.rest[:at]
	r.rest = r.rest[min(at+1, len(r.rest)):]
	return w
}

func (r *reader) number() int64 {
	n, err := strconv.ParseInt(r.word(), 10, 64)
	if err != nil || n < 0 {
		r.fail()
		return 0
	}
	return n
}

// fence reads the fence of a grant.
func (r *reader) fence() uint64 {
	n := r.number()
	if n < 1 || n >= 1<<53 {
		r.fail()
		return 0
	}
	return uint64(n)
}

// bytes returns the next n bytes.
func (r *reader) bytes(n int64) string {
	if n < 0 || n > int64(len(r.rest)) {
		r.fail()
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *reader) ms() time.Duration { return span(r.number(), time.Millisecond) }

// span returns a duration of n units, at most the longest duration.
func span(n int64, unit time.Duration) time.Duration {
	return time.Duration(min(n, int64(math.MaxInt64/unit))) * unit
}

func (r *reader) fail() {
	if r.err == nil {
		r.err, r.rest = errAnswer, ""
	}
}

// another is the holder of a Redis key that no distlock claim is on.
const another = "another client"

// claim reads a claim in the format of the Lua function show, and its position in the order of
// grants.
func (r *reader) claim(key string) (c driver.Claim, order int64) {
	c.Key = key
	kind := r.word()
	if kind == "r" {
		return r.record(c)
	}
	c.Waiting = kind == "p"
	c.Left = r.ms()
	c.Held = span(r.number(), time.Microsecond)
	c.Weight, c.Limit = r.number(), r.number()
	c.Fence = uint64(r.number())
	order = r.number()
	c.Kept = r.number() == 1
	owner, who, value := r.number(), r.number(), r.number()
	c.Owner = driver.Tag(r.bytes(owner))
	whoReader := reader{rest: r.bytes(who)}
	if v := r.bytes(value); v != "" {
		c.Value = []byte(v)
	}
	if kind == "o" {
		c.Holder = another
		return c, order
	}
	whoReader.who(&c)
	return c, order
}

// record reads an exclusive claim as it is stored: "left now fence length-of-owner\n" owner
// "since kept length-of-who 0\n" who value.
func (r *reader) record(c driver.Claim) (_ driver.Claim, order int64) {
	c.Left = r.ms()
	now := r.number()
	order = r.number()
	c.Weight, c.Limit, c.Fence = driver.Whole, driver.Whole, uint64(order)
	c.Owner = driver.Tag(r.bytes(r.number()))
	c.Held = span(max(0, now-r.number()), time.Microsecond)
	c.Kept = r.number() == 1
	whoLength, _ := r.number(), r.number()
	whoReader := reader{rest: r.bytes(whoLength)}
	if r.rest != "" {
		c.Value = []byte(r.rest)
	}
	r.rest = ""
	whoReader.who(&c)
	return c, order
}

// who reads holder, task and meta.
func (r *reader) who(c *driver.Claim) {
	c.Holder, c.Task = r.part(), r.part()
	for r.rest != "" {
		if c.Meta == nil {
			c.Meta = map[string]string{}
		}
		k := r.part()
		c.Meta[k] = r.part()
	}
}

// part reads "length:text". It returns "" for other texts: another program may have written them.
func (r *reader) part() string {
	length, rest, ok := strings.Cut(r.rest, ":")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(rest) {
		r.rest = ""
		return ""
	}
	r.rest = rest[n:]
	return rest[:n]
}

// cutAge removes the age, if there is one, from the answer to Acquire: "aSINCE NOW ".
func cutAge(text string) (age time.Duration, rest string) {
	times, ok := strings.CutPrefix(text, "a")
	if !ok {
		return 0, text
	}
	r := reader{rest: times}
	since := r.number()
	age = span(max(1, r.number()-since), time.Microsecond)
	return age, r.rest // "" if it could not be read
}

// result reads the answer to Acquire.
func result(key string, floor uint64, text string) (res driver.Result, err error) {
	if res.Age, text = cutAge(text); text == "" {
		return res, errAnswer
	}
	r := reader{rest: text[1:]}
	switch text[0] {
	case '+', '=':
		res.Granted, res.Fresh = true, text[0] == '+'
		res.Fence = r.fence()
		res.Used = driver.Whole
		if r.rest != "" {
			res.Used = r.number()
			res.Behind = int(r.number())
		}
	case '-':
		res.Used = r.number()
		res.Ahead, res.Behind = int(r.number()), int(r.number())
		res.Retry = r.ms()
		res.Blocker = driver.Claim{Key: key}
		if r.rest != "" {
			res.Blocker, _ = r.claim(key)
		}
	case 'i':
		return res, fmt.Errorf("%w: floor %d is more than an hour ahead", driver.ErrInvalid, floor)
	case 'm':
		return res, errForgets
	case 'v':
		return res, fmt.Errorf("redis: the server is Redis %s, and %s or newer is required: %w: %w",
			r.rest, firstServer, driver.ErrUnavailable, errors.ErrUnsupported)
	case 'f':
		return res, fmt.Errorf("%w: no fences are left", driver.ErrUnavailable)
	default:
		return res, errAnswer
	}
	if r.err != nil {
		return driver.Result{}, r.err
	}
	return res, nil
}

// renewed reads one answer to a renewal.
func (r *reader) renewed(key string) (behind int, err error) {
	if r.rest == "" {
		r.fail()
		return 0, r.err
	}
	kind := r.bytes(1)
	switch kind {
	case "+":
		behind = int(r.number())
		return behind, r.err
	case "n":
		r.word()
		return 0, driver.ErrNotHeld
	case "b":
		reason := r.bytes(r.number())
		if r.err != nil {
			return 0, r.err
		}
		return 0, &driver.BrokenError{Reason: reason}
	case "w":
		r.word()
		return 0, wrongType(key)
	}
	r.fail()
	return 0, r.err
}
