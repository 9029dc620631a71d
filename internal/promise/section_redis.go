package promise

func redis() Section {
	rules := func(words string) []Test {
		return []Test{Test("store/redis/rueidisstore/rueidisstore_test.go:TestStore " + words)}
	}
	return Section{
		Store: Redis, Title: "Redis, one server",
		Intro: "`store/redis`: claims are keys that end by the server's time of day. Shown on real servers, but for what says otherwise:",
		Rows: []Row{
			{[]string{"F01"}, "crash of the holder", "free when its TTL is over", []Test{
				"tests/kinds/election_test.go:TestElection_kill/redis", "tests/kinds/semaphore_test.go:TestSemaphore_kill/redis",
			}, ""},
			{[]string{"F02"}, "pause of the holder", "refused at its first look; fenced updates are not lost", []Test{"tests/redis/pause_test.go:TestPause_holder/redis"},
				"10 of 10 refused; fenced updates lost 0; plain ones lost 10 of 20"},
			{[]string{"F03"}, "suspended host", "the holder is told in its first look", asleep, ""},
			{[]string{"F04", "F05", "F06"}, "holder cut off: both ways, replies or requests alone, held back, refused", "told before a rival is granted", []Test{
				"tests/redis/partition_test.go:TestPartition/redis 10 runs",
			}, "TTL 1 s: the last moment of trust lies 102 ms and more before the rival's grant"},
			{[]string{"F07"}, "waiter cut off", "who waits asks again when the link is back", []Test{"tests/promise/link_test.go:TestCutOff_waiter/redis", "store/redis/trouble_test.go:TestStore_watchReconnects"}, ""},
			{[]string{"F18"}, "the server is stopped for longer than the TTL", "holder told in time, service goes on by itself", []Test{
				"tests/redis/pause_test.go:TestPause_server", "store/redis/trouble_test.go:TestStore_silentServer",
			}, "trust ended at most 0.89 s after the stop (TTL 1 s); next grant at most 0.8 s after the server goes on"},
			{[]string{"F18"}, "a way that takes longer than the TTL", "no lease is told whose trust is over", []Test{"tests/promise/link_test.go:TestSlow/redis"}, ""},
			{[]string{"F08"}, "`kill -9` with `appendfsync always`", "holds and the line survive, no client is restarted", []Test{"tests/redis/restart_test.go:TestRestart_durable"},
				"first lock 3 to 60 ms after the server is back"},
			{[]string{"F09"}, "`kill -9` without persistence", "**two holders** until the first renews. Fences rise", []Test{"tests/redis/restart_test.go:TestRestart_forgetful"},
				"two holders in 10 of 10; 20 fences rose"},
			{[]string{"F08"}, "power loss with `appendfsync always`", "what was answered is on the disk: holds survive", []Test{"tests/promise/power_test.go:TestPower/redis,_always the file is cut to what was synced"}, ""},
			{[]string{"F08"}, "power loss with `appendfsync everysec`", "what was granted in the last second is forgotten: **two holders**. Fences rise", []Test{"tests/promise/power_test.go:TestPower/redis,_everysec"}, ""},
			{[]string{"F15"}, "the server's clock is set forward", "claims end early: **two holders**. Fences rise", []Test{"tests/promise/clock_test.go:TestClock_forward/redis"}, ""},
			{[]string{"F16"}, "the server's clock is set back", "claims of dead holders live for longer; a dead waiter is handed the key for no longer than it had asked to wait. Fences rise, but **not** if the data is lost as well, or a user may only touch its own names", []Test{
				"tests/promise/clock_test.go:TestClock_corrected/redis", "tests/promise/clock_test.go:TestClock_deadWaiter/redis", "tests/promise/clock_test.go:TestClock_corrected_noFloor/redis,_own_names",
				"tests/promise/clock_test.go:TestClock_back/redis", "tests/promise/failover_test.go:TestFailover_behind/redis_without_persistence",
			}, ""},
			{[]string{"F17"}, "a client's clock is wrong", wrongClockHolds, wrongClock, ""},
			{[]string{"F19"}, "a reply is lost or cut at any byte", "no wait for oneself, one fence a grant, nothing left that nobody was told of", []Test{
				"tests/redis/cut_test.go:TestCut 200 cuts for each client", "store/redis/redis_test.go:TestStore_lostReply",
			}, "0 left, 0 unknown locks; one release in ten had to be asked for again"},
			{[]string{"F20", "F21", "F22"}, "released twice, by another, or late", "not held, and nothing is changed", rules(`rules "stale", "ended"`), ""},
			{[]string{"F23"}, "a waiter dies in line", "the next one is served when the place is over", rules(`rule "expired entry"`), ""},
			{[]string{"F01", "F23"}, "hundreds of readers or waiters of one name die at once", "the next one is served when the last of them is over: 100 are cleared at a time, with no poll in between", []Test{"store/redis/virtual_test.go:TestStore_virtual_manyDead"}, ""},
			{[]string{"F24"}, "10,000 goroutines wait for one key", "all are served", []Test{"tests/redis/herd_test.go:TestHerd_goroutines"}, "39 to 57 ms, 83 requests in all, 5.6 KB a waiter"},
			{[]string{"F24"}, "20 processes x 50 wait for one key", "all are served, at most 6 requests for each hand-over", []Test{"tests/redis/herd_test.go:TestHerd_processes"}, "51 to 706 ms, 4.0 to 4.4 requests"},
			{[]string{"F25"}, "out of memory", "unavailable, never held; a release works", []Test{"store/redis/redis_test.go:TestStore_unavailable"}, ""},
			{[]string{"F25"}, "`maxmemory-policy` other than `noeviction`", "locks are evicted: **two holders**. The doctor says so before", []Test{"tests/promise/power_test.go:TestEviction"}, ""},
			{[]string{"F35"}, "the key is deleted by hand, FLUSHALL", "the holder is told at its next renewal, and another may be granted before; fences rise", []Test{"tests/promise/removed_test.go:TestRemoved/redis,_the_key", "tests/promise/removed_test.go:TestRemoved/redis,_everything"}, ""},
			{[]string{"F25", "F35"}, "what lies beside a key, its line and its data, is evicted or deleted", "one holder, or readers alone. Those who wait lose their places, and go on when what was lost has ended", []Test{
				"store/redis/heal_test.go:TestStore_virtual_heals", "store/redis/heal_test.go:TestStore_virtual_lostHash",
			}, "in virtual time: nobody waited for longer than a place and a TTL"},
			{[]string{"F26"}, "the server cannot save, loads, is busy with a script, wants a password or refuses a right", "unavailable, nothing is changed; it heals by itself", []Test{
				"store/redis/refusal_test.go:TestStore_refusals",
			}, ""},
			{[]string{"F27"}, "read-only server", "unavailable, never held", []Test{"store/redis/redis_test.go:TestStore_unavailable", "store/redis/refusal_test.go:TestStore_stale"}, ""},
			{[]string{"F30"}, "all notifications lost", "those who wait ask again within the poll", []Test{"tests/promise/link_test.go:TestDeaf/redis"}, "0.6 to 0.9 s after the release, poll 1 s"},
			{[]string{"F30"}, "a user who may not subscribe", "those who wait poll, and no ask is held up", []Test{"store/redis/heal_test.go:TestStore_noSubscription"}, ""},
			{[]string{"F34"}, "the server takes no more connections", "an error, never a grant or a refusal; who is in stays in", []Test{"store/redis/refusal_test.go:TestStore_noRoom"}, ""},
			{[]string{"F34"}, "the program's own pool is exhausted", "no lease is lost", []Test{"tests/redis/pool_test.go:TestPool_exhausted", "store/redis/trouble_test.go:TestStore_poolExhausted"},
				"20 leases, TTL 1 s, 4 s, 2,800 acquires refused meanwhile"},
			{[]string{"F36"}, "a key of another type", "invalid, with the key's name; nothing is changed", []Test{"store/redis/redis_test.go:TestStore_wrongType"}, ""},
			{[]string{"F38"}, "password or certificate replaced during a hold", "connections that are there go on, and no lease is lost. With the old password: unavailable", []Test{
				"tests/promise/rotate_test.go:TestRotate_password/redis", "tests/promise/rotate_test.go:TestRotate_certificate",
			}, ""},
			{nil, "forgotten scripts", "they are sent again", []Test{"store/redis/redis_test.go:TestStore_forgottenScripts", "tests/redis/restart_test.go:TestRestart_durable"}, ""},
			{nil, "five clients, two bad links, a server that stops, 20 s", "0 violations", []Test{"tests/redis/history_test.go:TestHistory/redis"}, "508 to 940 grants, 27 and more faults over a hold"},
		},
		Absent: []Absence{
			{[]string{"F10", "F11", "F28"}, "there is one server (see Redis with replicas)"},
			{[]string{"F12", "F13", "F14"}, "there is one node (see Redlock)"},
			{[]string{"F29"}, "no pooler is known that mixes connections of Redis"},
			{[]string{"F31", "F37"}, "Redis has no revisions and no leader"},
		},
	}
}

