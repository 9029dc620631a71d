// Package proof_test breaks real servers, the routes to them and the processes that use them, and
// checks the results. It needs the server programs of the machine, and for some faults the rights
// of root.
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
	half  = flag.Int("half", -1, "each test runs on half of the stores: an even number and an odd one give both halves; negative: on all stores")
	seed  = flag.Uint64("seed", 1, "decides the faults, and roughly their times")
)

// ttl is the TTL of all locks in this package, on stores whose least TTL is not longer.
const ttl = time.Second

func TestMain(m *testing.M) {
	run := testenv.Main(m, testenv.Roles{faults.Role: faults.Holder, faults.ServerRole: faults.Serve})
	flag.Parse()
	// light and heavy limit the number of tests that run at a time.
	if err := flag.Set("test.parallel", "100"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(run)
}

// light lets a few tests run at a time that wait most of their time, and heavy fewer tests that
// need the processors. They return the function that ends the test's share.
func light() func() { return enter(waiting) }

func heavy() func() { return enter(working) }

var waiting, working = make(chan struct{}, 6), make(chan struct{}, 2)

func enter(slots chan struct{}) func() {
	slots <- struct{}{}
	return func() { <-slots }
}
