package promise

// Library lists the promises that hold on every store.
var Library = []Pledge{
	{
		What: "Two exclusive leases of one name are never trusted at the same time, and an " +
			"exclusive lease never at the same time as a shared one",
		Tests: []Test{
			"chaos_test.go:TestChaos lost, late and repeated requests and replies, frozen " +
				"links, lost wake-ups",
		},
	},
	{
		What: "Trust ends at: send time of the last successful renewal + TTL - margin, on the " +
			"local clock, even if the network hangs. margin = max(TTL/100, min(TTL/10, 1 s))",
		Tests: []Test{
			"internal/keeper/hold_test.go:TestHold_trust_counts_from_sent",
			"internal/keeper/hold_test.go:TestHold_trust_ends_though_a_renewal_hangs",
			"internal/keeper/hold_test.go:TestMargin",
			"lease_time_test.go:TestLease_lost_beforeAFastStoreEndsIt",
		},
	},
	{
		What: "`Err`, `Valid` and the `Err` of a lease context compare the clock at every call, " +
			"for every lease that the context was made from. A process that was paused " +
			"therefore sees the loss at its first check",
		Tests: []Test{
			"lease_test.go:TestLease_lost_lookingAtTheClock",
			"lease_test.go:TestLease_Context_nested",
			"internal/keeper/hold_test.go:TestHold_Lose",
			"tests/kinds/pause_test.go:TestPause_nested a real process is stopped",
		},
	},
	{
		What: "Time in which the machine was suspended counts (on Linux; on other systems the " +
			"first renewal afterwards detects the loss)",
		Tests: []Test{
			"internal/keeper/clock_test.go:TestClock_counts_the_time_asleep",
			"internal/keeper/clock_test.go:TestHold_suspended_sees_the_loss_in_its_first_look",
			"internal/keeper/clock_test.go:TestKeeper_notices_a_suspension_by_itself",
		},
	},
	{
		What: "Fences of exclusive leases rise strictly in the order of grants, hand-offs included",
		Tests: []Test{
			"chaos_test.go:TestChaos invariant I2",
			"tenure_test.go:TestTenure_handsOff",
			`store/mem/mem_test.go:TestStore rule "fence"`,
		},
	},
	{
		What: "First come, first served, on stores with a queue. Goroutines of one process are " +
			"served one by one. While another process waits, a process keeps the lock for at " +
			"most 128 leases and 50 ms",
		Tests: []Test{
			"tenure_test.go:TestTenure_fifoInProcess",
			"tenure_test.go:TestTenure_fifoAmongProcesses",
			"tenure_test.go:TestTenure_handsOff",
			"tenure_test.go:TestTenure_endsForOthers",
		},
	},
	{
		What: "A lost wake-up delays a waiter by at most one poll interval: 1 s unless " +
			"`Backoff` sets another, 100 ms while a program without distlock holds the lock",
		Tests: []Test{
			"wait_test.go:TestLocker_Lock_wakeUpLost",
			"wait_test.go:TestLocker_Lock_pollIsBounded",
			"wait_test.go:TestLocker_Lock_foreignClients",
		},
	},
	{
		What: "If a holder dies, the next waiter gets the lock when the TTL expires. If it dies " +
			"within about 20 ms of a pushed grant (see 14), the next waiter gets the lock when " +
			"the holder's queue entry would have expired, if that is later",
		Tests: []Test{"wait_test.go:TestLocker_Lock_succeedsCrash"},
	},
	{
		What: "A wait that ends leaves no queue entry and no lock behind. If this is not " +
			"certain, the error is `ErrUnknown`",
		Tests: []Test{
			"wait_test.go:TestLocker_Lock_cancelled",
			"wait_test.go:TestLocker_Lock_cancelledInFirstAttempt",
			"wait_test.go:TestLocker_Lock_notWithdrawn",
			"chaos_test.go:TestChaos nothing is left at Close if every request was answered, " +
				"and nothing after the TTL otherwise",
		},
	},
	{
		What: "A request whose reply was lost is repeated with the same owner: one grant, one " +
			"fence",
		Tests: []Test{"wait_test.go:TestLocker_Lock_unknown"},
	},
	{
		What: "No renewal is in flight after `Unlock` has returned",
		Tests: []Test{
			"lease_unlock_test.go:TestLease_Unlock_endsRenewing",
			"internal/keeper/hold_test.go:TestHold_Stop_waits_for_a_renewal_that_others_need",
		},
	},
	{
		What: "`ErrHeld`, `ErrUnavailable`, `ErrUnknown`, `ErrLost` and `ErrInvalid` are never " +
			"returned in place of each other",
		Tests: []Test{"errors_test.go:TestErrors_is", "chaos_test.go:TestChaos invariant I10"},
	},
	{
		What: "`Unlock` frees the name at once. After a lost lease, the name stays closed for " +
			"the `LockDelay`",
		Tests: []Test{
			"lease_unlock_test.go:TestLease_Unlock",
			"lease_time_test.go:TestLease_lockDelay",
		},
	},
	{
		What: "Pushed grant: the store grants the lock to the head of its queue. The lease is " +
			"trusted until its queue entry expires (default 3 s, at most 30 s), counted from " +
			"the send time of its last answered attempt. The message starts no trust",
		Tests: []Test{"pushed_test.go:TestLocker_Lock_pushed", "pushed_test.go:TestLocker_Lock_pushedLate"},
	},
	{
		What: "If calls under lease contexts wait for each other in a cycle, exactly one of " +
			"them returns `ErrDeadlock` within 2 s, across processes. Without a cycle, no call " +
			"does. On stores with a queue and values",
		Tests: []Test{
			"deadlock_test.go:TestDeadlock",
			"deadlock_test.go:TestDeadlock_oneVictim",
			"chaos_test.go:TestDeadlock_noFalseAlarm",
			"chaos_test.go:TestDeadlock_noFalseAlarm_semaphore",
			"chaos_test.go:TestDeadlock_chaos",
			"tests/kinds/deadlock_test.go:TestDeadlock real stores",
		},
	},
	{
		What: "A call for a name that its own context already holds returns an error at once, " +
			"on every store",
		Tests: []Test{"deadlock_test.go:TestLocker_reentry"},
	},
	{
		What: "A kept result stays for the whole time that was requested, even if a renewal or " +
			"an attempt arrives late",
		Tests: []Test{`store/mem/mem_test.go:TestStore rule "record"`},
	},
	{
		What: "An error of `Do`, and of every other call that runs a function under a lock, is " +
			"`ErrNotAcquired` if and only if the function did not run. A failed release is not " +
			"an error of the run",
		Tests: []Test{
			"do_test.go:TestErrNotAcquired",
			"do_test.go:TestErrNotAcquired_nested",
			"do_test.go:TestDo",
			"tests/guarantees/closed_test.go:TestDo_serverDies real servers",
		},
	},
	{
		What: "A call that acquires or reads returns within 20 ms of the end of its context, " +
			"even if the store does not answer; through go-redis within 70 ms. Leftovers are " +
			"undone in the background. A call without a deadline fails after 6 s",
		Tests: []Test{
			"locker_test.go:TestBound",
			"locker_test.go:TestBound_waiting",
			"locker_test.go:TestBound_none",
			"locker_test.go:TestBound_close",
			"tests/guarantees/closed_test.go:TestBound_serverHangs servers that are stopped",
			"store/redis/calls_test.go:TestCalls go-redis",
		},
	},
	{
		What: "A release that the store refused or did not answer is repeated, for at most 5 s " +
			"and while the store keeps the claim. If the server closes a connection, waiters do " +
			"not have to wait for the TTL",
		Tests: []Test{
			"lease_unlock_test.go:TestLease_Unlock_repeats",
			"tests/guarantees/closed_test.go:TestConnectionClosed real servers",
		},
	},
}
