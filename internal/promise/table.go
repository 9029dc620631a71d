package promise

// Promises are the rows of the table of promises.
var Promises = []Promise{fencesRise, clients, crash, failover, clockForward, clockBack, hostAsleep, serverLost}

// n is a cell that a fault cannot reach, with the reason.
func n(why string) []Claim { return []Claim{{Answer: NotApplicable, When: why}} }

var fencesRise = Promise{
	Name: "Fences rise",
	Text: "A write with a lower fence is refused by what compares fences, so a late holder does no harm. This is the promise to build on.",
	Cells: map[Store][]Claim{
		Memory: {{Yes, "", "", []Test{"chaos_test.go:TestChaos invariants I1 and I2", "store/mem/clock_test.go:TestStore_time_of_day"}}},
		SQLite: {{Yes, "", "over reboots and jumps of the clock too", []Test{
			"store/sqlite/process_test.go:TestProcesses_count", "store/sqlite/fault_test.go:TestStore_reboot",
			"store/sqlite/fault_test.go:TestStore_swept_fences_stay_below",
		}}},
		Redis: {
			{Yes, "", "over restarts, with and without data, and jumps of the clock", []Test{
				"tests/promise/order_test.go:TestOrder/redis,_data_kept 20 restarts", "tests/promise/order_test.go:TestOrder/redis,_data_lost 20 restarts", "tests/promise/clock_test.go:TestClock_back/redis", "tests/promise/clock_test.go:TestClock_corrected/redis", "tests/redis/restart_test.go:TestRestart_forgetful",
				"tests/redis/history_test.go:TestHistory/redis",
			}},
			{No, "for a user who may only touch its own names, if the clock is set back", "there is no floor: a name that rested for ten minutes is forgotten, and begins again by the clock", []Test{"tests/promise/clock_test.go:TestClock_corrected_noFloor/redis,_own_names"}},
			{No, "if the data is lost and the clock set back", "nothing is left to know the last fence by", []Test{"tests/promise/failover_test.go:TestFailover_behind/redis_without_persistence"}},
		},
		Replicated: {
			{Yes, "", "over failovers that lost the last claims", []Test{
				"tests/promise/order_test.go:TestOrder/replicated,_failovers 20 of them", "tests/redis/failover_test.go:TestFailover_forgets", "tests/redis/failover_test.go:TestFailover_sentinel", "tests/promise/clock_test.go:TestClock_corrected/replicated",
			}},
			{No, "on a cluster, if the clock is set back", "there is no floor: a name that rested for ten minutes is forgotten, and begins again by the clock", []Test{"tests/promise/clock_test.go:TestClock_corrected_noFloor/replicated,_cluster"}},
			{No, "if the new primary's clock is behind", "it has not heard of the last grant, and gives fences again", []Test{"tests/promise/failover_test.go:TestFailover_behind/replicated"}},
		},
		Redlock: {
			{Yes, "", "whatever the clocks of nodes and clients say", []Test{
				"store/quorum/fences_test.go:TestFences more than 100,000 grants; without the write-back it fails", "tests/promise/order_test.go:TestOrder/redlock 20 restarts", "tests/redis/redlock_test.go:TestRedlock", "tests/promise/clock_test.go:TestClock_corrected/redlock",
			}},
			{No, "if a majority forgot", "then the clocks decide, those of clients too", []Test{"store/quorum/memory_test.go:TestStore_majority_that_forgot"}},
		},
		Postgres: {
			{Yes, "", "over restarts, crashes and failovers", []Test{
				"tests/promise/order_test.go:TestOrder/postgres 20 restarts", "tests/promise/order_test.go:TestOrder/postgres,_failovers 2 of them", "tests/promise/clock_test.go:TestClock_back/postgres", "tests/promise/clock_test.go:TestClock_corrected/postgres", "store/postgres/trouble_test.go:TestStore_restartUnderLoad",
			}},
			{No, "if the new primary's clock is behind", "it has not heard of the last grant, and gives fences again", []Test{"tests/promise/failover_test.go:TestFailover_behind/postgres"}},
		},
		Advisory: {
			{Yes, "", "over restarts: the sequence is on disk", []Test{
				"tests/promise/order_test.go:TestOrder/advisory 20 restarts", "store/pgadvisory/fault_test.go:TestStore_restart", "store/pgadvisory/fault_test.go:TestStore_failover the standby has it all",
			}},
			{No, "over a failover to a standby that is behind", "it gives fences again", []Test{"tests/promise/failover_test.go:TestFailover_advisory"}},
		},
	},
}

