package promise

// Library is what holds on every store.
var Library = []Pledge{
	{
		"Trusted spans of exclusive leases of a key never overlap; with shared leases never a writer beside anybody",
		[]Test{"chaos_test.go:TestChaos lost, late and repeated requests and replies, frozen links, lost wake-ups"},
	},
	{
		"Trust ends at the send time of the last good renewal + TTL - margin, by the local clock, with a hanging network too; margin = max(TTL/100, min(TTL/10, 1 s))",
		[]Test{
			"internal/keeper/hold_test.go:TestHold_trust_counts_from_sent", "internal/keeper/hold_test.go:TestHold_trust_ends_though_a_renewal_hangs",
			"internal/keeper/hold_test.go:TestMargin", "lease_skew_test.go:TestLease_lost_beforeAFastStoreEndsIt",
		},
	},
	{
		"`Err`, `Valid` and a lease context's `Err` compare the clock at every call, for every lease that the context was made of, so a process that was paused sees the loss in its first look",
		[]Test{
			"lease_test.go:TestLease_lost_lookingAtTheClock", "lease_context_test.go:TestLease_Context_nested", "internal/keeper/hold_test.go:TestHold_Lose",
			"tests/kinds/pause_test.go:TestPause_nested a real process is stopped",
		},
	},
	{
		"The time in which the machine was suspended counts (Linux; on other systems the first renewal after it notices)",
		[]Test{
			"internal/keeper/clock_test.go:TestClock_counts_the_time_asleep", "internal/keeper/clock_test.go:TestHold_suspended_sees_the_loss_in_its_first_look",
			"internal/keeper/clock_test.go:TestKeeper_notices_a_suspension_by_itself",
		},
	},
	{
		"Fences of exclusive leases rise strictly in the order of grants, hand-offs included",
		[]Test{"chaos_test.go:TestChaos invariant I2", "turn_test.go:TestTurn_handsOn", `store/mem/mem_test.go:TestStore rule "fence"`},
	},
	{
		"First come, first served where the store can queue: goroutines of a process one by one, processes in turns of at most 128 leases, 50 ms long when another waits",
		[]Test{
			"turn_test.go:TestTurn_fifoInProcess", "turn_test.go:TestTurn_fifoAmongProcesses", "turn_test.go:TestTurn_handsOn",
			"turn_test.go:TestTurn_endsForOthers",
		},
	},
	{
		"A wake-up that is lost costs at most the poll: 1 s unless `Backoff` says otherwise; while another program holds the lock, 100 ms",
		[]Test{"wait_test.go:TestLocker_Lock_wakeUpLost", "wait_test.go:TestLocker_Lock_pollIsBounded", "wait_test.go:TestLocker_Lock_foreignClients"},
	},
	{
		"A holder that dies is succeeded when its TTL is over; one that dies within some 20 ms of a grant it had not asked for (see 14), when its place would have been over, if that is later",
		[]Test{"wait_test.go:TestLocker_Lock_succeedsCrash"},
	},
	{
		"A wait that ends leaves no place and no lock behind, or the error is `ErrUnknown`",
		[]Test{
			"wait_test.go:TestLocker_Lock_cancelled", "wait_test.go:TestLocker_Lock_cancelledInFirstAsk", "wait_test.go:TestLocker_Lock_notWithdrawn",
			"chaos_test.go:TestChaos nothing is left at Close where every request was answered, nor after the TTL elsewhere",
		},
	},
	{
		"An answer that was lost is asked for again with the same owner: one grant, one fence",
		[]Test{"wait_test.go:TestLocker_Lock_unknown"},
	},
	{
		"No renewal is under way when `Unlock` has returned",
		[]Test{"lease_unlock_test.go:TestLease_Unlock_endsRenewing", "internal/keeper/hold_test.go:TestHold_Stop_waits_for_a_renewal_that_others_need"},
	},
	{
		"`ErrHeld`, `ErrUnavailable`, `ErrUnknown`, `ErrLost`, `ErrInvalid` are never told for each other",
		[]Test{"errors_test.go:TestErrors_is", "chaos_test.go:TestChaos invariant I10"},
	},
	{
		"A lease that is unlocked frees the key at once; one that is lost keeps it closed for its `LockDelay`",
		[]Test{"lease_unlock_test.go:TestLease_Unlock", "lease_hold_test.go:TestLease_lockDelay"},
	},
	{
		"A lease that the store granted unasked, to the head of its line, is trusted for the rest of its place (3 s by default, 30 s at most), counted from the send of its last answered ask. The message starts no trust",
		[]Test{"told_test.go:TestLocker_Lock_told", "told_test.go:TestLocker_Lock_toldLate"},
	},
	{
		"Of calls that wait for each other in a circle, under contexts of their leases, exactly one is told within 2 s, across processes; nobody is where there is none. On stores with a line and values",
		[]Test{
			"deadlock_test.go:TestDeadlock", "deadlock_test.go:TestDeadlock_oneVictim", "deadlock_chaos_test.go:TestDeadlock_noFalseAlarm",
			"deadlock_chaos_test.go:TestDeadlock_noFalseAlarm_semaphore", "deadlock_chaos_test.go:TestDeadlock_chaos", "tests/kinds/deadlock_test.go:TestDeadlock real stores",
		},
	},
	{
		"A call for what its own context holds is told so at once, on every store",
		[]Test{"party_test.go:TestLocker_reentry"},
	},
	{
		"A result that was kept lives for as long as it was kept for, though a renewal or an ask arrives late",
		[]Test{`store/mem/mem_test.go:TestStore rule "record"`},
	},
	{
		"An error of `Do`, and of every other call that runs a function under a lock, is `ErrNotAcquired` if and only if the function did not run; a release that failed is no error of the run",
		[]Test{"outcome_test.go:TestErrNotAcquired", "outcome_test.go:TestErrNotAcquired_nested", "do_test.go:TestDo", "tests/promise/closed_test.go:TestDo_serverDies real servers"},
	},
	{
		"A call that acquires or looks returns within 20 ms of the end of its context, though the store does not answer; what it may have left is undone behind it. Without such a bound it fails after 6 s",
		[]Test{
			"bound_test.go:TestBound", "bound_test.go:TestBound_waiting", "bound_test.go:TestBound_none", "bound_test.go:TestBound_close",
			"tests/promise/closed_test.go:TestBound_serverHangs servers that are stopped",
		},
	},
	{
		"A release that the store refused or did not answer is repeated, for 5 s at most and while the store keeps the claim: a connection that the server has closed costs nobody a TTL",
		[]Test{"lease_unlock_test.go:TestLease_Unlock_repeats", "tests/promise/closed_test.go:TestConnectionClosed real servers"},
	},
}
