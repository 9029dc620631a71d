// Package proof_test breaks real servers, the ways to them and the processes that use them, and judges what came of it. It
// needs the server programs of the machine, and for some faults the rights of root.
package proof_test

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/internal/faults"
	"github.com/distlock/distlock/internal/testenv"
)

var seed = flag.Uint64("seed", 1, "decides what is broken, and when about")

// ttl is that of all locks here.
const ttl = time.Second

func TestMain(m *testing.M) {
	run := testenv.Main(m, testenv.Roles{faults.Role: faults.Holder})
	flag.Parse()
	// The tests wait most of their time. They need no processor for that.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(run)
}
