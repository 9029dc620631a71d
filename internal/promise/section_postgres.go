package promise

func postgres() Section {
	rules := func(words string) []Test { return []Test{Test("store/postgres/postgres_test.go:TestStore " + words)} }
	return Section{
		Store: Postgres, Title: "PostgreSQL, tables",
		Intro: "`store/postgres`: claims are rows that end by the server's clock. Shown on a real server:",
		Rows: []Row{
			{[]string{"F01"}, "crash of the holder", "free when its TTL is over", []Test{"store/postgres/process_test.go:TestProcesses_killed"}, ""},
			{[]string{"F02"}, "pause of the holder", "another is granted, with a higher fence; what compares fences refuses the late one, what does not is overwritten", []Test{"store/postgres/process_test.go:TestProcesses_paused"}, ""},
			{[]string{"F03"}, "suspended host", "the holder is told in its first look", asleep, ""},
			{[]string{"F04", "F05", "F06"}, "holder cut off: both ways, replies or requests alone", "told before a rival is granted: a NOTIFY is no sign of life", []Test{"tests/promise/link_test.go:TestCutOff/postgres"}, ""},
			{[]string{"F04"}, "something on the way ends the connection, and the holder hears nothing", "no effect on who holds: a claim is not the connection's", []Test{"tests/promise/link_test.go:TestCutOff_ended/postgres"}, ""},
			{[]string{"F04"}, "a link that swallows everything", "calls end with their ctx, unknown; another is granted when the TTL is over", []Test{"store/postgres/trouble_test.go:TestStore_partition"}, ""},
			{[]string{"F08", "F25"}, "connections ended, restart, crash of the server or of one of its processes, as when memory runs out", "spans disjoint, fences rise, holds survive it, nobody needs a restart", []Test{
				"store/postgres/trouble_test.go:TestStore_restartUnderLoad", "store/postgres/trouble_test.go:TestStore_down",
			}, ""},
			{[]string{"F08"}, "crash with `synchronous_commit` off", "what was granted last is forgotten: **two holders**. Fences rise. The doctor says so before", []Test{"tests/promise/power_test.go:TestPower/postgres,_synchronous_commit_off"}, ""},
			{[]string{"F15"}, "the server's clock is set forward", "claims end early: **two holders**. Fences rise", []Test{"tests/promise/clock_test.go:TestClock_forward/postgres"}, ""},
			{[]string{"F16"}, "the server's clock is set back", "claims of dead holders live for longer; a dead waiter is handed the key for no longer than it had asked to wait. Fences rise, also of names that were forgotten", []Test{"tests/promise/clock_test.go:TestClock_back/postgres", "tests/promise/clock_test.go:TestClock_corrected/postgres", "tests/promise/clock_test.go:TestClock_deadWaiter/postgres"}, ""},
			{[]string{"F28"}, "failover to a synchronous standby", "one holder: a grant that the standby has not is not answered", []Test{"tests/promise/failover_test.go:TestFailover_postgres/sync"}, ""},
			{[]string{"F10"}, "failover to a standby that has not got the claim", "it grants another: **two holders**. Fences rise, unless its clock is behind", []Test{
				"tests/promise/failover_test.go:TestFailover_postgres/async", "tests/promise/failover_test.go:TestFailover_behind/postgres",
			}, ""},
			{[]string{"F10"}, "somebody cancels a commit that waits for the synchronous standby", "PostgreSQL answers it as done: **two holders** after a failover", []Test{"tests/promise/failover_test.go:TestFailover_cancelled"}, ""},
			{[]string{"F11"}, "the old primary lives on beside the new one", "**two holders**; fences rise. Whoever promotes a standby has to stop the old primary", []Test{"tests/promise/failover_test.go:TestFailover_split/postgres"}, ""},
			{[]string{"F28"}, "failover to a standby that has the claim", "it is held there too; before the promotion unavailable", []Test{"store/postgres/trouble_test.go:TestStore_standby"}, ""},
			{[]string{"F27"}, "a standby is asked", "unavailable, never held", []Test{"store/postgres/trouble_test.go:TestStore_standby"}, ""},
			{[]string{"F17"}, "a client's clock is wrong", wrongClockHolds, wrongClock, ""},
			{[]string{"F18"}, "a way that takes longer than the TTL", "no lease is told whose trust is over", []Test{"tests/promise/link_test.go:TestSlow/postgres"}, ""},
			{[]string{"F19"}, "reply lost, or cut at any byte", "unknown; asking again repairs it: one grant, one fence", []Test{"tests/promise/link_test.go:TestCuts/postgres 200 cuts", "store/postgres/trouble_test.go:TestStore_lostReply"}, ""},
			{[]string{"F20", "F21", "F22"}, "released twice, by another, or late", "not held, and nothing is changed", rules(`rules "stale", "ended"`), ""},
			{[]string{"F23"}, "a waiter dies in line", "the next one is served when the place is over", rules(`rule "expired entry"`), ""},
			{[]string{"F24"}, "two processes with 250 waiters each", "all are served", []Test{"tests/promise/link_test.go:TestHerd/postgres"}, ""},
			{[]string{"F26", "F34"}, "statement cancelled, no connection left, disk full", "unavailable, nothing is changed; held claims stay, and it heals by itself", []Test{
				"store/postgres/trouble_test.go:TestStore_cancelled", "store/postgres/trouble_test.go:TestStore_down", "store/postgres/full_linux_test.go:TestStore_diskFull",
			}, ""},
			{[]string{"F34"}, "the pool is exhausted", "claims are taken, renewed and given back on connections of their own", []Test{"store/postgres/trouble_test.go:TestStore_poolExhausted"}, ""},
			{nil, "a client idles in its transaction", "nobody else's hold is hurt; its key is refused to others", []Test{"store/postgres/sql_test.go:TestSQL_idle", "store/postgres/sql_test.go:TestSQL_python"}, ""},
			{nil, "a transaction that began long ago; one that is REPEATABLE READ or SERIALIZABLE", "judged by the clock; refused", []Test{"store/postgres/sql_test.go:TestSQL_oldTransaction", "store/postgres/sql_test.go:TestSQL_isolation"}, ""},
			{[]string{"F29"}, "PgBouncer in transaction mode", "everything but being told: those who wait poll", []Test{"store/postgres/schema_test.go:TestStore_pgbouncer"}, ""},
			{[]string{"F30"}, "all notifications lost", "those who wait ask again within the poll", []Test{"tests/promise/link_test.go:TestDeaf/postgres"}, ""},
			{[]string{"F35"}, "rows are deleted by hand", "the holder is told at its next renewal, and another may be granted before; fences rise", []Test{"tests/promise/removed_test.go:TestRemoved/postgres,_the_rows"}, ""},
			{[]string{"F38"}, "the password is replaced during a hold", "connections that are there go on, and that for renewals is there soon after the first grant: no lease is lost. With the old password: unavailable", []Test{"tests/promise/rotate_test.go:TestRotate_password/postgres"}, ""},
			{[]string{"F07"}, "waiter or listener cut off", "all who wait ask again when it is back", []Test{"tests/promise/link_test.go:TestCutOff_waiter/postgres", "store/postgres/trouble_test.go:TestStore_watchReconnects"}, ""},
			{[]string{"F36"}, "foreign or newer schema", "refused with the reason", []Test{"store/postgres/schema_test.go:TestSchema_foreign"}, ""},
		},
		Absent: []Absence{
			{[]string{"F09"}, "the tables are logged, and a restart keeps them"},
			{[]string{"F12", "F13", "F14"}, "there is one primary"},
			{[]string{"F31", "F37"}, "PostgreSQL has no watches and no election of its own"},
		},
		Tail: "[Why](adr/0013-postgres-tables.md).",
	}
}

