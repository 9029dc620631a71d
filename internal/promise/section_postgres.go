package promise

func postgres() Section {
	rules := func(words string) []Test {
		return []Test{Test("store/postgres/postgres_test.go:TestStore " + words)}
	}
	return Section{
		Store: Postgres, Title: "PostgreSQL, tables",
		Intro: "`store/postgres`: claims are rows that expire by the server's clock. Tested on " +
			"a real server:",
		Rows: []Row{
			{
				Under: []string{"F01"},
				Fault: "crash of the holder",
				Holds: "free when the TTL expires",
				Tests: []Test{"store/postgres/process_test.go:TestProcesses_killed"},
			},
			{
				Under: []string{"F02"},
				Fault: "pause of the holder",
				Holds: "another process gets the lock, with a higher fence. A resource that " +
					"compares fences refuses the late write; a resource that does not is " +
					"overwritten",
				Tests: []Test{"store/postgres/process_test.go:TestProcesses_paused"},
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
				Holds: "the holder is notified before another process gets the lock. A NOTIFY " +
					"that arrives does not prolong trust",
				Tests: []Test{"tests/guarantees/link_test.go:TestCutOff/postgres"},
			},
			{
				Under: []string{"F04"},
				Fault: "a device on the network path closes the connection, and the holder does " +
					"not see it",
				Holds: "no effect on holders: a claim does not depend on the connection",
				Tests: []Test{"tests/guarantees/link_test.go:TestCutOff_ended/postgres"},
			},
			{
				Under: []string{"F04"},
				Fault: "a link that drops all packets",
				Holds: `calls end with their context and return "unknown". Another process gets ` +
					`the lock when the TTL expires`,
				Tests: []Test{"store/postgres/trouble_test.go:TestStore_partition"},
			},
			{
				Under: []string{"F08", "F25"},
				Fault: "connections closed, restart, crash of the server or of one of its " +
					"processes (out of memory)",
				Holds: "one holder at a time, fences rise, held locks survive. No client needs " +
					"a restart",
				Tests: []Test{
					"store/postgres/trouble_test.go:TestStore_restartUnderLoad",
					"store/postgres/trouble_test.go:TestStore_down",
				},
			},
			{
				Under: []string{"F08"},
				Fault: "crash with `synchronous_commit` off",
				Holds: "the last grants are forgotten: **two holders**. Fences rise. `distlock " +
					"doctor` warns about this setting",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/postgres,_synchronous_commit_off",
				},
			},
			{
				Under: []string{"F15"},
				Fault: "the server's clock is set forward",
				Holds: "claims expire early: **two holders**. Fences rise",
				Tests: []Test{"tests/guarantees/clock_test.go:TestClock_forward/postgres"},
			},
			{
				Under: []string{"F16"},
				Fault: "the server's clock is set back",
				Holds: "claims of dead holders expire later. A lock handed to a dead waiter " +
					"stays taken for no longer than its queue entry. Fences rise, also of " +
					"forgotten names",
				Tests: []Test{
					"tests/guarantees/clock_test.go:TestClock_back/postgres",
					"tests/guarantees/clock_test.go:TestClock_corrected/postgres",
					"tests/guarantees/clock_test.go:TestClock_deadWaiter/postgres",
				},
			},
			{
				Under: []string{"F28"},
				Fault: "failover to a synchronous standby",
				Holds: "one holder: a grant is answered only when the standby has it",
				Tests: []Test{"tests/guarantees/failover_test.go:TestFailover_acknowledged/postgres"},
			},
			{
				Under: []string{"F10"},
				Fault: "failover to a standby that has not received the claim",
				Holds: "the standby grants the lock again: **two holders**. Fences rise, unless " +
					"its clock is behind",
				Tests: []Test{
					"tests/guarantees/failover_test.go:TestFailover_forgets/postgres",
					"tests/guarantees/failover_test.go:TestFailover_behind/postgres",
				},
			},
			{
				Under: []string{"F10"},
				Fault: "an operator cancels a commit that waits for the synchronous standby",
				Holds: "PostgreSQL reports the commit as done: **two holders** after a failover",
				Tests: []Test{"tests/guarantees/failover_test.go:TestFailover_cancelled"},
			},
			{
				Under: []string{"F11"},
				Fault: "the old primary keeps running next to the new one",
				Holds: "**two holders**; fences rise. Stop the old primary before you promote a " +
					"standby",
				Tests: []Test{"tests/guarantees/failover_test.go:TestFailover_split/postgres"},
			},
			{
				Under: []string{"F28"},
				Fault: "failover to a standby that has the claim",
				Holds: "the lock is held there as well. Before the promotion: unavailable",
				Tests: []Test{"store/postgres/trouble_test.go:TestStore_standby"},
			},
			{
				Under: []string{"F27"},
				Fault: "a request reaches a standby",
				Holds: `calls return "unavailable", never "held"`,
				Tests: []Test{"store/postgres/trouble_test.go:TestStore_standby"},
			},
			{
				Under: []string{"F17"},
				Fault: "a client's clock is wrong",
				Holds: wrongClockHolds,
				Tests: wrongClock,
			},
			{
				Under: []string{"F18"},
				Fault: "a request that takes longer than the TTL",
				Holds: "no call returns a lease whose trust has ended",
				Tests: []Test{"tests/guarantees/link_test.go:TestSlow/postgres"},
			},
			{
				Under: []string{"F19"},
				Fault: "a reply is lost, or cut at any byte",
				Holds: `the call returns "unknown". A repeated request repairs it: one grant, ` +
					`one fence`,
				Tests: []Test{
					"tests/guarantees/cut_test.go:TestCut/postgres 60 cuts; 1,000 in long runs",
					"store/postgres/trouble_test.go:TestStore_lostReply",
				},
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
				Under: []string{"F24"},
				Fault: "two processes with 250 waiters each",
				Holds: "all are served",
				Tests: []Test{"tests/guarantees/herd_test.go:TestHerd/postgres"},
			},
			{
				Under: []string{"F26", "F34"},
				Fault: "statement cancelled, no connection left, disk full",
				Holds: "unavailable, nothing is changed. Held locks stay held, and the store " +
					"recovers by itself",
				Tests: []Test{
					"store/postgres/trouble_test.go:TestStore_cancelled",
					"store/postgres/trouble_test.go:TestStore_down",
					"store/postgres/full_linux_test.go:TestStore_diskFull",
				},
			},
			{
				Under: []string{"F34"},
				Fault: "the pool is exhausted",
				Holds: "claims are acquired, renewed and released on dedicated connections",
				Tests: []Test{"store/postgres/trouble_test.go:TestStore_poolExhausted"},
			},
			{
				Fault: "a client stays idle in its transaction",
				Holds: "other locks are not affected. The name used in the transaction is " +
					"refused to others",
				Tests: []Test{
					"store/postgres/sql_test.go:TestSQL_idle",
					"store/postgres/sql_test.go:TestSQL_python",
				},
			},
			{
				Fault: "a transaction that began long ago; a REPEATABLE READ or SERIALIZABLE " +
					"transaction",
				Holds: "the current time counts, not the begin of the transaction; refused",
				Tests: []Test{
					"store/postgres/sql_test.go:TestSQL_oldTransaction",
					"store/postgres/sql_test.go:TestSQL_isolation",
				},
			},
			{
				Fault: "a transaction elsewhere in the database keeps an old snapshot: a backup, " +
					"a report, a client that is idle in its transaction",
				Holds: "one holder at a time, but **every hold of a name takes longer than the " +
					"one before**, until that transaction has ended. `distlock doctor` warns " +
					"after a minute ([numbers](postgres.md#old-snapshots))",
				Tests: []Test{
					"store/postgres/cost_test.go:TestStore_oldSnapshot",
					"store/postgres/trouble_test.go:TestStore_Inspect_oldSnapshot",
				},
			},
			{
				Under: []string{"F29"},
				Fault: "PgBouncer in transaction mode",
				Holds: "everything works except notifications: waiters poll",
				Tests: []Test{"store/postgres/schema_test.go:TestStore_pgbouncer"},
			},
			{
				Under: []string{"F30"},
				Fault: "all notifications lost",
				Holds: "waiters retry within the poll interval",
				Tests: []Test{"tests/guarantees/link_test.go:TestDeaf/postgres"},
			},
			{
				Under: []string{"F35"},
				Fault: "rows are deleted by hand",
				Holds: "the holder is notified at its next renewal. Another process may get the " +
					"lock before that. Fences rise",
				Tests: []Test{"tests/guarantees/removed_test.go:TestRemoved/postgres,_the_rows"},
			},
			{
				Under: []string{"F38"},
				Fault: "the password is replaced while a lock is held",
				Holds: "open connections continue; the connection for renewals opens soon after " +
					"the first grant. So no lease is lost. New connections with the old " +
					"password: unavailable",
				Tests: []Test{"tests/guarantees/rotate_test.go:TestRotate_password/postgres"},
			},
			{
				Under: []string{"F07"},
				Fault: "waiter or listener cut off",
				Holds: "all waiters retry when the connection is back",
				Tests: []Test{
					"tests/guarantees/link_test.go:TestCutOff_waiter/postgres",
					"store/postgres/trouble_test.go:TestStore_watchReconnects",
				},
			},
			{
				Under: []string{"F36"},
				Fault: "schema of another program, or newer schema",
				Holds: "opening fails, with the reason",
				Tests: []Test{"store/postgres/schema_test.go:TestSchema_foreign"},
			},
		},
		Absent: []Absence{
			{[]string{"F09"}, "the tables are logged, and a restart keeps them"},
			{[]string{"F12", "F13", "F14"}, "there is one primary"},
			{[]string{"F31", "F37"}, "PostgreSQL has no watches and no election of its own"},
		},
		Tail: "[Why](adr/0013-postgres-tables.md).",
	}
}
