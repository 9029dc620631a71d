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
		MariaDB: {
			{
				Answer: Yes,
				What:   "over restarts and crashes",
				Tests: []Test{
					"tests/guarantees/order_test.go:TestOrder/mariadb 8 restarts; 100 in long runs",
					"tests/guarantees/clock_test.go:TestClock_back/mariadb",
					"tests/guarantees/clock_test.go:TestClock_corrected/mariadb",
					"store/mysql/sweep_test.go:TestSweep",
				},
			},
			{
				Answer: No,
				When:   "if the new primary's clock is behind",
				What:   "the new primary does not know the last grant, and issues old fences again",
				Tests:  []Test{"store/mysql/failover_test.go:TestStore_failover_behind"},
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
		Etcd: {
			{
				Answer: Yes,
				What:   "a fence is 128 times the revision of the grant",
				Tests:  append(etcdRules(`rule "fence"`), append(etcdHistory, etcdCluster...)...),
			},
			{
				Answer: No,
				When:   "if the cluster is restored from a backup or replaced by an empty one",
				What:   "revisions start again from a lower number",
				Tests:  []Test{"store/etcd/trouble_test.go:TestStore_replaced"},
			},
		},
		Remote: {
			{
				Answer: Yes,
				What:   "they are those of the server's store, also over kills of the server",
				Tests: []Test{
					"tests/guarantees/order_test.go:TestOrder/remote 8 kills; 100 in long runs",
					"tests/guarantees/history_test.go:TestHistory/remote",
					"store/remote/remote_test.go:TestStore",
				},
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
		MariaDB: {
			{
				Answer: Yes,
				Tests: []Test{
					"tests/guarantees/link_test.go:TestCutOff/mariadb",
					"tests/guarantees/pause_test.go:TestPause_holder/mariadb",
					"tests/guarantees/history_test.go:TestHistory/mariadb",
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
		Etcd: {
			{
				Answer: Yes,
				Tests:  append(etcdHistory, "store/etcd/trouble_test.go:TestStore_cut_off"),
			},
		},
		Remote: {
			{
				Answer: Yes,
				What:   "trust counts from before the request to the server",
				Tests: []Test{
					"tests/guarantees/link_test.go:TestCutOff/remote",
					"tests/guarantees/pause_test.go:TestPause_holder/remote",
					"tests/guarantees/history_test.go:TestHistory/remote",
				},
			},
		},
	},
}
