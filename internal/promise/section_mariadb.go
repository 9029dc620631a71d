package promise

func mariadb() Section {
	rules := func(words string) []Test {
		return []Test{Test("store/mysql/mysql_test.go:TestStore " + words)}
	}
	return Section{
		Store: MariaDB, Title: "MariaDB",
		Intro: "`store/mysql`: claims are rows that expire by the server's clock. Tested on a real " +
			"MariaDB server; no test runs on MySQL:",
		Rows: []Row{
			{
				Under: []string{"F01"},
				Fault: "crash of the holder",
				Holds: "free when the TTL expires",
				Tests: []Test{
					"tests/kinds/election_test.go:TestElection_kill/mariadb",
					"tests/kinds/semaphore_test.go:TestSemaphore_kill/mariadb",
				},
			},
			{
				Under: []string{"F02"},
				Fault: "pause of the holder",
				Holds: "its first check of the lease fails. No fenced update is lost",
				Tests: []Test{"tests/guarantees/pause_test.go:TestPause_holder/mariadb"},
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
				Holds: "the holder is notified before another process gets the lock",
				Tests: []Test{"tests/guarantees/link_test.go:TestCutOff/mariadb"},
			},
			{
				Under: []string{"F04"},
				Fault: "a device on the network path closes the connection, and the holder does " +
					"not see it",
				Holds: "no effect on holders: a claim does not depend on the connection",
				Tests: []Test{"tests/guarantees/link_test.go:TestCutOff_ended/mariadb"},
			},
			{
				Under: []string{"F07"},
				Fault: "waiter cut off",
				Holds: "all waiters retry when the connection is back",
				Tests: []Test{"tests/guarantees/link_test.go:TestCutOff_waiter/mariadb"},
			},
			{
				Under: []string{"F08", "F25"},
				Fault: "connections closed, restart or crash of the server",
				Holds: "one holder at a time, fences rise, held locks survive. No client needs " +
					"a restart",
				Tests: []Test{
					"store/mysql/trouble_test.go:TestStore_server",
					"store/mysql/trouble_test.go:TestStore_connections_killed",
				},
			},
			{
				Under: []string{"F08"},
				Fault: "power loss with `innodb_flush_log_at_trx_commit` 0 or 2",
				Holds: "the last grants are forgotten: **two holders**. Fences rise. `distlock " +
					"doctor` warns about this setting",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/mariadb,_log_not_flushed",
				},
			},
			{
				Under: []string{"F10", "F28"},
				Fault: "failover to an asynchronous replica",
				Holds: "a lock that the replica has received is held there as well. The replica " +
					"grants another one again: **two holders**. Fences rise, unless its clock is " +
					"behind",
				Tests: []Test{
					"store/mysql/failover_test.go:TestStore_failover",
					"store/mysql/failover_test.go:TestStore_failover_behind",
				},
			},
			{
				Under: []string{"F11"},
				Fault: "the old primary keeps running next to the new one",
				Holds: "**two holders**, as after a failover; fences rise. Stop the old primary " +
					"before the replica accepts writes",
				Tests: []Test{"store/mysql/failover_test.go:TestStore_failover"},
			},
			{
				Under: []string{"F15"},
				Fault: "the server's clock is set forward",
				Holds: "claims expire early: **two holders**. Fences rise",
				Tests: []Test{"tests/guarantees/clock_test.go:TestClock_forward/mariadb"},
			},
			{
				Under: []string{"F16"},
				Fault: "the server's clock is set back",
				Holds: "claims of dead holders expire later. A dead waiter blocks the queue for no " +
					"longer than its queue entry. Fences rise, also of forgotten names",
				Tests: []Test{
					"tests/guarantees/clock_test.go:TestClock_back/mariadb",
					"tests/guarantees/clock_test.go:TestClock_corrected/mariadb",
					"tests/guarantees/clock_test.go:TestClock_deadWaiter/mariadb",
				},
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
				Tests: []Test{"tests/guarantees/link_test.go:TestSlow/mariadb"},
			},
			{
				Under: []string{"F19"},
				Fault: "a reply is lost, or cut at any byte",
				Holds: `the call returns "unknown". A repeated request repairs it: one grant, ` +
					`one fence`,
				Tests: []Test{
					"tests/guarantees/cut_test.go:TestCut/mariadb 60 cuts; 1,000 in long runs",
					"store/mysql/mysql_test.go:TestStore_faults",
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
				Tests: []Test{"tests/guarantees/herd_test.go:TestHerd/mariadb"},
			},
			{
				Under: []string{"F26"},
				Fault: "disk full",
				Holds: "the server refuses calls or ends itself. With space and a restart it has " +
					"all claims",
				Tests: []Test{"store/mysql/full_linux_test.go:TestStore_diskFull"},
			},
			{
				Under: []string{"F27"},
				Fault: "a request reaches a read-only replica",
				Holds: `calls return "unavailable", never "held"`,
				Tests: []Test{"store/mysql/failover_test.go:TestStore_failover"},
			},
			{
				Under: []string{"F34"},
				Fault: "no connection left",
				Holds: "unavailable, nothing is changed. Held locks are renewed on connections " +
					"of their own",
				Tests: []Test{"store/mysql/trouble_test.go:TestStore_no_connection"},
			},
			{
				Under: []string{"F35"},
				Fault: "claims are deleted by hand",
				Holds: "the holder is notified at its next renewal. Another process may get the " +
					"lock before that. Fences rise",
				Tests: []Test{"tests/guarantees/removed_test.go:TestRemoved/mariadb,_the_claims"},
			},
			{
				Under: []string{"F36"},
				Fault: "newer tables, or older procedures",
				Holds: "opening fails, with the reason",
				Tests: []Test{"store/mysql/schema_test.go:TestMigrate"},
			},
			{
				Under: []string{"F38"},
				Fault: "the password is replaced while a lock is held",
				Holds: "open connections continue. New connections with the old password: " +
					"unavailable",
				Tests: []Test{"tests/guarantees/rotate_test.go:TestRotate_password/mariadb"},
			},
			{
				Fault: "a client has the row of a key locked in an open transaction",
				Holds: "calls on that key are unavailable after some seconds. Other locks are " +
					"renewed",
				Tests: []Test{"store/mysql/trouble_test.go:TestStore_locked"},
			},
		},
		Absent: []Absence{
			{[]string{"F09"}, "the tables are logged, and a restart keeps them"},
			{[]string{"F12", "F13", "F14"}, "there is one primary"},
			{[]string{"F29"}, "no test runs behind a proxy such as ProxySQL or MaxScale: use none"},
			{[]string{"F30"}, "there are no notifications: waiters poll"},
			{[]string{"F31", "F37"}, "MariaDB has no watches and no election of its own"},
		},
		Tail: "[Why](adr/0035-mysql-tables.md).",
	}
}
