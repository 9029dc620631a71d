package promise

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
		MariaDB: {
			{
				Answer: Yes,
				What:   "held locks survive",
				Tests:  []Test{"store/mysql/trouble_test.go:TestStore_server"},
			},
			{
				Answer: No,
				When:   "with `innodb_flush_log_at_trx_commit` 0 or 2, after a power loss",
				What:   "the server answers before the data is on its disk",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/mariadb,_log_not_flushed",
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
		Etcd: {
			{
				Answer: Yes,
				What:   "a member writes a grant to its disk before it counts",
				Tests:  append([]Test{"store/etcd/trouble_test.go:TestStore_restart"}, etcdCluster...),
			},
		},
		Remote: {
			{
				Answer: Yes,
				What:   "the server keeps no claims. A crash of its store is that of the store's column",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/remote",
					"tests/guarantees/lockserver_test.go:TestLockServer_killed 1,000 locks are held",
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
		MariaDB: {
			{
				Answer: No,
				What:   "a replica that has not received the claim grants the lock again",
				Tests:  []Test{"store/mysql/failover_test.go:TestStore_failover"},
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
		Etcd: {
			{
				Answer: Yes,
				What:   "a new leader has every grant, and gives every lease its whole TTL again",
				Tests:  etcdCluster,
			},
		},
		Remote: n("as on the server's store"),
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
		MariaDB: {
			{
				Answer: Yes,
				When:   "after the failover",
				What:   "the address of the URL must lead to the new primary",
				Tests:  []Test{"store/mysql/failover_test.go:TestStore_failover"},
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
		Etcd: {
			{Yes, "if a minority of the members is lost", "", etcdCluster},
			{
				Answer: No,
				When:   "if a majority of the members is lost",
				Tests:  []Test{"store/etcd/cluster_test.go:TestCluster_minority"},
			},
		},
		Remote: {
			{
				Answer: Yes,
				When:   "with another server on the same store",
				What:   "a URL may name several servers",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/remote,_one_of_two",
					"store/remote/servers_test.go:TestStore_next_server",
				},
			},
		},
	},
}
