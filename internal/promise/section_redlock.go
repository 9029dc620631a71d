package promise

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
