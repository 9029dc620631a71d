package promise

func redis() Section {
	rules := func(words string) []Test {
		return []Test{Test("store/redis/rueidisstore/rueidisstore_test.go:TestStore " + words)}
	}
	return Section{
		Store: Redis, Title: "Redis, one server",
		Intro: "`store/redis`: claims are Redis keys that expire by the server's time of day. " +
			"Tested on real servers, except where a row says otherwise:",
		Rows: []Row{
			{
				Under: []string{"F01"},
				Fault: "crash of the holder",
				Holds: "free when the TTL expires",
				Tests: []Test{
					"tests/kinds/election_test.go:TestElection_kill/redis",
					"tests/kinds/semaphore_test.go:TestSemaphore_kill/redis",
				},
			},
			{
				Under: []string{"F02"},
				Fault: "pause of the holder",
				Holds: "its first check of the lease fails. No fenced update is lost",
				Tests: []Test{"tests/guarantees/pause_test.go:TestPause_holder/redis"},
				Measured: "10 of 10 checks failed; fenced updates lost: 0; plain updates lost: " +
					"10 of 20",
			},
			{
				Under: []string{"F03"},
				Fault: "suspended host",
				Holds: "the holder sees the loss at its first check",
				Tests: asleep,
			},
			{
				Under: []string{"F04", "F05", "F06"},
				Fault: "holder cut off: both directions, only replies, only requests, delayed, " +
					"refused",
				Holds:    "the holder is notified before another process gets the lock",
				Tests:    []Test{"tests/guarantees/link_test.go:TestCutOff/redis 10 runs"},
				Measured: "TTL 1 s: trust ends 102 ms or more before the next grant",
			},
			{
				Under: []string{"F07"},
				Fault: "waiter cut off",
				Holds: "the waiter retries when the link is back",
				Tests: []Test{
					"tests/guarantees/link_test.go:TestCutOff_waiter/redis",
					"store/redis/trouble_test.go:TestStore_watchReconnects",
				},
			},
			{
				Under: []string{"F18"},
				Fault: "the server is stopped for longer than the TTL",
				Holds: "the holder is notified in time. Service continues by itself",
				Tests: []Test{
					"tests/guarantees/pause_test.go:TestPause_server",
					"store/redis/trouble_test.go:TestStore_silentServer",
				},
				Measured: "trust ended at most 0.89 s after the stop (TTL 1 s); next grant at " +
					"most 0.8 s after the server continued",
			},
			{
				Under: []string{"F18"},
				Fault: "a request that takes longer than the TTL",
				Holds: "no call returns a lease whose trust has ended",
				Tests: []Test{"tests/guarantees/link_test.go:TestSlow/redis"},
			},
			{
				Under:    []string{"F08"},
				Fault:    "`kill -9` with `appendfsync always`",
				Holds:    "held locks and the queue survive. No client needs a restart",
				Tests:    []Test{"tests/guarantees/restart_test.go:TestRestart_durable"},
				Measured: "first lock 3 to 60 ms after the server is back",
			},
			{
				Under: []string{"F09"},
				Fault: "`kill -9` without persistence",
				Holds: "**two holders**, until the first one renews. Fences rise",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/redis,_without_persistence",
					"tests/guarantees/removed_test.go:TestRemoved/redis,_restarted_without_data",
					"tests/guarantees/order_test.go:TestOrder/redis,_data_lost",
				},
			},
			{
				Under: []string{"F08"},
				Fault: "power loss with `appendfsync always`",
				Holds: "held locks survive: every answered request is on the disk",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/redis,_always the file is cut to its " +
						"synced part",
				},
			},
			{
				Under: []string{"F08"},
				Fault: "power loss with `appendfsync everysec`",
				Holds: "grants of the last second are forgotten: **two holders**. Fences rise",
				Tests: []Test{"tests/guarantees/restart_test.go:TestRestart/redis,_everysec"},
			},
			{
				Under: []string{"F15"},
				Fault: "the server's clock is set forward",
				Holds: "claims expire early: **two holders**. Fences rise",
				Tests: []Test{"tests/guarantees/clock_test.go:TestClock_forward/redis"},
			},
			{
				Under: []string{"F16"},
				Fault: "the server's clock is set back",
				Holds: "claims of dead holders expire later. A lock handed to a dead waiter " +
					"stays taken for no longer than its queue entry. Fences rise, but **not** " +
					"if the data is also lost, or if the user may only access its own names",
				Tests: []Test{
					"tests/guarantees/clock_test.go:TestClock_corrected/redis",
					"tests/guarantees/clock_test.go:TestClock_deadWaiter/redis",
					"tests/guarantees/clock_test.go:TestClock_corrected_noFloor/redis,_own_names",
					"tests/guarantees/clock_test.go:TestClock_back/redis",
					"tests/guarantees/failover_test.go:TestFailover_behind/redis_without_persistence",
				},
			},
			{
				Under: []string{"F17"},
				Fault: "a client's clock is wrong",
				Holds: wrongClockHolds,
				Tests: wrongClock,
			},
			{
				Under: []string{"F19"},
				Fault: "a reply is lost, or cut at any byte",
				Holds: "no call waits for its own claim, one fence for each grant, no " +
					"unreported lock is left behind",
				Tests: []Test{
					"tests/guarantees/cut_test.go:TestCut/redis,_rueidis 200 cuts; 1,000 in long runs",
					"tests/guarantees/cut_test.go:TestCut/redis,_go-redis 200 cuts; 1,000 in long runs",
					"store/redis/redis_test.go:TestStore_lostReply",
				},
				Measured: "0 locks left, 0 unknown locks; one release in ten had to be repeated",
			},
			{
				Under: []string{"F20", "F21", "F22"},
				Fault: "released twice, by another, or late",
				Holds: `the call returns "not held" and changes nothing`,
				Tests: rules(`rules "stale", "ended"`),
			},
			{
				Under: []string{"F23"},
				Fault: "a waiter dies in the queue",
				Holds: "the next waiter is served when the dead waiter's queue entry expires",
				Tests: rules(`rule "expired entry"`),
			},
			{
				Under: []string{"F01", "F23"},
				Fault: "hundreds of readers or waiters of one name die at the same time",
				Holds: "the next waiter is served when the last of their claims expires. The " +
					"store removes 100 at a time, without a poll in between",
				Tests: []Test{"store/redis/virtual_test.go:TestStore_virtual_manyDead"},
			},
			{
				Under:    []string{"F24"},
				Fault:    "10,000 goroutines wait for one name",
				Holds:    "all are served",
				Tests:    []Test{"tests/guarantees/herd_test.go:TestHerd_goroutines"},
				Measured: "39 to 57 ms, 83 requests in total, 5.6 KB for each waiter",
			},
			{
				Under:    []string{"F24"},
				Fault:    "20 processes with 50 waiters each, for one name",
				Holds:    "all are served, with at most 6 requests for each hand-off",
				Tests:    []Test{"tests/guarantees/herd_test.go:TestHerd_processes"},
				Measured: "51 to 706 ms, 4.0 to 4.4 requests",
			},
			{
				Under: []string{"F25"},
				Fault: "out of memory",
				Holds: `calls return "unavailable", never "held". A release works`,
				Tests: []Test{"store/redis/redis_test.go:TestStore_unavailable"},
			},
			{
				Under: []string{"F25"},
				Fault: "`maxmemory-policy` other than `noeviction`",
				Holds: "locks are evicted: **two holders**. `distlock doctor` warns about this " +
					"setting",
				Tests: []Test{"tests/guarantees/eviction_test.go:TestEviction"},
			},
			{
				Under: []string{"F35"},
				Fault: "the Redis key is deleted by hand, FLUSHALL",
				Holds: "the holder is notified at its next renewal. Another process may get the " +
					"lock before that. Fences rise",
				Tests: []Test{
					"tests/guarantees/removed_test.go:TestRemoved/redis,_the_key",
					"tests/guarantees/removed_test.go:TestRemoved/redis,_everything",
				},
			},
			{
				Under: []string{"F25", "F35"},
				Fault: "the queue or the data next to a Redis key is evicted or deleted",
				Holds: "one holder, or only readers. Waiters lose their queue entries, and " +
					"continue when the lost entries would have expired",
				Tests: []Test{
					"store/redis/heal_test.go:TestStore_virtual_heals",
					"store/redis/heal_test.go:TestStore_virtual_lostHash",
				},
				Measured: "in virtual time: no waiter waited longer than a queue entry and a TTL",
			},
			{
				Under: []string{"F26"},
				Fault: "the server cannot save, is loading, is busy with a script, requires a " +
					"password or denies a permission",
				Holds: "unavailable, nothing is changed. The store recovers by itself",
				Tests: []Test{"store/redis/refusal_test.go:TestStore_refusals"},
			},
			{
				Under: []string{"F27"},
				Fault: "read-only server",
				Holds: `calls return "unavailable", never "held"`,
				Tests: []Test{
					"store/redis/redis_test.go:TestStore_unavailable",
					"store/redis/refusal_test.go:TestStore_stale",
				},
			},
			{
				Under:    []string{"F30"},
				Fault:    "all notifications lost",
				Holds:    "waiters retry within the poll interval",
				Tests:    []Test{"tests/guarantees/link_test.go:TestDeaf/redis"},
				Measured: "0.6 to 0.9 s after the release, poll 1 s",
			},
			{
				Under: []string{"F30"},
				Fault: "a user without the right to subscribe",
				Holds: "waiters poll, and no attempt is delayed",
				Tests: []Test{"store/redis/heal_test.go:TestStore_noSubscription"},
			},
			{
				Under: []string{"F34"},
				Fault: "the server accepts no more connections",
				Holds: "calls return an error, never a grant or a refusal. Connected clients " +
					"continue",
				Tests: []Test{"store/redis/refusal_test.go:TestStore_noConnections"},
			},
			{
				Under: []string{"F34"},
				Fault: "the program's own pool is exhausted",
				Holds: "no lease is lost",
				Tests: []Test{
					"tests/guarantees/pool_test.go:TestPool_exhausted",
					"store/redis/trouble_test.go:TestStore_poolExhausted",
				},
				Measured: "20 leases with TTL 1 s, for 4 s; 2,800 other acquires refused in " +
					"this time",
			},
			{
				Under: []string{"F36"},
				Fault: "a key of another type",
				Holds: "invalid, with the name of the key. Nothing is changed",
				Tests: []Test{"store/redis/redis_test.go:TestStore_wrongType"},
			},
			{
				Under: []string{"F38"},
				Fault: "password or certificate replaced while a lock is held",
				Holds: "open connections continue, and no lease is lost. New connections with " +
					"the old password: unavailable",
				Tests: []Test{
					"tests/guarantees/rotate_test.go:TestRotate_password/redis",
					"tests/guarantees/rotate_test.go:TestRotate_certificate",
				},
			},
			{
				Fault: "the server lost its scripts",
				Holds: "the scripts are sent again",
				Tests: []Test{
					"store/redis/redis_test.go:TestStore_forgottenScripts",
					"tests/guarantees/restart_test.go:TestRestart_durable",
				},
			},
			{
				Fault:    "five clients, two bad links and a server that stops, for 20 s",
				Holds:    "0 violations",
				Tests:    []Test{"tests/guarantees/history_test.go:TestHistory/redis"},
				Measured: "508 to 940 grants, 27 and more faults during a hold",
			},
		},
		Absent: []Absence{
			{[]string{"F10", "F11", "F28"}, "there is one server (see Redis with replicas)"},
			{[]string{"F12", "F13", "F14"}, "there is one node (see Redlock)"},
			{[]string{"F29"}, "no known pooler mixes connections of Redis"},
			{[]string{"F31", "F37"}, "Redis has no revisions and no leader"},
		},
	}
}