var clients = Promise{
	Name: "One holder, if clients crash, pause or are cut off",
	Text: "The trusted spans of two holders are disjoint, and who lost the lock is told before a rival is granted it.",
	Cells: map[Store][]Claim{
		Memory: {{Yes, "", "", []Test{"chaos_test.go:TestChaos"}}},
		SQLite: {{Yes, "", "what a killed process was told to hold stays held until its TTL is over", []Test{
			"store/sqlite/process_test.go:TestProcesses_killed", "store/sqlite/contend_test.go:TestProcesses_fifty",
		}}},
		Redis: {{Yes, "", "", []Test{
			"tests/redis/partition_test.go:TestPartition/redis", "tests/redis/pause_test.go:TestPause_holder/redis", "tests/redis/history_test.go:TestHistory/redis",
		}}},
		Replicated: {{Yes, "", "the primary alone answers", []Test{"tests/promise/link_test.go:TestCutOff/replicated", "tests/promise/link_test.go:TestHerd/replicated"}}},
		Redlock: {{Yes, "", "", []Test{
			"tests/redis/partition_test.go:TestPartition/redlock", "tests/redis/history_test.go:TestHistory/redlock", "store/quorum/chaos_test.go:TestChaos",
		}}},
		Postgres: {{Yes, "", "", []Test{
			"tests/promise/link_test.go:TestCutOff/postgres", "store/postgres/process_test.go:TestProcesses_paused", "store/postgres/process_test.go:TestProcesses_killed",
		}}},
		Advisory: {
			{Yes, "while nothing else ends the connection", "the server ends one that is silent for a TTL, and no earlier", []Test{
				"tests/promise/link_test.go:TestCutOff/advisory", "store/pgadvisory/fault_test.go:TestStore_holder_stopped", "store/pgadvisory/fault_test.go:TestStore_cut_off",
			}},
			{No, "if something on the way ends it", "the lock is free at once, and a holder that does not hear of it trusts on, until a renewal fails or its trust ends", []Test{
				"tests/promise/link_test.go:TestCutOff_ended/advisory",
			}},
		},
	},
}

var crash = Promise{
	Name: "One holder, if the store crashes",
	Text: "The store is killed and comes back, or its machine loses power.",
	Cells: map[Store][]Claim{
		Memory: n("it is the process: everything is forgotten, and nobody is left to hold"),
		SQLite: {{Yes, "", "a reboot frees everything, and no holder outlives it", []Test{"store/sqlite/fault_test.go:TestStore_reboot", "store/sqlite/process_test.go:TestProcesses_killed"}}},
		Redis: {
			{Yes, "with `appendfsync always`", "holds survive it, and time ran on", []Test{
				"tests/promise/power_test.go:TestPower/redis,_always the file is cut to what was synced", "tests/redis/restart_test.go:TestRestart_durable",
			}},
			{No, "with `everysec` and a power loss", "the last second is forgotten", []Test{"tests/promise/power_test.go:TestPower/redis,_everysec the end of the file is cut off, and no power"}},
			{No, "without persistence", "two holders until the first renews", []Test{"tests/redis/restart_test.go:TestRestart_forgetful"}},
		},
		Replicated: {
			{Yes, "with `appendfsync always`", "", []Test{
				"tests/promise/power_test.go:TestPower/replicated,_always the file is cut to what was synced", "tests/promise/failover_test.go:TestFailover_restart/with_data",
			}},
			{No, "without persistence", "a primary that comes back empty empties its replicas", []Test{"tests/promise/failover_test.go:TestFailover_restart/without"}},
		},
		Redlock: {
			{Yes, "", "a node that restarted, with or without its data, is not counted for the longest TTL", []Test{
				"tests/redis/redlock_test.go:TestRedlock", "tests/redis/redlock_test.go:TestRedlock_forgetful", "store/quorum/memory_test.go:TestStore_node_that_forgot",
			}},
			{No, "if nodes do not tell their age", "a claim on a bare majority is granted again", []Test{"tests/redis/redlock_test.go:TestRedlock_forgetful"}},
		},
		Postgres: {
			{Yes, "", "holds survive it", []Test{"store/postgres/trouble_test.go:TestStore_restartUnderLoad", "store/postgres/trouble_test.go:TestStore_down"}},
			{No, "with `synchronous_commit` off", "the server answers before its disk has it", []Test{"tests/promise/power_test.go:TestPower/postgres,_synchronous_commit_off"}},
		},
		Advisory: {{No, "", "the lock is free before the holder knows; it is told as soon as the news arrives", []Test{
			"tests/promise/power_test.go:TestPower_advisory", "store/pgadvisory/fault_test.go:TestStore_restart", "store/pgadvisory/fault_test.go:TestStore_backend_ended",
		}}},
	},
}

