package promise

// Promises are the rows of the table of promises.
var Promises = []Promise{
	fencesRise, clients, crash, failover, clockForward, clockBack, hostAsleep, serverLost,
}

// noFloor describes stores whose fences depend on the clock alone.
const noFloor = "such a store keeps no lower bound for fences. After ten minutes without use a " +
	"name is forgotten, and its fences start again from the clock"

// n returns a cell for a fault that cannot happen, with the reason.
func n(why string) []Claim { return []Claim{{Answer: NotApplicable, When: why}} }

var fencesRise = Promise{
	Name: "Fences rise",
	Text: "A fence is a fencing token. A resource that compares fences refuses a write with a " +
		"lower one, so a late holder does no harm. Build on this promise.",
	Cells: map[Store][]Claim{
		Memory: {
			{
				Answer: Yes,
				Tests: []Test{
					"chaos_test.go:TestChaos invariants I1 and I2",
					"store/mem/clock_test.go:TestStore_time_of_day",
				},
			},
		},
		SQLite: {
			{
				Answer: Yes,
				What:   "also over reboots and clock jumps",
				Tests: []Test{
					"store/sqlite/process_test.go:TestProcesses_count",
					"store/sqlite/fault_test.go:TestStore_reboot",
					"store/sqlite/fault_test.go:TestStore_swept_fences_stay_below",
				},
			},
		},
		Redis: {
			{
				Answer: Yes,
				What:   "over restarts, with and without data, and over clock jumps",
				Tests: []Test{
					"tests/guarantees/order_test.go:TestOrder/redis,_data_kept 8 restarts; 100 in long runs",
					"tests/guarantees/order_test.go:TestOrder/redis,_data_lost 8 restarts; 100 in long runs",
					"tests/guarantees/clock_test.go:TestClock_back/redis",
					"tests/guarantees/clock_test.go:TestClock_corrected/redis",
					"tests/guarantees/removed_test.go:TestRemoved/redis,_restarted_without_data",
					"tests/guarantees/history_test.go:TestHistory/redis",
				},
			},
			{
				Answer: No,
				When:   "if the user may only access its own names and the clock is set back",
				What:   noFloor,
				Tests: []Test{
					"tests/guarantees/clock_test.go:TestClock_corrected_noFloor/redis,_own_names",
				},
			},
			{
				Answer: No,
				When:   "if the data is lost and the clock is set back",
				What:   "the last fence is stored nowhere else",
				Tests: []Test{
					"tests/guarantees/failover_test.go:TestFailover_behind/redis_without_persistence",
				},
			},
		},
		Replicated: {
			{
				Answer: Yes,
				What:   "over failovers that lose the last claims",
				Tests: []Test{
					"tests/guarantees/order_test.go:TestOrder/replicated,_failovers 8 failovers; 100 in long runs",
					"tests/guarantees/failover_test.go:TestFailover_forgets/replicated",
					"tests/guarantees/sentinel_test.go:TestFailover_sentinel",
					"tests/guarantees/clock_test.go:TestClock_corrected/replicated",
				},
			},
			{
				Answer: No,
				When:   "on a cluster, if the clock is set back",
				What:   noFloor,
				Tests: []Test{
					"tests/guarantees/clock_test.go:TestClock_corrected_noFloor/replicated,_cluster",
				},
			},
			{
				Answer: No,
				When:   "if the new primary's clock is behind",
				What:   "the new primary does not know the last grant, and issues old fences again",
				Tests:  []Test{"tests/guarantees/failover_test.go:TestFailover_behind/replicated"},
			},
		},
		Redlock: {
			{
				Answer: Yes,
				What:   "even if the clocks of nodes and clients are wrong",
				Tests: []Test{
					"store/quorum/fences_test.go:TestFences more than 100,000 grants; without " +
						"the write-back the test fails",
					"tests/guarantees/order_test.go:TestOrder/redlock 8 restarts; 100 in long runs",
					"tests/guarantees/redlock_test.go:TestRedlock",
					"tests/guarantees/clock_test.go:TestClock_corrected/redlock",
				},
			},
			{
				Answer: No,
				When:   "if a majority loses its data",
				What:   "then the clocks decide, including those of clients",
				Tests:  []Test{"store/quorum/memory_test.go:TestStore_majority_that_forgot"},
			},
		},
		Postgres: {
			{
				Answer: Yes,
				What:   "over restarts, crashes and failovers",
				Tests: []Test{
					"tests/guarantees/order_test.go:TestOrder/postgres 8 restarts; 100 in long runs",
					"tests/guarantees/order_test.go:TestOrder/postgres,_failovers 2 failovers; 10 in long runs",
					"tests/guarantees/clock_test.go:TestClock_back/postgres",
					"tests/guarantees/clock_test.go:TestClock_corrected/postgres",
					"store/postgres/trouble_test.go:TestStore_restartUnderLoad",
				},
			},
			{
				Answer: No,
				When:   "if the new primary's clock is behind",
				What:   "the new primary does not know the last grant, and issues old fences again",
				Tests:  []Test{"tests/guarantees/failover_test.go:TestFailover_behind/postgres"},
			},
		},
		Advisory: {
			{
				Answer: Yes,
				What:   "over restarts: the sequence is on the disk",
				Tests: []Test{
					"tests/guarantees/order_test.go:TestOrder/advisory 8 restarts; 100 in long runs",
					"store/pgadvisory/fault_test.go:TestStore_restart",
					"store/pgadvisory/fault_test.go:TestStore_failover the standby has all data",
				},
			},
			{
				Answer: No,
				When:   "over a failover to a standby that is behind",
				What:   "the standby issues old fences again",
				Tests:  []Test{"tests/guarantees/failover_test.go:TestFailover_advisory"},
			},
		},
	},
}

