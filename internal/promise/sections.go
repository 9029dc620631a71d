package promise

// Sections are the columns of the fault matrix.
func Sections() []Section {
	return []Section{memory(), sqlite(), redis(), replicated(), redlock(), postgres(), mariadb(), advisory(), etcd(), remote()}
}

// wrongClock are the tests of a client whose clock is wrong. Requests to a store carry durations,
// never times of day.
var wrongClock = []Test{
	"internal/keeper/clock_test.go:TestClock_ignores_a_time_of_day_that_is_set",
	"lease_time_test.go:TestLease_lost_beforeAFastStoreEndsIt",
}

const wrongClockHolds = "no effect: requests carry durations, never times of day"