var failover = Promise{
	Name: "One holder, over a failover",
	Text: "Another server takes the place of the one that granted the lock.",
	Cells: map[Store][]Claim{
		Memory: n("there is no other"), SQLite: n("there is no other"), Redis: n("there is no other"),
		Replicated: {{No, "", "a replica that had not heard of the claim grants it again. `Options.Replicas` refuses a grant that too few have, and makes it rare", []Test{
			"tests/redis/failover_test.go:TestFailover_forgets", "tests/promise/failover_test.go:TestFailover_split/replicated", "tests/promise/failover_test.go:TestFailover_split/replicated,_guarded",
		}}},
		Redlock: {{Yes, "", "nodes do not replicate each other, and a minority may be lost", []Test{"tests/redis/redlock_test.go:TestRedlock"}}},
		Postgres: {
			{Yes, "to a synchronous standby", "a grant that the standby has not is not answered, and what was granted is renewed at the new primary", []Test{"tests/promise/failover_test.go:TestFailover_postgres/sync", "store/postgres/trouble_test.go:TestStore_standby"}},
			{No, "to an asynchronous one", "one that had not heard of the claim grants it again", []Test{"tests/promise/failover_test.go:TestFailover_postgres/async"}},
			{No, "if a commit is cancelled by hand", "PostgreSQL answers it as done though the standby has nothing of it", []Test{"tests/promise/failover_test.go:TestFailover_cancelled"}},
		},
		Advisory: {{No, "", "a new primary knows nothing of locks; a holder that is cut off trusts on", []Test{"tests/promise/failover_test.go:TestFailover_advisory"}}},
	},
}

var clockForward = Promise{
	Name: "One holder, if the server's clock is set forward",
	Text: "By more than what is left of a claim. Redis and PostgreSQL end claims by the time of day. Of a majority one node is set.",
	Cells: map[Store][]Claim{
		Memory:     {{Yes, "", "it reads the monotonic clock", []Test{"store/mem/clock_test.go:TestStore_time_of_day"}}},
		SQLite:     {{Yes, "", "claims end by the time since the boot (Linux, macOS)", []Test{"store/sqlite/fault_test.go:TestStore_time_of_day"}}},
		Redis:      {{No, "", "the claim ends early, and another is granted; fences rise", []Test{"tests/promise/clock_test.go:TestClock_forward/redis"}}},
		Replicated: {{No, "", "as one server: the primary's clock counts", []Test{"tests/promise/clock_test.go:TestClock_forward/replicated"}}},
		Redlock: {
			{Yes, "if it holds all nodes", "the next renewal takes that node again", []Test{"tests/promise/clock_test.go:TestClock_node/all_nodes", "store/quorum/memory_test.go:TestStore_node_whose_clock_jumps"}},
			{No, "with a bare majority", "two holders; their fences differ and rise", []Test{"tests/promise/clock_test.go:TestClock_node/bare_majority", "store/quorum/memory_test.go:TestStore_node_whose_clock_jumps"}},
		},
		Postgres: {{No, "", "the claim ends early, and another is granted; fences rise", []Test{"tests/promise/clock_test.go:TestClock_forward/postgres"}}},
		Advisory: {{No, "", "the server may think that the connection was idle for too long, and end it; the holder is told as soon as the news arrives", []Test{"tests/promise/clock_test.go:TestClock_forward/advisory"}}},
	},
}

