package promise

func advisory() Section {
	rules := func(words string) []Test {
		return []Test{Test("store/pgadvisory/pgadvisory_test.go:TestStore " + words)}
	}
	return Section{
		Store: Advisory, Title: "PostgreSQL, advisory locks",
		Intro: "`store/pgadvisory`: a connection to the server holds the lock, and the lock " +
			"ends with the connection. Tested on a real server:",
		Rows: []Row{
			{
				Under: []string{"F01"},
				Fault: "crash of the holder",
				Holds: "free at once",
				Tests: []Test{"store/pgadvisory/fault_test.go:TestStore_holder_killed"},
			},
			{
				Under: []string{"F02"},
				Fault: "pause of the holder",
				Holds: "the server ends the claim after its TTL. The holder's first check of " +
					"the lease fails. Fences rise",
				Tests: []Test{"store/pgadvisory/fault_test.go:TestStore_holder_stopped"},
			},
			{
				Under: []string{"F03"},
				Fault: "suspended host",
				Holds: "the holder sees the loss at its first check",
				Tests: asleep,
			},
			{
				Under: []string{"F04", "F05", "F06"},
				Fault: "holder cut off: both directions, only replies, only requests",
				Holds: "one holder, while the connection stays: trust ends before the server " +
					"ends the claim",
				Tests: []Test{
					"tests/guarantees/link_test.go:TestCutOff/advisory",
					"store/pgadvisory/fault_test.go:TestStore_cut_off",
				},
			},
			{
				Under: []string{"F04"},
				Fault: "a load balancer, a NAT or a firewall closes the connection towards the " +
					"server, and the holder does not see it",
				Holds: "**two holders**, until the next renewal of the first one fails or its " +
					"trust ends; fences rise",
				Tests: []Test{"tests/guarantees/link_test.go:TestCutOff_ended/advisory"},
			},
			{
				Under: []string{"F08", "F25", "F26", "F35"},
				Fault: "the server closes the connection, restarts or crashes (for example out " +
					"of memory or disk space)",
				Holds: "**the lock is free before the holder is notified**. The lease is lost " +
					"as soon as the client sees the closed connection; no renewal is needed for " +
					"that. The lock is not acquired again automatically. Fences rise",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart_advisory",
					"store/pgadvisory/fault_test.go:TestStore_backend_ended",
					"store/pgadvisory/fault_test.go:TestStore_lease_ended",
					"store/pgadvisory/fault_test.go:TestStore_restart",
				},
			},
			{
				Under: []string{"F10", "F11"},
				Fault: "failover while the holder is cut off and still trusts its lease",
				Holds: "**two holders**; a standby that is behind **issues old fences again**",
				Tests: []Test{"tests/guarantees/failover_test.go:TestFailover_advisory"},
			},
			{
				Under: []string{"F15"},
				Fault: "the server's clock is set forward",
				Holds: "the server may close the connection early: **the lock is free before " +
					"the holder is notified**, as above",
				Tests: []Test{"tests/guarantees/clock_test.go:TestClock_forward/advisory"},
			},
			{
				Under: []string{"F16"},
				Fault: "the server's clock is set back",
				Holds: "the lock of a holder that is cut off stays taken for longer",
				Tests: []Test{"tests/guarantees/clock_test.go:TestClock_back/advisory"},
			},
			{
				Under: []string{"F07"},
				Fault: "waiter cut off",
				Holds: "the waiter retries when the link is back",
				Tests: []Test{"tests/guarantees/link_test.go:TestCutOff_waiter/advisory"},
			},
			{
				Under: []string{"F23"},
				Fault: "a waiter dies in the queue",
				Holds: "the next waiter is served at once",
				Tests: []Test{"tests/guarantees/refusal_test.go:TestWaiterKilled"},
			},
			{
				Under: []string{"F24"},
				Fault: "two processes with 250 waiters each",
				Holds: "all are served",
				Tests: []Test{"tests/guarantees/herd_test.go:TestHerd/advisory"},
			},
			{
				Under: []string{"F30"},
				Fault: "all notifications lost",
				Holds: "waiters retry within the poll interval",
				Tests: []Test{"tests/guarantees/link_test.go:TestDeaf/advisory"},
			},
			{
				Under: []string{"F38"},
				Fault: "the password is replaced while a lock is held",
				Holds: "open connections continue, and no lease is lost. New connections with " +
					"the old password: unavailable",
				Tests: []Test{"tests/guarantees/rotate_test.go:TestRotate_password/advisory"},
			},
			{
				Under: []string{"F28"},
				Fault: "failover",
				Holds: "all locks are free at once. The store notices at once, and the new " +
					"primary makes the next grant",
				Tests: []Test{"store/pgadvisory/fault_test.go:TestStore_failover"},
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
				Holds: `the call returns "unknown". A repeated request repairs it, and no lock ` +
					`is left behind`,
				Tests: []Test{
					"tests/guarantees/cut_test.go:TestCut/advisory 60 cuts; 1,000 in long runs",
					"store/pgadvisory/fault_test.go:TestStore_lost_reply",
				},
			},
			{
				Under: []string{"F18"},
				Fault: "a request that takes longer than the TTL",
				Holds: "no call returns a lease whose trust has ended",
				Tests: []Test{"tests/guarantees/link_test.go:TestSlow/advisory"},
			},
			{
				Under: []string{"F18"},
				Fault: "a notification of a grant that arrives late",
				Holds: "it is not trusted: the client first checks with the server",
				Tests: []Test{"store/pgadvisory/fault_test.go:TestStore_late_grant"},
			},
			{
				Under: []string{"F20", "F21", "F22"},
				Fault: "released twice, by another, or late",
				Holds: `the call returns "not held" and changes nothing`,
				Tests: rules(`rules "stale", "ended"`),
			},
			{
				Under: []string{"F34"},
				Fault: "the server accepts no more connections",
				Holds: "held locks stay held, and open connections continue. Calls that need a " +
					"new connection: unavailable",
				Tests: []Test{"store/pgadvisory/fault_test.go:TestStore_no_connections_left"},
			},
			{
				Fault: "a statement is cancelled; the sequence of fences is exhausted",
				Holds: "unavailable; no lock is left behind",
				Tests: []Test{
					"store/pgadvisory/fault_test.go:TestStore_statement_cancelled",
					"store/pgadvisory/behave_test.go:TestStore_grants",
				},
			},
			{
				Under: []string{"F27", "F29", "F36"},
				Fault: "a pooler that mixes connections, a standby, a sequence with a cache",
				Holds: "opening fails, with the reason",
				Tests: []Test{
					"store/pgadvisory/behave_test.go:TestStore_pooler",
					"store/pgadvisory/behave_test.go:TestNew_standby",
					"store/pgadvisory/behave_test.go:TestStore_grants",
				},
			},
			{
				Fault: "two names with the same hash",
				Holds: "each excludes the other; no lock is granted twice",
				Tests: []Test{"store/pgadvisory/behave_test.go:TestStore_collision"},
			},
			{
				Fault: "a role without any rights",
				Holds: "**it can take any lock**",
				Tests: []Test{"store/pgadvisory/behave_test.go:TestStore_grants"},
			},
		},
		Absent: []Absence{
			{[]string{"F09"}, "locks are never stored, so every restart loses them"},
			{[]string{"F12", "F13", "F14"}, "there is one primary"},
			{[]string{"F31", "F37"}, "PostgreSQL has no watches and no election of its own"},
		},
		Tail: "[Why](adr/0014-advisory-locks.md).",
	}
}