var clients = Promise{
	Name: "One holder, if clients crash, pause or are cut off",
	Text: "Two holders are never trusted at the same time. A holder that loses the lock is " +
		"notified before another process gets it.",
	Cells: map[Store][]Claim{
		Memory: {{Answer: Yes, Tests: []Test{"chaos_test.go:TestChaos"}}},
		SQLite: {
			{
				Answer: Yes,
				What:   "locks granted to a killed process stay held until their TTL expires",
				Tests: []Test{
					"store/sqlite/process_test.go:TestProcesses_killed",
					"store/sqlite/contend_test.go:TestProcesses_fifty",
				},
			},
		},
		Redis: {
			{
				Answer: Yes,
				Tests: []Test{
					"tests/guarantees/link_test.go:TestCutOff/redis",
					"tests/guarantees/pause_test.go:TestPause_holder/redis",
					"tests/guarantees/history_test.go:TestHistory/redis",
				},
			},
		},
		Replicated: {
			{
				Answer: Yes,
				What:   "only the primary answers",
				Tests: []Test{
					"tests/guarantees/link_test.go:TestCutOff/replicated",
					"tests/guarantees/herd_test.go:TestHerd/replicated",
				},
			},
		},
		Redlock: {
			{
				Answer: Yes,
				Tests: []Test{
					"tests/guarantees/link_test.go:TestCutOff/redlock",
					"tests/guarantees/history_test.go:TestHistory/redlock",
					"store/quorum/chaos_test.go:TestChaos",
				},
			},
		},
		Postgres: {
			{
				Answer: Yes,
				Tests: []Test{
					"tests/guarantees/link_test.go:TestCutOff/postgres",
					"store/postgres/process_test.go:TestProcesses_paused",
					"store/postgres/process_test.go:TestProcesses_killed",
				},
			},
		},
		Advisory: {
			{
				Answer: Yes,
				When:   "while no device in between closes the connection",
				What:   "the server closes a connection that is silent for a TTL, and no earlier",
				Tests: []Test{
					"tests/guarantees/link_test.go:TestCutOff/advisory",
					"store/pgadvisory/fault_test.go:TestStore_holder_stopped",
					"store/pgadvisory/fault_test.go:TestStore_cut_off",
				},
			},
			{
				Answer: No,
				When:   "if a device in between closes the connection",
				What: "the lock is free at once. A holder that does not see the close trusts " +
					"its lease until a renewal fails or the trust ends",
				Tests: []Test{"tests/guarantees/link_test.go:TestCutOff_ended/advisory"},
			},
		},
	},
}

