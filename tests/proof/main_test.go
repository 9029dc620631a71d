// Package proof_test breaks real servers, the ways to them and the processes that use them, and judges what came of it. It
// needs the server programs of the machine, and for some faults the rights of root.
package proof_test

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/tests/internal/faults"
)

var (
	proof = flag.Bool("proof", false, "run the tests of this package, which take some minutes")
	seed  = flag.Uint64("seed", 1, "decides what is broken, and when about")
)

// ttl is that of all locks here.
const ttl = time.Second

func TestMain(m *testing.M) {
	run := testenv.Main(m, testenv.Roles{faults.Role: faults.Holder})
	flag.Parse()
	// How many go on at a time is up to light and heavy.
	if err := flag.Set("test.parallel", "100"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(run)
}

// light lets some tests at a time go on that wait most of their time, and heavy fewer, that need the processors
// themselves. They return what ends it.
func light() func() { return enter(waiting) }

func heavy() func() { return enter(working) }

var waiting, working = make(chan struct{}, 6), make(chan struct{}, 2)

func enter(room chan struct{}) func() {
	room <- struct{}{}
	return func() { <-room }
}