// later is a cell about a clock that is set back.
func later(name string) []Claim {
	return []Claim{{Yes, "", "the claim of a dead holder lives for longer, by the jump", []Test{Test("tests/promise/clock_test.go:TestClock_back/" + name)}}}
}

var clockBack = Promise{
	Name: "One holder, if the server's clock is set back",
	Text: "Nobody is granted early. Who waits for a dead holder may wait for longer.",
	Cells: map[Store][]Claim{
		Memory: {{Yes, "", "it reads the monotonic clock", []Test{"store/mem/clock_test.go:TestStore_time_of_day"}}},
		SQLite: {{Yes, "", "claims end by the time since the boot (Linux, macOS)", []Test{"store/sqlite/fault_test.go:TestStore_time_of_day"}}},
		Redis:  later("redis"), Replicated: later("replicated"), Redlock: later("redlock"), Postgres: later("postgres"), Advisory: later("advisory"),
	},
}

// asleep are the tests of the holder's clock, which is the same on all stores.
var asleep = []Test{
	"internal/keeper/clock_test.go:TestHold_suspended_sees_the_loss_in_its_first_look",
	"internal/keeper/clock_test.go:TestKeeper_notices_a_suspension_by_itself",
}

// suspended is a cell about the holder's host, where the store is on the same host.
func suspended(what string) []Claim { return []Claim{{Yes, "", what, asleep}} }

// paused is a cell about the holder's host, where the store is elsewhere. To the holder a pause of
// all its clocks looks as if the server's clock were set forward.
func paused(counterexample Test) []Claim {
	return []Claim{
		{Yes, "by its own system", "", asleep},
		{No, "if its hypervisor pauses it", "a snapshot or a live migration moves no clock of the host: to the holder it is as if the clock of the server were set forward. The fence refuses its work", []Test{counterexample}},
	}
}

var hostAsleep = Promise{
	Name: "One holder, if the holder's host is suspended",
	Text: "The time asleep counts against trust, on Linux; on other systems the first renewal after it notices. A virtual machine that its hypervisor pauses cannot notice it.",
	Cells: map[Store][]Claim{
		Memory:     suspended("the store's own clock stands still with the host, so a dead holder is succeeded later"),
		SQLite:     suspended("the time counts for the file as well"),
		Redis:      paused("tests/promise/clock_test.go:TestClock_forward/redis"),
		Replicated: paused("tests/promise/clock_test.go:TestClock_forward/replicated"),
		Redlock:    paused("tests/promise/clock_test.go:TestClock_node/bare_majority"),
		Postgres:   paused("tests/promise/clock_test.go:TestClock_forward/postgres"),
		Advisory:   paused("tests/promise/clock_test.go:TestClock_forward/advisory"),
	},
}

var serverLost = Promise{
	Name: "Locks can be taken with one server lost",
	Text: "By itself, with no client restarted.",
	Cells: map[Store][]Claim{
		Memory: n("it is the process"), SQLite: n("it is the host"),
		Redis:      {{No, "", "unavailable until it is back; then service goes on by itself", []Test{"tests/redis/pause_test.go:TestPause_server"}}},
		Replicated: {{Yes, "after the failover", "", []Test{"tests/redis/failover_test.go:TestFailover_sentinel"}}},
		Redlock: {
			{Yes, "for a minority", "", []Test{"tests/redis/redlock_test.go:TestRedlock", "store/quorum/faults_test.go:TestStore_minority_in_trouble"}},
			{No, "for a majority", "unavailable at once, never held", []Test{"tests/redis/redlock_test.go:TestRedlock", "store/quorum/faults_test.go:TestStore_majority_unavailable"}},
		},
		Postgres: {{Yes, "after the failover", "a URL may name several hosts", []Test{"store/postgres/trouble_test.go:TestStore_standby"}}},
		Advisory: {{Yes, "after the failover", "a URL may name several hosts", []Test{"store/pgadvisory/fault_test.go:TestStore_failover"}}},
	},
}
