package chaos

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// A Plan makes a link produce faults by chance. The fault of a call depends on the seed, the name
// of the link, the verb, and the number of earlier calls with this verb. It depends neither on time
// nor on other links. The zero Plan produces no faults.
type Plan struct {
	Seed uint64

	// Chance is the probability that a call meets a fault of each kind, from 0 to 1; together at
	// most 1. The chances of WakeLost and WakeFalse are for each wake-up, and WakeFalse also for
	// each watch.
	Chance map[Kind]float64

	// Delay is the longest duration of a fault: the delay of a late or repeated request, the time
	// that a link is frozen, the time that the caller of a lost call waits for its error. 0 means
	// one second.
	Delay time.Duration

	// Latency is the longest time that each request and each reply takes on its way. It is no
	// fault.
	Latency time.Duration

	// Calm ends the faults that long after the Store was created, so that a run can end well; the
	// latency stays. 0 means that they never end.
	Calm time.Duration
}

var (
	callKinds = []Kind{RequestLost, ReplyLost, RequestLate, ReplyLate, Repeated, Frozen, Unavailable}
	wakeKinds = []Kind{WakeLost, WakeFalse}
)

// check panics if the chances of a plan are invalid.
func (p *Plan) check() {
	for _, kinds := range [][]Kind{callKinds, wakeKinds} {
		sum := 0.0
		for _, k := range kinds {
			if p.Chance[k] < 0 {
				panic(fmt.Sprintf("chaos: a chance of %v for %v", p.Chance[k], k))
			}
			sum += p.Chance[k]
		}
		if sum > 1 {
			panic(fmt.Sprintf("chaos: chances of %v together", sum))
		}
	}
}

// An Action is the fault of one call.
type Action struct {
	Kind Kind          // 0: nothing
	For  time.Duration // how long it lasts; 0 for a lost call: until its ctx ends
}

// A draw is an Action and the durations of an ordinary round trip.
type draw struct {
	Action
	there, back time.Duration
}

// draw decides about the n-th call of a verb.
func (p *Plan) draw(name string, v Verb, n uint64, kinds []Kind, calm bool) draw {
	if len(p.Chance) == 0 && p.Latency == 0 {
		return draw{}
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%d", name, v, n)
	rng := rand.New(rand.NewPCG(p.Seed, h.Sum64()))
	dice := rng.Float64()
	longest := p.Delay
	if longest == 0 {
		longest = time.Second
	}
	d := draw{
		Action: Action{For: 1 + time.Duration(rng.Int64N(int64(longest)))},
		there:  time.Duration(rng.Int64N(int64(p.Latency) + 1)),
		back:   time.Duration(rng.Int64N(int64(p.Latency) + 1)),
	}
	if calm {
		return d
	}
	for _, k := range kinds {
		if dice -= p.Chance[k]; dice < 0 {
			d.Kind = k
			break
		}
	}
	return d
}