func replicated() Section {
	return Section{
		Store: Replicated, Title: "Redis with replicas",
		Intro: "The same store on a primary whose replicas can take over: Sentinel, Cluster, a managed Redis. Everything that is said of one server holds until a failover. Beyond that:",
		Rows: []Row{
			{[]string{"F10"}, "failover that loses the claim", "**two holders**; fences rise. With `Options.Replicas` the grant is refused", []Test{"tests/redis/failover_test.go:TestFailover_forgets"},
				"two holders in 3 of 3, the fence rose in 3 of 3"},
			{[]string{"F10"}, "Sentinel failover under load", "service goes on by itself, fences rise, no update is lost", []Test{"tests/redis/failover_test.go:TestFailover_sentinel"},
				"first grant 2.0 to 3.0 s after the primary died (Sentinel waits 0.5 s before it acts)"},
			{[]string{"F10"}, "failover to a replica whose clock is behind", "**a fence may be given again**, if the last claim was lost", []Test{"tests/promise/failover_test.go:TestFailover_behind/replicated"}, ""},
			{[]string{"F11"}, "the old primary lives on beside the new one", "**two holders**; fences rise. With `min-replicas-to-write` the old one refuses its work soon, and its holder is told", []Test{"tests/promise/failover_test.go:TestFailover_split/replicated", "tests/promise/failover_test.go:TestFailover_split/replicated,_guarded"},
				"0.8 to 2.4 s with two primaries (`min-replicas-max-lag 1`)"},
			{[]string{"F08"}, "the primary restarts with its data, before a failover", "holds survive it, a power loss too with `appendfsync always`", []Test{"tests/promise/failover_test.go:TestFailover_restart/with_data", "tests/promise/power_test.go:TestPower/replicated,_always"}, ""},
			{[]string{"F09"}, "the primary restarts without data, before a failover", "its replicas forget too: **two holders**; fences rise", []Test{"tests/promise/failover_test.go:TestFailover_restart/without"}, ""},
			{[]string{"F15", "F16"}, "the clocks are set", "as one server. On a cluster the fences of a name that was forgotten may **go back** with the clock", []Test{"tests/promise/clock_test.go:TestClock_forward/replicated", "tests/promise/clock_test.go:TestClock_back/replicated", "tests/promise/clock_test.go:TestClock_corrected/replicated", "tests/promise/clock_test.go:TestClock_deadWaiter/replicated", "tests/promise/clock_test.go:TestClock_corrected_noFloor/replicated,_cluster"}, ""},
			{[]string{"F04", "F05", "F06", "F07"}, "holder or waiter cut off", "as one server", []Test{"tests/promise/link_test.go:TestCutOff/replicated", "tests/promise/link_test.go:TestCutOff_waiter/replicated"}, ""},
			{[]string{"F18", "F24", "F30", "F35", "F38"}, "slow links, crowds, lost notifications, FLUSHALL, a new password", "as one server", []Test{
				"tests/promise/link_test.go:TestSlow/replicated", "tests/promise/link_test.go:TestHerd/replicated", "tests/promise/link_test.go:TestDeaf/replicated", "tests/promise/removed_test.go:TestRemoved/replicated,_everything",
				"tests/promise/rotate_test.go:TestRotate_password/replicated",
			}, ""},
			{nil, "with `Options.Replicas` a key is handed on", "it counts when they have it: the message is a hint", []Test{"store/redis/heal_test.go:TestStore_replicas_woken"}, ""},
			{[]string{"F27"}, "a replica is asked", "unavailable, never held; after its promotion it works", []Test{"store/redis/refusal_test.go:TestStore_stale"}, ""},
			{[]string{"F01", "F02", "F03", "F17", "F19", "F20", "F21", "F22", "F23", "F25", "F26", "F34", "F36"}, "anything else", "as one server: the primary alone answers", []Test{
				"store/redis/rueidisstore/rueidisstore_test.go:TestStore", "store/redis/topology_test.go:TestStore_sentinel",
			}, ""},
			{nil, "the primary of a cluster's key dies, and its replica takes its place", "every call finds it within 5 s of the promotion, with either client; what the replica had not got is lost", []Test{"store/redis/promote_test.go:TestStore_clusterFailover"}, ""},
			{nil, "slots of a cluster move", "leases stay, those who wait are told at the new place", []Test{"store/redis/reshard_test.go:TestStore_reshard", "store/redis/reshard_test.go:TestStore_reshard_lease"}, ""},
		},
		Absent: []Absence{
			{[]string{"F12", "F13", "F14", "F28"}, "one primary at a time decides, and a failover is one of Redis"},
			{[]string{"F29"}, "no pooler is known that mixes connections of Redis"},
			{[]string{"F31", "F37"}, "Redis has no revisions and no leader"},
		},
	}
}

