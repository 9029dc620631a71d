package promise

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