func replicated() Section {
	return Section{
		Store: Replicated, Title: "Redis with replicas",
		Intro: "The same store on a primary whose replicas can take over: Sentinel, Cluster, a " +
			"managed Redis. Until a failover, everything in the section on one server holds. In " +
			"addition:",
		Rows: []Row{
			{
				Under: []string{"F10"},
				Fault: "failover that loses a claim",
				Holds: "**two holders**; fences rise. With `Options.Replicas` the grant is refused",
				Tests: []Test{
					"tests/guarantees/failover_test.go:TestFailover_forgets/replicated",
					"tests/guarantees/failover_test.go:TestFailover_acknowledged/replicated",
				},
			},
			{
				Under: []string{"F10"},
				Fault: "Sentinel failover under load",
				Holds: "service continues by itself, fences rise, no update is lost",
				Tests: []Test{"tests/guarantees/sentinel_test.go:TestFailover_sentinel"},
				Measured: "first grant 2.0 to 3.0 s after the primary died (Sentinel waits 0.5 " +
					"s before it acts)",
			},
			{
				Under: []string{"F10"},
				Fault: "failover to a replica whose clock is behind",
				Holds: "**a fence may be issued twice**, if the last claim was lost",
				Tests: []Test{"tests/guarantees/failover_test.go:TestFailover_behind/replicated"},
			},
			{
				Under: []string{"F11"},
				Fault: "the old primary keeps running next to the new one",
				Holds: "**two holders**; fences rise. With `min-replicas-to-write` the old " +
					"primary soon refuses writes, and its holder is notified",
				Tests: []Test{
					"tests/guarantees/failover_test.go:TestFailover_split/replicated",
					"tests/guarantees/failover_test.go:TestFailover_guarded",
				},
				Measured: "0.8 to 2.4 s with two primaries (`min-replicas-max-lag 1`)",
			},
			{
				Under: []string{"F08"},
				Fault: "the primary restarts with its data, before a failover",
				Holds: "held locks survive; with `appendfsync always` also a power loss",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/replicated,_always",
				},
			},
			{
				Under: []string{"F09"},
				Fault: "the primary restarts without data, before a failover",
				Holds: "its replicas also lose the data: **two holders**; fences rise",
				Tests: []Test{"tests/guarantees/restart_test.go:TestRestart/replicated,_without_persistence"},
			},
			{
				Under: []string{"F15", "F16"},
				Fault: "the clocks are set forward or back",
				Holds: "the same as with one server. On a cluster, the fences of a forgotten " +
					"name may **go back** with the clock",
				Tests: []Test{
					"tests/guarantees/clock_test.go:TestClock_forward/replicated",
					"tests/guarantees/clock_test.go:TestClock_back/replicated",
					"tests/guarantees/clock_test.go:TestClock_corrected/replicated",
					"tests/guarantees/clock_test.go:TestClock_deadWaiter/replicated",
					"tests/guarantees/clock_test.go:TestClock_corrected_noFloor/replicated,_cluster",
				},
			},
			{
				Under: []string{"F04", "F05", "F06", "F07"},
				Fault: "holder or waiter cut off",
				Holds: "the same as with one server",
				Tests: []Test{
					"tests/guarantees/link_test.go:TestCutOff/replicated",
					"tests/guarantees/link_test.go:TestCutOff_waiter/replicated",
				},
			},
			{
				Under: []string{"F18", "F24", "F30", "F35", "F38"},
				Fault: "slow links, many waiters, lost notifications, FLUSHALL, a new password",
				Holds: "the same as with one server",
				Tests: []Test{
					"tests/guarantees/link_test.go:TestSlow/replicated",
					"tests/guarantees/herd_test.go:TestHerd/replicated",
					"tests/guarantees/link_test.go:TestDeaf/replicated",
					"tests/guarantees/removed_test.go:TestRemoved/replicated,_everything",
					"tests/guarantees/rotate_test.go:TestRotate_password/replicated",
				},
			},
			{
				Fault: "hand-off with `Options.Replicas`",
				Holds: "the grant counts when enough replicas have it. The message is only a hint",
				Tests: []Test{"store/redis/heal_test.go:TestStore_replicas_woken"},
			},
			{
				Under: []string{"F27"},
				Fault: "a request reaches a replica",
				Holds: `the call returns "unavailable", never "held". After its promotion the ` +
					`replica works`,
				Tests: []Test{"store/redis/refusal_test.go:TestStore_stale"},
			},
			{
				Under: []string{
					"F01",
					"F02",
					"F03",
					"F17",
					"F19",
					"F20",
					"F21",
					"F22",
					"F23",
					"F25",
					"F26",
					"F34",
					"F36",
				},
				Fault: "all other faults",
				Holds: "the same as with one server: only the primary answers",
				Tests: []Test{
					"store/redis/rueidisstore/rueidisstore_test.go:TestStore",
					"store/redis/topology_test.go:TestStore_sentinel",
				},
			},
			{
				Fault: "cluster: the primary of a key dies, and its replica takes over",
				Holds: "every call reaches the new primary within 5 s of the promotion, with " +
					"both clients. Claims that the replica had not received are lost",
				Tests: []Test{"store/redis/promote_test.go:TestStore_clusterFailover"},
			},
			{
				Fault: "cluster: slots move to another node",
				Holds: "leases stay held. Waiters are notified by the new node",
				Tests: []Test{
					"store/redis/reshard_test.go:TestStore_reshard",
					"store/redis/reshard_test.go:TestStore_reshard_lease",
				},
			},
		},
		Absent: []Absence{
			{
				[]string{"F12", "F13", "F14", "F28"},
				"one primary decides at a time; failovers are covered above",
			},
			{[]string{"F29"}, "no known pooler mixes connections of Redis"},
			{[]string{"F31", "F37"}, "Redis has no revisions and no leader"},
		},
	}
}