func redlock() Section {
	return Section{
		Store: Redlock, Title: "Redlock, a majority of nodes",
		Intro: "`store/quorum` (Redlock, over Redis nodes) makes one store of several. Shown on three and five real servers (`tests/redis`, `tests/promise`), and in virtual time on nodes in memory behind bad links (`store/quorum`):",
		Rows: []Row{
			{[]string{"F01"}, "crash of the holder", "free when its TTL is over", []Test{"tests/kinds/election_test.go:TestElection_kill/redlock"}, ""},
			{[]string{"F02"}, "pause of the holder", "refused at its first look: the lease decides, not the store", []Test{"tests/redis/pause_test.go:TestPause_holder/redlock"}, ""},
			{[]string{"F03"}, "suspended host", "the holder is told in its first look", asleep, ""},
			{[]string{"F04", "F05", "F06"}, "holder cut off: both ways, replies or requests alone, held back, refused", "told before a rival is granted", []Test{"tests/redis/partition_test.go:TestPartition/redlock 10 runs"},
				"TTL 1 s: the last moment of trust lies 102 ms and more before the rival's grant"},
			{[]string{"F07"}, "waiter cut off", "it asks again when the link is back", []Test{"tests/promise/link_test.go:TestCutOff_waiter/redlock"}, ""},
			{[]string{"F12"}, "a minority dead, silent or slow", "taking, renewing and releasing take no longer", []Test{"store/quorum/faults_test.go:TestStore_minority_in_trouble", "tests/redis/redlock_test.go:TestRedlock"}, ""},
			{[]string{"F12"}, "a node comes back", "it holds the claim again after the next renewal", []Test{"store/quorum/renew_test.go:TestStore_Renew_tops_up"}, ""},
			{[]string{"F13"}, "a majority down", "unavailable at once, or unknown where nodes are silent; never held. What was granted is released; the holder is told in time", []Test{
				"store/quorum/faults_test.go:TestStore_majority_unavailable", "store/quorum/faults_test.go:TestStore_majority_silent", "tests/redis/redlock_test.go:TestRedlock",
			}, "refused within 22 ms; granted 4.8 to 4.9 s after they are back (`LongestTTL` 5 s)"},
			{[]string{"F08"}, "nodes are killed and come back with their data", "a minority: nothing happens; a majority: as above, and nothing is granted for `LongestTTL` while others stay up", []Test{"tests/redis/redlock_test.go:TestRedlock"}, ""},
			{[]string{"F09", "F14"}, "a node forgets its claims: all of them, or the last ones, as with a snapshot or `appendfsync everysec`", "one holder: it is not counted for `LongestTTL`. A claim on a bare majority ends, and its holder is told", []Test{
				"tests/redis/redlock_test.go:TestRedlock_forgetful", "store/quorum/memory_test.go:TestStore_node_that_forgot",
			}, "0 overlaps; where nodes do not tell their age, **two holders** each time"},
			{[]string{"F15"}, "a node's clock is set forward", "with all nodes held: nothing happens. With a bare majority: **two holders**; their fences differ and rise", []Test{
				"tests/promise/clock_test.go:TestClock_node/all_nodes", "tests/promise/clock_test.go:TestClock_node/bare_majority", "store/quorum/memory_test.go:TestStore_node_whose_clock_jumps",
			}, ""},
			{[]string{"F16"}, "the nodes' clocks are set back", "claims of dead holders live for longer. Fences rise. A node that was first used after the time that its clock shows now is not counted for `LongestTTL`", []Test{"tests/promise/clock_test.go:TestClock_back/redlock", "tests/promise/clock_test.go:TestClock_corrected/redlock", "tests/promise/clock_test.go:TestClock_born"}, ""},
			{[]string{"F17"}, "clocks of nodes and clients are wrong", "fences follow the order of grants in real time, with a client a week ahead too", []Test{
				"store/quorum/fences_test.go:TestFences", "store/quorum/memory_test.go:TestStore_client_with_a_mad_clock",
			}, "more than 100,000 grants; without the write-back it fails"},
			{[]string{"F09", "F14"}, "a majority forgets its claims", "**two holders**, and nothing but the clocks keeps fences in order", []Test{"store/quorum/memory_test.go:TestStore_majority_that_forgot"}, ""},
			{[]string{"F19"}, "a reply of a node is cut at any byte", "no wait for oneself, nothing left that nobody was told of, fences rise", []Test{"tests/promise/link_test.go:TestCuts/redlock 200 cuts"}, "0 left"},
			{[]string{"F18"}, "a way that takes longer than the TTL", "no lease is told whose trust is over", []Test{"tests/promise/link_test.go:TestSlow/redlock"}, ""},
			{[]string{"F18"}, "grants that come too late", "are not counted, and released", []Test{"store/quorum/faults_test.go:TestStore_late_grants_do_not_count", "store/quorum/faults_test.go:TestStore_losers_are_released"}, ""},
			{[]string{"F20", "F21", "F22"}, "released twice, by another, or late", "not held, and nothing is changed", []Test{`store/quorum/quorum_test.go:TestStore rules "stale", "ended"`}, ""},
			{[]string{"F24"}, "many contend", "they make progress, and a hand-over costs round trips and no poll", []Test{"store/quorum/contend_test.go:TestStore_split_votes", "store/quorum/tell_test.go:TestLocker_hand_over", "tests/promise/link_test.go:TestHerd/redlock"}, ""},
			{[]string{"F25", "F26", "F27", "F34", "F36"}, "nodes that are out of memory, take no writes, are read-only, have another's data or no connection left", "one of three: nothing happens. Two: an error, never held; it heals by itself", []Test{"tests/promise/refusal_test.go:TestRefusal_nodes"}, ""},
			{[]string{"F30"}, "all notifications lost", "those who wait ask again within the poll", []Test{"tests/promise/link_test.go:TestDeaf/redlock"}, ""},
			{[]string{"F35"}, "FLUSHALL by hand", "one node: nothing happens. A majority: the holder is told before a rival is granted; fences rise", []Test{"tests/promise/removed_test.go:TestRemoved/redlock,_one_node_and_then_a_majority"}, ""},
			{[]string{"F38"}, "passwords replaced during a hold", "connections that are there go on, and no lease is lost", []Test{"tests/promise/rotate_test.go:TestRotate_password/redlock"}, ""},
			{nil, "one owner acquires through two servers at the same time", "the late undo of one server may end the grant of the other: **two holders**; their fences differ and rise", []Test{"store/quorum/order_test.go:TestStore_one_owner_through_two_stores"}, ""},
			{nil, "one node at a time cut off, frozen or without its memory", "trusted spans are disjoint", []Test{"store/quorum/chaos_test.go:TestChaos", "store/quorum/fences_test.go:TestExclusion"}, ""},
			{nil, "forgotten scripts under load", "they are sent again", []Test{"tests/redis/redlock_test.go:TestRedlock"}, "413 grants in 1 s beside 70 times SCRIPT FLUSH"},
			{nil, "five clients, two bad links, nodes that stop, 20 s", "0 violations", []Test{"tests/redis/history_test.go:TestHistory/redlock"}, "508 to 940 grants, 27 and more faults over a hold"},
		},
		Absent: []Absence{
			{[]string{"F10", "F11", "F28"}, "nodes do not replicate each other"},
			{[]string{"F23"}, "there is no line"},
			{[]string{"F29"}, "no pooler is known that mixes connections of Redis"},
			{[]string{"F31", "F37"}, "Redis has no revisions and no leader"},
		},
		Tail: "Not promised: first come, first served; counting; anything after a majority of nodes lost its memory; a claim on a bare majority if one of its nodes ends it early.\n[Why](adr/0009-redlock-with-fences.md).",
	}
}
