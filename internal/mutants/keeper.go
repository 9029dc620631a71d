package main

// keeper are mutants of renewal and trust.
func keeper() []mutant {
	const file, pkg = "internal/keeper/keeper.go", "internal/keeper"
	const hold, extend = "internal/keeper/hold.go", "internal/keeper/extend.go"
	return []mutant{
		{
			Name: "renewal-from-the-reply", M: "M12", Why: "a renewal that was slow is trusted for too long",
			File: file, Old: "	k.settle(b, sent, k.send(ctx, rs))\n",
			New: "	out := k.send(ctx, rs)\n	sent = k.clock.Now()\n	k.settle(b, sent, out)\n",
			Pkg: pkg, Test: "TestHold_trust_counts_from_sent",
		},
		{
			Name: "no-margin", M: "M13", Why: "clocks that run at different rates overlap",
			File: hold, Old: "{ return max(ttl/100, min(ttl/10, time.Second)) }", New: "{ return 0 * ttl }",
			Test: "TestLease_lost_beforeAFastStoreEndsIt",
		},
		{
			Name: "not-tried-again", M: "M17", Why: "one failed renewal loses the lease",
			File: hold, Old: "		h.renew = h.k.clock.Now() + jitter(pause)", New: "		h.renew = never + 0*jitter(pause)",
			Pkg: pkg, Test: "TestHold_survives_failures_shorter_than_its_trust",
		},
		{
			Name: "late-reply-resurrects", M: "M19", Why: "a renewal that is answered after the loss brings the lease back",
			File: file, Old: "		if h.ended == nil {\n			h.answered(sent, now, out[i])\n		}\n",
			New: "		h.ended = nil\n		h.until.Store(int64(never))\n		h.answered(sent, now, out[i])\n",
			Pkg: pkg, Test: "TestHold_trust_ends_though_a_renewal_hangs",
		},
		{
			Name: "renewal-survives-stop", M: "M18", Why: "a lease is renewed after it was released",
			File: hold, Old: "	if inFlight != nil { // a lost hold can have one too\n		_ = inFlight.wait(ctx)\n	}\n", New: "	_ = inFlight\n",
			Pkg: pkg, Test: "TestHold_Stop_waits_for_a_renewal_that_others_need",
		},
		{
			Name: "loss-by-the-store-alone", Why: "trust goes on while a renewal hangs",
			File: hold, Old: "	h.at = until\n	if h.inFlight == nil {\n", New: "	h.at = never\n	if h.inFlight == nil {\n",
			Pkg: pkg, Test: "TestHold_trust_ends_though_a_renewal_hangs",
		},
		{
			Name: "two-renewals-at-once", Why: "the answers of two renewals cross",
			File: file, Old: "		case h.inFlight == nil && (", New: "		case true && (",
			Pkg: pkg, Test: "TestKeeper_gathers_nothing_that_is_under_way",
		},
		{
			Name: "sleep-does-not-count", M: "M14", Why: "a machine wakes from a suspension with a lease that another process has by now",
			File: "internal/keeper/clock.go", Old: "	return now.Sub(c.base) + time.Duration(c.slept.Load())\n", New: "	return now.Sub(c.base)\n",
			Pkg: pkg, Test: "TestClock_counts_the_time_asleep",
		},
		{
			Name: "time-of-day-counts", M: "M15", Why: "a change of the clock ends or prolongs all leases",
			File: "internal/keeper/clock.go", Old: "	return now.Sub(c.base) + time.Duration(c.slept.Load())\n", New: "	return now.Sub(c.base) + moved\n",
			Pkg: pkg, Test: "TestClock_ignores_a_time_of_day_that_is_set",
		},
		{
			Name: "late-grant-counts", M: "M06", Why: "a grant is trusted although its answer took longer than the trust it gives",
			File: file, Old: "	if k.closed || k.clock.Now() >= h.valid {\n", New: "	if k.closed {\n",
			Pkg: pkg, Test: "TestKeeper_Keep_too_late",
		},
		{
			Name: "timer-of-before-the-sleep", Why: "leases that begin after a suspension are not renewed, and their loss is not reported, until an old timer fires",
			File: file, Old: "k.queue[0].at-k.clock.Slept() >= k.wake", New: "k.queue[0].at >= k.wake",
			Pkg: pkg, Test: "TestKeeper_renews_what_begins_after_a_suspension",
		},
		{
			Name: "provisional-shares-a-batch", Why: "a slow store renews a lease in time, and a contended key of the process makes the answer come too late",
			File: hold, Old: "	if h.provisional {\n		return -size\n	}\n", New: "",
			Pkg: pkg, Test: "TestKeeper_renews_apart_from_provisional_ones",
		},
		{
			Name: "ended-one-takes-the-time", Why: "healthy renewals fail because one of their batch ended before the batch was sent",
			File: hold, Old: "	if h.provisional && h.ended == nil {", New: "	if h.provisional {",
			Pkg: pkg, Test: "TestKeeper_renews_together_with_a_provisional_one_that_ended",
		},
		{
			Name: "calls-keep-renewals-off", Why: "a leader that publishes again and again loses its term",
			File: extend, Old: "	if h.renew <= h.k.clock.Now() {\n", New: "	if false {\n",
			Pkg: pkg, Test: "TestHold_Alone_again_and_again_keeps_no_renewal_off",
		},
		{
			Name: "call-takes-all-the-trust", Why: "one call that hangs loses the lease",
			File: extend, Old: "context.WithTimeout(b.ctx, limit)\n	defer cancel()\n	return do(", New: "context.WithTimeout(b.ctx, tries*limit)\n	defer cancel()\n	return do(",
			Pkg: pkg, Test: "TestHold_Alone_leaves_time_for_renewals",
		},
		{
			Name: "shorter-extend-trusts-the-old-end", Why: "an unanswered Extend shortened the claim, and trust goes on",
			File: extend, Old: "	h.valid = min(h.valid, sent+ttl-Margin(ttl))\n", New: "",
			Pkg: pkg, Test: "TestHold_Extend_shorter_and_unanswered",
		},
	}
}