func redlock() Section {
	return Section{
		Store: Redlock, Title: "Redlock, a majority of nodes",
		Intro: "`store/quorum` combines several stores into one (Redlock, over Redis nodes). " +
			"Tested on three and five real servers (`tests/guarantees`), and in " +
			"virtual time on nodes in memory behind bad links (`store/quorum`):",
		Rows: []Row{
			{
				Under: []string{"F01"},
				Fault: "crash of the holder",
				Holds: "free when the TTL expires",
				Tests: []Test{"tests/kinds/election_test.go:TestElection_kill/redlock"},
			},
			{
				Under: []string{"F02"},
				Fault: "pause of the holder",
				Holds: "its first check of the lease fails: the lease decides, not the store",
				Tests: []Test{"tests/guarantees/pause_test.go:TestPause_holder/redlock"},
			},
			{
				Under: []string{"F03"},
				Fault: "suspended host",
				Holds: "the holder sees the loss at its first check",
				Tests: asleep,
			},
			{
				Under: []string{"F04", "F05", "F06"},
				Fault: "holder cut off: both directions, only replies, only requests, delayed, " +
					"refused",
				Holds:    "the holder is notified before another process gets the lock",
				Tests:    []Test{"tests/guarantees/link_test.go:TestCutOff/redlock 10 runs"},
				Measured: "TTL 1 s: trust ends 102 ms or more before the next grant",
			},
			{
				Under: []string{"F07"},
				Fault: "waiter cut off",
				Holds: "the waiter retries when the link is back",
				Tests: []Test{"tests/guarantees/link_test.go:TestCutOff_waiter/redlock"},
			},
			{
				Under: []string{"F12"},
				Fault: "a minority of nodes is dead, silent or slow",
				Holds: "acquire, renew and release take no longer than usual",
				Tests: []Test{
					"store/quorum/faults_test.go:TestStore_minority_in_trouble",
					"tests/guarantees/redlock_test.go:TestRedlock",
				},
			},
			{
				Under: []string{"F12"},
				Fault: "a node comes back",
				Holds: "the node holds the claim again after the next renewal",
				Tests: []Test{"store/quorum/renew_test.go:TestStore_Renew_tops_up"},
			},
			{
				Under: []string{"F13"},
				Fault: "a majority of nodes is down",
				Holds: `calls return "unavailable" at once, or "unknown" if nodes are silent; ` +
					`never "held". Partial grants are released. The holder is notified in time`,
				Tests: []Test{
					"store/quorum/faults_test.go:TestStore_majority_unavailable",
					"store/quorum/faults_test.go:TestStore_majority_silent",
					"tests/guarantees/redlock_test.go:TestRedlock",
				},
				Measured: "refused within 22 ms; granted 4.8 to 4.9 s after the nodes are back " +
					"(`LongestTTL` 5 s)",
			},
			{
				Under: []string{"F08"},
				Fault: "nodes are killed and come back with their data",
				Holds: "minority: no effect. Majority: as above, and no grants for `LongestTTL` " +
					"if other nodes stayed up",
				Tests: []Test{"tests/guarantees/redlock_test.go:TestRedlock"},
			},
			{
				Under: []string{"F09", "F14"},
				Fault: "a node forgets its claims: all of them, or only the last ones " +
					"(snapshot, `appendfsync everysec`)",
				Holds: "one holder: the node is not counted for `LongestTTL`. A claim on a bare " +
					"majority ends, and its holder is notified",
				Tests: []Test{
					"tests/guarantees/redlock_test.go:TestRedlock_forgetful",
					"store/quorum/memory_test.go:TestStore_node_that_forgot",
				},
				Measured: "0 overlaps; if nodes do not report their age, **two holders** each time",
			},
			{
				Under: []string{"F15"},
				Fault: "a node's clock is set forward",
				Holds: "claim on all nodes: no effect. Claim on a bare majority: **two " +
					"holders**; their fences differ and rise",
				Tests: []Test{
					"tests/guarantees/clock_test.go:TestClock_node/all_nodes",
					"tests/guarantees/clock_test.go:TestClock_node/bare_majority",
					"store/quorum/memory_test.go:TestStore_node_whose_clock_jumps",
				},
			},
			{
				Under: []string{"F16"},
				Fault: "the nodes' clocks are set back",
				Holds: "claims of dead holders expire later. Fences rise. A node whose clock " +
					"now shows a time before its first use is not counted for `LongestTTL`",
				Tests: []Test{
					"tests/guarantees/clock_test.go:TestClock_back/redlock",
					"tests/guarantees/clock_test.go:TestClock_corrected/redlock",
					"tests/guarantees/clock_test.go:TestClock_born",
				},
			},
			{
				Under: []string{"F17"},
				Fault: "the clocks of nodes and clients are wrong",
				Holds: "fences follow the real order of grants, even if the clock of a client " +
					"is a week ahead",
				Tests: []Test{
					"store/quorum/fences_test.go:TestFences",
					"store/quorum/memory_test.go:TestStore_client_with_a_mad_clock",
				},
				Measured: "more than 100,000 grants; without the write-back the test fails",
			},
			{
				Under: []string{"F09", "F14"},
				Fault: "a majority forgets its claims",
				Holds: "**two holders**. Only the clocks keep fences in order",
				Tests: []Test{"store/quorum/memory_test.go:TestStore_majority_that_forgot"},
			},
			{
				Under: []string{"F19"},
				Fault: "a reply of a node is cut at any byte",
				Holds: "no call waits for its own claim, no unreported lock is left behind, " +
					"fences rise",
				Tests:    []Test{"tests/guarantees/cut_test.go:TestCut/redlock 60 cuts; 1,000 in long runs"},
				Measured: "0 locks left",
			},
			{
				Under: []string{"F18"},
				Fault: "a request that takes longer than the TTL",
				Holds: "no call returns a lease whose trust has ended",
				Tests: []Test{"tests/guarantees/link_test.go:TestSlow/redlock"},
			},
			{
				Under: []string{"F18"},
				Fault: "grants that arrive too late",
				Holds: "they are not counted, and they are released",
				Tests: []Test{
					"store/quorum/faults_test.go:TestStore_late_grants_do_not_count",
					"store/quorum/faults_test.go:TestStore_losers_are_released",
				},
			},
			{
				Under: []string{"F20", "F21", "F22"},
				Fault: "released twice, by another, or late",
				Holds: `the call returns "not held" and changes nothing`,
				Tests: []Test{`store/quorum/quorum_test.go:TestStore rules "stale", "ended"`},
			},
			{
				Under: []string{"F24"},
				Fault: "many waiters compete",
				Holds: "they make progress. A hand-off costs round trips, but no poll",
				Tests: []Test{
					"store/quorum/contend_test.go:TestStore_split_votes",
					"store/quorum/show_test.go:TestLocker_hand_over",
					"tests/guarantees/herd_test.go:TestHerd/redlock",
				},
			},
			{
				Under: []string{"F25", "F26", "F27", "F34", "F36"},
				Fault: "nodes that are out of memory, accept no writes, are read-only, contain " +
					"data of another program, or have no connection left",
				Holds: `one node of three: no effect. Two nodes: calls return an error, never ` +
					`"held". The store recovers by itself`,
				Tests: []Test{"tests/guarantees/refusal_test.go:TestRefusal_nodes"},
			},
			{
				Under: []string{"F30"},
				Fault: "all notifications lost",
				Holds: "waiters retry within the poll interval",
				Tests: []Test{"tests/guarantees/link_test.go:TestDeaf/redlock"},
			},
			{
				Under: []string{"F35"},
				Fault: "FLUSHALL by hand",
				Holds: "one node: no effect. A majority: the holder is notified before another " +
					"process gets the lock; fences rise",
				Tests: []Test{
					"tests/guarantees/removed_test.go:TestRemoved/redlock,_one_node_and_then_a_majority",
				},
			},
			{
				Under: []string{"F38"},
				Fault: "passwords replaced while a lock is held",
				Holds: "open connections continue, and no lease is lost",
				Tests: []Test{"tests/guarantees/rotate_test.go:TestRotate_password/redlock"},
			},
			{
				Fault: "one owner acquires through two servers at the same time",
				Holds: "the late undo of one server may end the grant of the other: **two " +
					"holders**; their fences differ and rise",
				Tests: []Test{
					"store/quorum/order_test.go:TestStore_one_owner_through_two_stores",
				},
			},
			{
				Fault: "one node at a time is cut off, frozen or loses its data",
				Holds: "one trusted holder at a time",
				Tests: []Test{
					"store/quorum/chaos_test.go:TestChaos",
					"store/quorum/fences_test.go:TestExclusion",
				},
			},
			{
				Fault:    "the nodes lose their scripts under load",
				Holds:    "the scripts are sent again",
				Tests:    []Test{"tests/guarantees/redlock_test.go:TestRedlock"},
				Measured: "413 grants in 1 s with 70 SCRIPT FLUSH",
			},
			{
				Fault:    "five clients, two bad links and nodes that stop, for 20 s",
				Holds:    "0 violations",
				Tests:    []Test{"tests/guarantees/history_test.go:TestHistory/redlock"},
				Measured: "508 to 940 grants, 27 and more faults during a hold",
			},
		},
		Absent: []Absence{
			{[]string{"F10", "F11", "F28"}, "nodes do not replicate each other"},
			{[]string{"F23"}, "there is no queue"},
			{[]string{"F29"}, "no known pooler mixes connections of Redis"},
			{[]string{"F31", "F37"}, "Redis has no revisions and no leader"},
		},
		Tail: "Not promised: first come, first served; semaphores; anything after a majority of " +
			"nodes lost its data; a claim on a bare majority if one of its nodes ends it " +
			"early.\n[Why](adr/0009-redlock-with-fences.md).",
	}
}
