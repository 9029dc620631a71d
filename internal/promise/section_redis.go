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