func advisory() Section {
	rules := func(words string) []Test {
		return []Test{Test("store/pgadvisory/pgadvisory_test.go:TestStore " + words)}
	}
	return Section{
		Store: Advisory, Title: "PostgreSQL, advisory locks",
		Intro: "`store/pgadvisory`: a lock is held by a connection to the server, and ends with it. Shown on a real server:",
		Rows: []Row{
			{[]string{"F01"}, "crash of the holder", "free at once", []Test{"store/pgadvisory/fault_test.go:TestStore_holder_killed"}, ""},
			{[]string{"F02"}, "pause of the holder", "the server ends the claim after its TTL; the holder refuses its first guarded action; fences rise", []Test{"store/pgadvisory/fault_test.go:TestStore_holder_stopped"}, ""},
			{[]string{"F03"}, "suspended host", "the holder is told in its first look", asleep, ""},
			{[]string{"F04", "F05", "F06"}, "holder cut off: both ways, replies or requests alone", "no overlap, while the connection stays: the holder's trust ends before the server's", []Test{"tests/promise/link_test.go:TestCutOff/advisory", "store/pgadvisory/fault_test.go:TestStore_cut_off"}, ""},
			{[]string{"F04"}, "a load balancer, a NAT or a firewall on the way ends the connection towards the server, and the holder hears nothing", "**two holders**, until the holder's next renewal fails or its trust ends; fences rise", []Test{"tests/promise/link_test.go:TestCutOff_ended/advisory"}, ""},
			{[]string{"F08", "F25", "F26", "F35"}, "the server ends the connection, restarts, or crashes, as when its memory or its disk runs out", "**the lock is free before the holder knows**; a lease is lost as soon as the news arrives, without a renewal. Nothing is taken again by itself; fences rise", []Test{
				"tests/promise/power_test.go:TestPower_advisory", "store/pgadvisory/fault_test.go:TestStore_backend_ended", "store/pgadvisory/fault_test.go:TestStore_lease_ended", "store/pgadvisory/fault_test.go:TestStore_restart",
			}, ""},
			{[]string{"F10", "F11"}, "failover, while the holder is cut off and trusts on", "**two holders**; a standby that is behind **gives fences again**", []Test{"tests/promise/failover_test.go:TestFailover_advisory"}, ""},
			{[]string{"F15"}, "the server's clock is set forward", "the server may end the connection early: **the lock is free before the holder knows**, as above", []Test{"tests/promise/clock_test.go:TestClock_forward/advisory"}, ""},
			{[]string{"F16"}, "the server's clock is set back", "the lock of a holder that is cut off lives for longer", []Test{"tests/promise/clock_test.go:TestClock_back/advisory"}, ""},
			{[]string{"F07"}, "waiter cut off", "it asks again when the link is back", []Test{"tests/promise/link_test.go:TestCutOff_waiter/advisory"}, ""},
			{[]string{"F23"}, "a waiter dies in line", "the next one is served at once", []Test{"tests/promise/refusal_test.go:TestWaiterKilled"}, ""},
			{[]string{"F24"}, "two processes with 250 waiters each", "all are served", []Test{"tests/promise/link_test.go:TestHerd/advisory"}, ""},
			{[]string{"F30"}, "all news lost", "those who wait ask again within the poll", []Test{"tests/promise/link_test.go:TestDeaf/advisory"}, ""},
			{[]string{"F38"}, "the password is replaced during a hold", "connections that are there go on, and no lease is lost. With the old password: unavailable", []Test{"tests/promise/rotate_test.go:TestRotate_password/advisory"}, ""},
			{[]string{"F28"}, "failover", "all locks are free at once, the store knows at once, and the next grant is the new primary's", []Test{"store/pgadvisory/fault_test.go:TestStore_failover"}, ""},
			{[]string{"F17"}, "a client's clock is wrong", wrongClockHolds, wrongClock, ""},
			{[]string{"F19"}, "reply lost, or cut at any byte", "unknown; asking again repairs it, and no lock is left behind", []Test{"tests/promise/link_test.go:TestCuts/advisory 200 cuts", "store/pgadvisory/fault_test.go:TestStore_lost_reply"}, ""},
			{[]string{"F18"}, "a way that takes longer than the TTL", "no lease is told whose trust is over", []Test{"tests/promise/link_test.go:TestSlow/advisory"}, ""},
			{[]string{"F18"}, "news of a grant that comes late", "is not trusted: the server is asked first", []Test{"store/pgadvisory/fault_test.go:TestStore_late_grant"}, ""},
			{[]string{"F20", "F21", "F22"}, "released twice, by another, or late", "not held, and nothing is changed", rules(`rules "stale", "ended"`), ""},
			{[]string{"F34"}, "the server takes no more connections", "what is held stays so, and the connections that are there go on; unavailable where one is needed", []Test{"store/pgadvisory/fault_test.go:TestStore_no_connections_left"}, ""},
			{nil, "a statement cancelled, no fence left", "unavailable; no lock is left behind", []Test{"store/pgadvisory/fault_test.go:TestStore_statement_cancelled", "store/pgadvisory/behave_test.go:TestStore_grants"}, ""},
			{[]string{"F27", "F29", "F36"}, "a pooler that mixes connections, a standby, a sequence with a cache", "refused when it is opened, with the reason", []Test{
				"store/pgadvisory/behave_test.go:TestStore_pooler", "store/pgadvisory/behave_test.go:TestNew_standby", "store/pgadvisory/behave_test.go:TestStore_grants",
			}, ""},
			{nil, "two names with one number", "each refuses the other; nothing is granted twice", []Test{"store/pgadvisory/behave_test.go:TestStore_collision"}, ""},
			{nil, "a role with no rights", "**can take any lock**", []Test{"store/pgadvisory/behave_test.go:TestStore_grants"}, ""},
		},
		Absent: []Absence{
			{[]string{"F09"}, "locks are never kept, so every restart is without them"},
			{[]string{"F12", "F13", "F14"}, "there is one primary"},
			{[]string{"F31", "F37"}, "PostgreSQL has no watches and no election of its own"},
		},
		Tail: "[Why](adr/0014-advisory-locks.md).",
	}
}
