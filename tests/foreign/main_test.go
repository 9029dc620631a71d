package foreign

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/internal/testenv"
)

func TestMain(m *testing.M) {
	run := testenv.Main(m, testenv.Roles{
		"redislock": playRedislock,
		"redsync":   playRedsync,
		"program":   playProgram,
		"holder":    playHolder,
		"counter":   playCounter,
	})
	flag.Parse()
	// The tests mostly wait, which needs no processor.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(run)
}
