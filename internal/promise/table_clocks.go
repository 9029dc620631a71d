package promise

var clockForward = Promise{
	Name: "One holder, if the server's clock is set forward",
	Text: "The clock jumps by more than the remaining TTL of a claim. Redis, PostgreSQL and MariaDB " +
		"expire claims by the time of day. For Redlock, the clock of one node jumps.",
	Cells: map[Store][]Claim{
		Memory: {
			{
				Answer: Yes,
				What:   "the store reads the monotonic clock",
				Tests:  []Test{"store/mem/clock_test.go:TestStore_time_of_day"},
			},
		},
		SQLite: {
			{
				Answer: Yes,
				What:   "claims expire by the time since boot (Linux, macOS)",
				Tests:  []Test{"store/sqlite/fault_test.go:TestStore_time_of_day"},
			},
		},
		Redis: {
			{
				Answer: No,
				What:   "the claim expires early, and another process gets the lock; fences rise",
				Tests:  []Test{"tests/guarantees/clock_test.go:TestClock_forward/redis"},
			},
		},
		Replicated: {
			{
				Answer: No,
				What:   "the same as with one server: the clock of the primary counts",
				Tests:  []Test{"tests/guarantees/clock_test.go:TestClock_forward/replicated"},
			},
		},
		Redlock: {
			{
				Answer: Yes,
				When:   "with a claim on all nodes",
				What:   "the next renewal acquires that node again",
				Tests: []Test{
					"tests/guarantees/clock_test.go:TestClock_node/all_nodes",
					"store/quorum/memory_test.go:TestStore_node_whose_clock_jumps",
				},
			},
			{
				Answer: No,
				When:   "with a claim on a bare majority",
				What:   "two holders; their fences differ and rise",
				Tests: []Test{
					"tests/guarantees/clock_test.go:TestClock_node/bare_majority",
					"store/quorum/memory_test.go:TestStore_node_whose_clock_jumps",
				},
			},
		},
		Postgres: {
			{
				Answer: No,
				What:   "the claim expires early, and another process gets the lock; fences rise",
				Tests:  []Test{"tests/guarantees/clock_test.go:TestClock_forward/postgres"},
			},
		},
		MariaDB: {
			{
				Answer: No,
				What:   "the claim expires early, and another process gets the lock; fences rise",
				Tests:  []Test{"tests/guarantees/clock_test.go:TestClock_forward/mariadb"},
			},
		},
		Advisory: {
			{
				Answer: No,
				What: "the server may regard the connection as idle for too long, and close it. " +
					"The holder is notified as soon as its client sees the closed connection",
				Tests: []Test{"tests/guarantees/clock_test.go:TestClock_forward/advisory"},
			},
		},
		Etcd:   n(etcdClock),
		Remote: n("as on the server's store"),
	},
}

// later returns a cell about a clock that is set back.
func later(name string) []Claim {
	return []Claim{{
		Answer: Yes,
		What:   "the claim of a dead holder expires later, by the length of the jump",
		Tests:  []Test{Test("tests/guarantees/clock_test.go:TestClock_back/" + name)},
	}}
}

var clockBack = Promise{
	Name: "One holder, if the server's clock is set back",
	Text: "No lock is granted early. Waiters behind a dead holder may wait longer.",
	Cells: map[Store][]Claim{
		Memory: {
			{
				Answer: Yes,
				What:   "the store reads the monotonic clock",
				Tests:  []Test{"store/mem/clock_test.go:TestStore_time_of_day"},
			},
		},
		SQLite: {
			{
				Answer: Yes,
				What:   "claims expire by the time since boot (Linux, macOS)",
				Tests:  []Test{"store/sqlite/fault_test.go:TestStore_time_of_day"},
			},
		},
		Redis:      later("redis"),
		Replicated: later("replicated"),
		Redlock:    later("redlock"),
		Postgres:   later("postgres"),
		MariaDB:    later("mariadb"),
		Advisory:   later("advisory"),
		Etcd:       n(etcdClock),
		Remote:     n("as on the server's store"),
	},
}

// asleep are the tests of the holder's clock. They hold for all stores.
var asleep = []Test{
	"internal/keeper/clock_test.go:TestHold_suspended_sees_the_loss_in_its_first_look",
	"internal/keeper/clock_test.go:TestKeeper_notices_a_suspension_by_itself",
}

// suspended returns a cell about the holder's host, for a store on the same host.
func suspended(what string) []Claim { return []Claim{{Yes, "", what, asleep}} }

// paused returns a cell about the holder's host, for a store on another host. If all clocks of the
// holder's host are paused, the server's clock seems to jump forward.
func paused(counterexample Test) []Claim {
	return []Claim{
		{Yes, "if its operating system suspends it", "", asleep},
		{
			Answer: No,
			When:   "if its hypervisor pauses it",
			What: "a snapshot or a live migration stops all clocks of the virtual machine. For " +
				"the holder, the clock of the server seems to jump forward. Fences still reject " +
				"its late writes",
			Tests: []Test{counterexample},
		},
	}
}

var hostAsleep = Promise{
	Name: "One holder, if the holder's host is suspended",
	Text: "On Linux, trust also runs out while the host is suspended; on other systems the " +
		"first renewal afterwards detects the loss. A virtual machine cannot detect that its " +
		"hypervisor paused it.",
	Cells: map[Store][]Claim{
		Memory: suspended("the store's own clock stops with the host, so the claim of a dead " +
			"holder expires later"),
		SQLite:     suspended("the time counts for the file as well"),
		Redis:      paused("tests/guarantees/clock_test.go:TestClock_forward/redis"),
		Replicated: paused("tests/guarantees/clock_test.go:TestClock_forward/replicated"),
		Redlock:    paused("tests/guarantees/clock_test.go:TestClock_node/bare_majority"),
		Postgres:   paused("tests/guarantees/clock_test.go:TestClock_forward/postgres"),
		MariaDB:    paused("tests/guarantees/clock_test.go:TestClock_forward/mariadb"),
		Advisory:   paused("tests/guarantees/clock_test.go:TestClock_forward/advisory"),
		Etcd: {
			{Yes, "if its operating system suspends it", "", asleep},
			{
				Answer: No,
				When:   "if its hypervisor pauses it",
				What:   "its clocks stand still while the lease ends by the clock of the leader",
				Tests:  etcdRules(`rule "expiry"`),
			},
		},
		Remote: n("as on the server's store"),
	},
}