var crash = Promise{
	Name: "One holder, if the store crashes",
	Text: "The store is killed and restarted, or its machine loses power.",
	Cells: map[Store][]Claim{
		Memory: n("the store lives in the process: holders end together with it"),
		SQLite: {
			{
				Answer: Yes,
				What:   "a reboot frees all locks, and no holder survives a reboot",
				Tests: []Test{
					"store/sqlite/fault_test.go:TestStore_reboot",
					"store/sqlite/process_test.go:TestProcesses_killed",
				},
			},
		},
		Redis: {
			{
				Answer: Yes,
				When:   "with `appendfsync always`",
				What:   "held locks survive, and their TTL continues to run",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/redis,_always the file is cut to its " +
						"synced part",
					"tests/guarantees/restart_test.go:TestRestart_durable",
				},
			},
			{
				Answer: No,
				When:   "with `everysec` after a power loss",
				What:   "the last second is lost",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/redis,_everysec the end of the file " +
						"is cut off; the power stays on",
				},
			},
			{
				Answer: No,
				When:   "without persistence",
				What:   "two holders, until the first one renews",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/redis,_without_persistence",
					"tests/guarantees/removed_test.go:TestRemoved/redis,_restarted_without_data",
				},
			},
		},
		Replicated: {
			{
				Answer: Yes,
				When:   "with `appendfsync always`",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/replicated,_always the file is cut " +
						"to its synced part",
				},
			},
			{
				Answer: No,
				When:   "without persistence",
				What:   "a primary that restarts empty also empties its replicas",
				Tests:  []Test{"tests/guarantees/restart_test.go:TestRestart/replicated,_without_persistence"},
			},
		},
		Redlock: {
			{
				Answer: Yes,
				What:   "a restarted node, with or without its data, is not counted for `LongestTTL`",
				Tests: []Test{
					"tests/guarantees/redlock_test.go:TestRedlock",
					"tests/guarantees/redlock_test.go:TestRedlock_forgetful",
					"store/quorum/memory_test.go:TestStore_node_that_forgot",
				},
			},
			{
				Answer: No,
				When:   "if nodes do not report their age",
				What:   "a lock held on a bare majority is granted again",
				Tests:  []Test{"tests/guarantees/redlock_test.go:TestRedlock_forgetful"},
			},
		},
		Postgres: {
			{
				Answer: Yes,
				What:   "held locks survive",
				Tests: []Test{
					"store/postgres/trouble_test.go:TestStore_restartUnderLoad",
					"store/postgres/trouble_test.go:TestStore_down",
				},
			},
			{
				Answer: No,
				When:   "with `synchronous_commit` off",
				What:   "the server answers before the data is on its disk",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/postgres,_synchronous_commit_off",
				},
			},
		},
		Advisory: {
			{
				Answer: No,
				What: "the lock is free before the holder is notified. The holder is notified " +
					"as soon as its client sees the closed connection",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart_advisory",
					"store/pgadvisory/fault_test.go:TestStore_restart",
					"store/pgadvisory/fault_test.go:TestStore_backend_ended",
				},
			},
		},
	},
}

