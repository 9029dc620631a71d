package promise

// n is a cell that a fault cannot reach, with the reason.
func n(why string) []Claim { return []Claim{{Answer: NotApplicable, When: why}} }

// asleep are the tests of the holder's clock, which is the same on all stores.
var asleep = []Test{
	"internal/keeper/clock_test.go:TestHold_suspended_sees_the_loss_in_its_first_look",
	"internal/keeper/clock_test.go:TestKeeper_notices_a_suspension_by_itself",
}

// suspended is a cell about the holder's host.
func suspended(what string) []Claim { return []Claim{{Yes, "", what, asleep}} }

// Promises are the rows of the table of promises.
var Promises = []Promise{
	{
		Name: "Fences rise",
		Text: "A write with a lower fence is refused by what compares fences, so a late holder does no harm. This is the promise to build on.",
		Cells: map[Store][]Claim{
			Memory: {{Yes, "", "", []Test{"chaos_test.go:TestChaos invariants I1 and I2"}}},
			SQLite: {{Yes, "", "over reboots and jumps of the clock too", []Test{
				"store/sqlite/process_test.go:TestProcesses_count", "store/sqlite/fault_test.go:TestStore_reboot",
				"store/sqlite/fault_test.go:TestStore_swept_fences_stay_below",
			}}},
			Redis: {
				{Yes, "", "over restarts with and without data", []Test{
					"tests/redis/restart_test.go:TestRestart_durable", "tests/redis/restart_test.go:TestRestart_forgetful", "tests/redis/history_test.go:TestHistory",
				}},
			},
			Replicated: {
				{Yes, "", "over a failover that lost the last claims", []Test{
					"tests/redis/failover_test.go:TestFailover_forgets", "tests/redis/failover_test.go:TestFailover_sentinel",
				}},
			},
			Redlock: {
				{Yes, "", "whatever the clocks of nodes and clients say, while no majority lost its memory", []Test{
					"store/quorum/fences_test.go:TestFences more than 100,000 grants; without the write-back it fails", "tests/redis/redlock_test.go:TestRedlock",
				}},
			},
			Postgres: {
				{Yes, "", "over restarts, crashes and a failover", []Test{
					"store/postgres/trouble_test.go:TestStore_restartUnderLoad", "store/postgres/trouble_test.go:TestStore_standby",
				}},
			},
			Advisory: {
				{Yes, "", "over restarts; the sequence is on disk", []Test{
					"store/pgadvisory/fault_test.go:TestStore_restart", "store/pgadvisory/fault_test.go:TestStore_failover",
				}},
			},
		},
	},
	{
		Name: "One holder, if clients crash, pause or are cut off",
		Text: "The trusted spans of two holders are disjoint, and who lost the lock is told before a rival is granted it.",
		Cells: map[Store][]Claim{
			Memory: {{Yes, "", "", []Test{"chaos_test.go:TestChaos"}}},
			SQLite: {{Yes, "", "what a killed process was told to hold stays held until its TTL is over", []Test{
				"store/sqlite/process_test.go:TestProcesses_killed", "store/sqlite/contend_test.go:TestProcesses_fifty",
			}}},
			Redis: {{Yes, "", "", []Test{
				"tests/redis/partition_test.go:TestPartition", "tests/redis/pause_test.go:TestPause_holder", "tests/redis/history_test.go:TestHistory",
			}}},
			Replicated: {{Yes, "", "as one server, until a failover", []Test{"tests/redis/failover_test.go:TestFailover_sentinel"}}},
			Redlock: {{Yes, "", "", []Test{
				"tests/redis/partition_test.go:TestPartition", "tests/redis/history_test.go:TestHistory", "store/quorum/chaos_test.go:TestChaos",
			}}},
			Postgres: {{Yes, "", "", []Test{
				"store/postgres/process_test.go:TestProcesses_paused", "store/postgres/process_test.go:TestProcesses_killed",
				"store/postgres/trouble_test.go:TestStore_partition",
			}}},
			Advisory: {{Yes, "", "the server ends a connection that is silent for a TTL", []Test{
				"store/pgadvisory/fault_test.go:TestStore_holder_stopped", "store/pgadvisory/fault_test.go:TestStore_cut_off",
			}}},
		},
	},
	{
		Name: "One holder, if the store crashes",
		Text: "The store is killed and comes back, or its machine loses power.",
		Cells: map[Store][]Claim{
			Memory: n("it is the process: everything is forgotten, and nobody is left to hold"),
			SQLite: {{Yes, "", "a reboot frees everything, and no holder outlives it", []Test{"store/sqlite/fault_test.go:TestStore_reboot"}}},
			Redis: {
				{Yes, "`appendfsync always`", "holds survive it, and time ran on", []Test{"tests/redis/restart_test.go:TestRestart_durable"}},
				{No, "no persistence", "two holders until the first renews", []Test{"tests/redis/restart_test.go:TestRestart_forgetful"}},
			},
			Replicated: {
				{No, "", "see the next row", []Test{"tests/redis/failover_test.go:TestFailover_forgets"}},
			},
			Redlock: {
				{Yes, "", "a node that forgot is not counted for the longest TTL", []Test{
					"tests/redis/redlock_test.go:TestRedlock", "tests/redis/redlock_test.go:TestRedlock_forgetful", "store/quorum/memory_test.go:TestStore_node_that_forgot",
				}},
				{No, "nodes do not tell their age", "a claim on a bare majority is granted again", []Test{"tests/redis/redlock_test.go:TestRedlock_forgetful"}},
			},
			Postgres: {
				{Yes, "", "holds survive it", []Test{"store/postgres/trouble_test.go:TestStore_restartUnderLoad", "store/postgres/trouble_test.go:TestStore_down"}},
			},
			Advisory: {{No, "", "the lock is free before the holder knows; it is told as soon as the news arrives", []Test{
				"store/pgadvisory/fault_test.go:TestStore_restart", "store/pgadvisory/fault_test.go:TestStore_backend_ended",
			}}},
		},
	},
	{
		Name: "One holder, over a failover",
		Text: "Another server takes the place of the one that granted the lock.",
		Cells: map[Store][]Claim{
			Memory: n("there is no other"), SQLite: n("there is no other"), Redis: n("there is no other"),
			Replicated: {{No, "", "a replica that had not heard of the claim grants it again. `Options.Replicas` refuses such a grant, and makes it rare", []Test{
				"tests/redis/failover_test.go:TestFailover_forgets",
			}}},
			Redlock: {{Yes, "", "nodes do not replicate each other, and a minority may be lost", []Test{"tests/redis/redlock_test.go:TestRedlock"}}},
			Postgres: {
				{Yes, "the standby has the claim", "", []Test{"store/postgres/trouble_test.go:TestStore_standby"}},
			},
			Advisory: {
				{No, "", "a new primary knows nothing of locks", []Test{"store/pgadvisory/fault_test.go:TestStore_failover"}},
			},
		},
	},
	{
		Name: "One holder, if the holder's host is suspended",
		Text: "The time asleep counts against trust, on Linux; on other systems the first renewal after it notices.",
		Cells: map[Store][]Claim{
			Memory:     suspended("the store's own clock stands still with the host, so a dead holder is succeeded later"),
			SQLite:     suspended("the time counts for the file as well"),
			Redis:      suspended(""),
			Replicated: suspended(""),
			Redlock:    suspended(""),
			Postgres:   suspended(""),
			Advisory:   suspended(""),
		},
	},
	{
		Name: "Works on with one server lost",
		Text: "Locks can be taken while a server is gone; by itself, with no client restarted.",
		Cells: map[Store][]Claim{
			Memory: n("it is the process"), SQLite: n("it is the host"),
			Redis:      {{No, "", "unavailable until it is back; then service goes on by itself", []Test{"tests/redis/pause_test.go:TestPause_server"}}},
			Replicated: {{Yes, "after the failover", "", []Test{"tests/redis/failover_test.go:TestFailover_sentinel"}}},
			Redlock: {
				{Yes, "a minority", "", []Test{"tests/redis/redlock_test.go:TestRedlock", "store/quorum/faults_test.go:TestStore_minority_in_trouble"}},
				{No, "a majority", "unavailable at once, never held", []Test{"tests/redis/redlock_test.go:TestRedlock", "store/quorum/faults_test.go:TestStore_majority_unavailable"}},
			},
			Postgres: {{Yes, "after the failover", "", []Test{"store/postgres/trouble_test.go:TestStore_standby"}}},
			Advisory: {{Yes, "after the failover", "", []Test{"store/pgadvisory/fault_test.go:TestStore_failover"}}},
		},
	},
}