var failover = Promise{
	Name: "One holder, over a failover",
	Text: "Another server takes over from the one that granted the lock.",
	Cells: map[Store][]Claim{
		Memory: n("there is only one server"),
		SQLite: n("there is only one server"),
		Redis:  n("there is only one server"),
		Replicated: {
			{
				Answer: No,
				What: "a replica that has not received the claim grants the lock again. " +
					"`Options.Replicas` makes this rare: a grant that too few replicas have is " +
					"refused",
				Tests: []Test{
					"tests/guarantees/failover_test.go:TestFailover_forgets/replicated",
					"tests/guarantees/failover_test.go:TestFailover_acknowledged/replicated",
					"tests/guarantees/failover_test.go:TestFailover_split/replicated",
					"tests/guarantees/failover_test.go:TestFailover_guarded",
				},
			},
		},
		Redlock: {
			{
				Answer: Yes,
				What:   "nodes do not replicate each other, and a minority may be lost",
				Tests:  []Test{"tests/guarantees/redlock_test.go:TestRedlock"},
			},
		},
		Postgres: {
			{
				Answer: Yes,
				When:   "to a synchronous standby",
				What: "a grant is answered only when the standby has it. Leases are renewed at " +
					"the new primary",
				Tests: []Test{
					"tests/guarantees/failover_test.go:TestFailover_acknowledged/postgres",
					"store/postgres/trouble_test.go:TestStore_standby",
				},
			},
			{
				Answer: No,
				When:   "to an asynchronous standby",
				What:   "a standby that has not received the claim grants the lock again",
				Tests:  []Test{"tests/guarantees/failover_test.go:TestFailover_forgets/postgres"},
			},
			{
				Answer: No,
				When:   "if an operator cancels a commit",
				What:   "PostgreSQL reports the commit as done although the standby does not have it",
				Tests:  []Test{"tests/guarantees/failover_test.go:TestFailover_cancelled"},
			},
		},
		Advisory: {
			{
				Answer: No,
				What: "a new primary knows no locks, and a holder that is cut off still trusts " +
					"its lease",
				Tests: []Test{"tests/guarantees/failover_test.go:TestFailover_advisory"},
			},
		},
	},
}

var clockForward = Promise{
	Name: "One holder, if the server's clock is set forward",
	Text: "The clock jumps by more than the remaining TTL of a claim. Redis and PostgreSQL " +
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
		Advisory: {
			{
				Answer: No,
				What: "the server may regard the connection as idle for too long, and close it. " +
					"The holder is notified as soon as its client sees the closed connection",
				Tests: []Test{"tests/guarantees/clock_test.go:TestClock_forward/advisory"},
			},
		},
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
		Advisory:   later("advisory"),
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
		Advisory:   paused("tests/guarantees/clock_test.go:TestClock_forward/advisory"),
	},
}

var serverLost = Promise{
	Name: "Locks can be acquired with one server lost",
	Text: "Automatically, without a restart of any client.",
	Cells: map[Store][]Claim{
		Memory: n("the store lives in the process"),
		SQLite: n("the store lives on one host"),
		Redis: {
			{
				Answer: No,
				What:   "unavailable until the server is back; then service continues by itself",
				Tests:  []Test{"tests/guarantees/pause_test.go:TestPause_server"},
			},
		},
		Replicated: {
			{
				Answer: Yes,
				When:   "after the failover",
				Tests:  []Test{"tests/guarantees/sentinel_test.go:TestFailover_sentinel"},
			},
		},
		Redlock: {
			{
				Answer: Yes,
				When:   "if a minority of nodes is lost",
				Tests: []Test{
					"tests/guarantees/redlock_test.go:TestRedlock",
					"store/quorum/faults_test.go:TestStore_minority_in_trouble",
				},
			},
			{
				Answer: No,
				When:   "if a majority of nodes is lost",
				What:   `calls return "unavailable" at once, never "held"`,
				Tests: []Test{
					"tests/guarantees/redlock_test.go:TestRedlock",
					"store/quorum/faults_test.go:TestStore_majority_unavailable",
				},
			},
		},
		Postgres: {
			{
				Answer: Yes,
				When:   "after the failover",
				What:   "a URL may name several hosts",
				Tests:  []Test{"store/postgres/trouble_test.go:TestStore_standby"},
			},
		},
		Advisory: {
			{
				Answer: Yes,
				When:   "after the failover",
				What:   "a URL may name several hosts",
				Tests:  []Test{"store/pgadvisory/fault_test.go:TestStore_failover"},
			},
		},
	},
}
