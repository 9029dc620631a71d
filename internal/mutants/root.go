package main

// root are mutants of acquire, wait, hand-off and release.
func root() []mutant {
	return []mutant{
		{
			Name: "validity-from-the-reply", M: "M12", Why: "trust outlasts the claim by the travel time of the reply",
			File: "request.go", Old: "	res, err = l.store.Acquire(call, ask)\n",
			New:  "	res, err = l.store.Acquire(call, ask)\n	sent = l.clock.Now()\n",
			Test: "TestLocker_Lock_lateAnswer",
		},
		{
			Name: "outer-lease-not-checked", M: "M12", Why: "after a pause, the context of several leases is still valid although an outer lease is lost",
			File: "context.go", Old: "		_ = outer.Err()\n", New: "",
			Test: "TestLease_Context_nested",
		},
		{
			Name: "no-lease-panics", Why: "work whose context was not passed on panics in place of being refused",
			File: "lease.go", Old: "func (l *Lease) none() bool { return l == nil || l.t == nil }", New: "func (l *Lease) none() bool { return false }",
			Test: "TestLease_none",
		},
		{
			Name: "held-at-the-last-answer", Why: "a wait that ends reports for how long the lock was held when the wait began",
			File: "waiter.go", Old: "		e = n.held.now()\n", New: "		e = *n.held\n",
			Test: "TestLocker_Lock_heldUntilNow",
		},
		{
			Name: "past-end-is-no-expiry", Why: "a key that has just expired is reported as one that never expires",
			File: "errors.go", Old: "min(e.Left, max(e.Left-passed, time.Millisecond))", New: "max(e.Left-passed, 0)",
			Test: "TestLocker_Lock_heldPastItsEnd",
		},
		{
			Name: "no-expiry-not-reported", Why: "no error says that a key of another program never expires",
			File: "request.go", Old: "	e.endless = b.Owner != \"\" &&", New: "	e.endless = b.Owner == \"\" &&",
			Test: "TestLocker_Lock_heldWithoutExpiry",
		},
		{
			Name: "deadline-twice", Why: "an error says twice that the context has ended",
			File: "errors.go", Old: "	if errors.Is(err, cause) {\n", New: "	if false {\n",
			Test: "TestLocker_Lock_oneDeadline",
		},
		{
			Name: "options-of-another-kind", Why: "Exact and Preferred on a lock are accepted and have no effect",
			File: "request.go", Old: "	case opt.exact && !l.defaults.exact && k != kindRate:\n		return errExact\n	case opt.preferred", New: "	case opt.preferred",
			Test: "TestOptions_otherKind",
		},
		{
			Name: "shortest-hold-kept-after-its-end", Why: "Unlock near the end of AtLeast renews until it fails, on a store that cannot renew for so short a time",
			File: "lease.go", Old: "; rest > 0 && !l.unused {\n", New: "; l.r.opt.atLeast > 0 && !l.unused {\n",
			Test: "TestLease_Unlock_shortestHoldEnds",
		},
		{
			Name: "release-not-repeated", Why: "a connection that the server has closed leaves the lock taken for its TTL",
			File: "lease.go", Old: "		case <-pause.C:\n", New: "		case <-pause.C:\n			return err\n",
			Test: "TestLease_Unlock_repeats",
		},
		{
			Name: "released-is-lost", Why: "a release whose answer was lost is repeated, and the second answer is taken for a loss",
			File: "lease.go", Old: "		unsure = unsure || newOpError(\"\", \"\", err).Unknown\n", New: "",
			Test: "TestLease_Unlock_repeats",
		},
		{
			Name: "release-bounded-by-maxhold", Why: "an Unlock shortly before MaxHold has no time to be answered",
			File: "lease.go", Old: "max(hold.Life(), minTTL)", New: "max(hold.Left(), minTTL)",
			Test: "TestLease_Unlock_beforeMaxHold",
		},
		{
			Name: "release-error-returned", Why: "a job that was done is reported as if the store had kept it from running, and is done again",
			File: "do.go", Old: "errors.Is(lost, ErrLost) && !errors.Is(err, lost)", New: "lost != nil && !errors.Is(err, lost)",
			Test: "TestDo",
		},
		{
			Name: "inner-refusal-is-the-outer-one", Why: "a function that ran and could not take a second lock is reported as not run, and runs again",
			File: "errors.go", Old: "	return target != ErrNotAcquired && errors.Is(e.err, target)\n", New: "	return errors.Is(e.err, target)\n",
			Test: "TestErrNotAcquired_nested",
		},
		{
			Name: "undo-before-return", Why: "a call on a store that hangs returns a second after its context has ended",
			File: "aside.go", Old: "	timer.Reset(min(limit, grace()))\n", New: "	timer.Reset(limit)\n",
			Test: "TestBound",
		},
		{
			Name: "second-attempt-with-a-new-limit", Why: "TryLock takes 11 s on a store that hangs",
			File: "request.go", Old: "unknown && left > 0 && ctx.Err() == nil {\n		again, cancel := context.WithTimeout(ctx, left)\n", New: "unknown && left > -time.Hour && ctx.Err() == nil {\n		again, cancel := context.WithCancel(ctx)\n",
			Test: "TestBound_none",
		},
		{
			Name: "undone-behind-nobody", Why: "Close returns while an earlier call still undoes its request",
			File: "aside.go", Old: "	l.wg.Go(func() {\n		var r result\n", New: "	go func(f func()) { f() }(func() {\n		var r result\n",
			Test: "TestBound_close",
		},
		{
			Name: "unused-lease-held-for-its-shortest-time", Why: "a LockAll that fails leaves names taken for AtLeast",
			File: "lease.go", Old: "rest > 0 && !l.unused {", New: "rest > 0 {",
			Test: "TestLocker_LockAll_atLeast",
		},
		{
			Name: "foreign-release-waited-for", Why: "next to SET NX clients, whose release wakes nobody, a waiter starves",
			File: "place.go", Old: "	case p.foreign(blocker):\n", New: "	case p.foreign(blocker) && p.wake == nil:\n",
			Test: "TestLocker_Lock_foreignClients",
		},
		{
			Name: "trust-from-the-message", M: "M12 M27", Why: "a message with a long delay makes a lease outlast its claim",
			File: "place.go", Old: "Behind: told.Behind}, p.stood,", New: "Behind: told.Behind}, l.clock.Now(),",
			Test: "TestLocker_Lock_toldLate",
		},
		{
			Name: "pushed-for-an-earlier-entry", M: "M27", Why: "a late message makes a lease of a claim that has ended",
			File: "place.go", Old: "	if !p.stays || told.Fence", New: "	if told.Fence",
			Test: "TestLocker_Lock_toldOfThePast",
		},
		{
			Name: "pushed-for-an-earlier-claim", M: "M27", Why: "the same, where the fence of the holder shows it",
			File: "place.go", Old: "told.Fence <= p.above || ", New: "",
			Test: "TestLocker_Lock_toldOfThePast",
		},
		{
			Name: "pushed-for-an-unseen-entry", M: "M27", Why: "the same, where the first queue entry belongs to an unanswered attempt",
			File: "place.go", Old: "	if !p.begun {\n", New: "	if !p.begun && err == nil {\n",
			Test: "TestLocker_Lock_toldOfAnUnseenPlace",
		},
		{
			Name: "part-of-a-ttl-for-good", Why: "a lease without renewal keeps only the rest of a queue entry, and a claim that must outlive its trust does not",
			File: "place.go", Old: " || o.fixed || o.delay > 0 {", New: " {",
			Test: "TestLocker_Lock_toldButAsked",
		},
		{
			Name: "pushed-grant-inherited", Why: "a reader gets a fence lower than that of a claim that ended before the reader came",
			File: "place.go", Old: "	known := p.since\n", New: "	known := p.seen\n",
			Test: "TestTurn_readerInheritsNoUnaskedGrant",
		},
		{
			Name: "owner-reused", M: "M28", Why: "two goroutines of a process, or two tenures, have one claim",
			File: "request.go", Old: "{ return rand.Text() }", New: "{ return rand.Text()[:0] + \"me\" }",
			Test: "TestChaos", Args: chaos("300"),
		},
		{
			Name: "second-attempt-with-a-new-owner", Why: "the claim of the first attempt, whose answer was lost, refuses its own caller",
			File: "request.go", Old: "		again, cancel := context.WithTimeout(ctx, left)\n", New: "		again, cancel := context.WithTimeout(ctx, left)\n		ask.Owner = newOwner()\n",
			Test: "TestLocker_Lock_unknown",
		},
		{
			Name: "unknown-not-withdrawn", Why: "an unanswered attempt leaves a claim behind for its TTL",
			File: "request.go", Old: "		op.Unknown = l.undo(ctx, r, ask.ID) != nil\n", New: "		op.Unknown = false\n",
			Test: "TestLocker_Lock_unknown",
		},
		{
			Name: "unknown-is-held", M: "M21a", Why: "an attempt whose answers were lost is reported as held by another",
			File: "request.go", Old: "	case err == nil && (res.Granted || !unknown):\n", New: "	case err == nil && (res.Granted || !unknown), err != nil && unknown:\n",
			Test: "TestLocker_TryLock_unknown",
		},
		{
			Name: "unknown-is-granted", M: "M21b", Why: "an attempt whose answers were lost is reported as granted",
			File: "request.go", Old: "	switch {\n	case err == nil && (res.Granted || !unknown):\n",
			New:  "	if err != nil && unknown {\n		res.Granted, err = true, nil\n	}\n	switch {\n	case err == nil && (res.Granted || !unknown):\n",
			Test: "TestLocker_Lock_unknown",
		},
		{
			Name: "unanswered-release-is-done", M: "M21b", Why: "a key that may be taken for the rest of its TTL is reported as released",
			File: "lease.go", Old: "		err, final = newOpError(\"release\", l.r.name, err), false\n", New: "		err = nil\n",
			Test: "TestLease_Unlock",
		},
		{
			Name: "clean-up-on-a-dead-context", M: "M22", Why: "a cancelled wait leaves its claim or queue entry behind",
			File: "request.go", Old: "l.lastCall(ctx, min(withdrawLimit, r.limit()), new(limited))",
			New:  "context.WithTimeout(ctx, min(withdrawLimit, r.limit()))",
			Test: "TestLocker_Lock_cancelledInFirstAsk",
		},
		{
			Name: "left-before-another", Why: "a call leaves a queue entry behind and does not report it, if a call of another kind waits behind it",
			File: "waiter.go", Old: "	if n.running && n.idle() && ", New: "	if n.running && n.first() == nil && ",
			Test: "TestLocker_Lock_notWithdrawnBeforeAnother",
		},
		{
			Name: "granted-unseen-before-another", Why: "a call leaves a claim behind and reports that nothing was changed",
			File: "waiter.go", Old: "	if n.running && n.idle() && ", New: "	if n.running && n.first() == nil && ",
			Test: "TestLocker_Lock_unknownBeforeAnother",
		},
		{
			Name: "unknown-and-unavailable", Why: "a call that may have left a claim also reports that nothing was changed",
			File: "waiter.go", Old: "				unsure.Unknown = true\n", New: "",
			Test: "TestLocker_Lock_unknownBeforeAnother",
		},
		{
			Name: "attempt-continues-before-another", Why: "a cancelled call waits for an answer that nobody needs",
			File: "line.go", Old: "	if n.interrupt != nil && n.idle() {\n", New: "	if n.interrupt != nil && n.first() == nil {\n",
			Test: "TestLocker_Lock_cancelledBeforeAnother",
		},
		{
			Name: "observer-panics-in-attempt", Why: "all calls for the key wait for one that has ended",
			File: "line.go", Old: "			n.finish(r)\n			l.tidy(n)\n", New: "",
			Test: "TestObserver_panics",
		},
		{
			Name: "observer-panics-waiting", Why: "a call that has ended stays in the queue, and so do all behind it",
			File: "waiter.go", Old: "			l.leave(ctx, n, w)\n			if", New: "			if",
			Test: "TestObserver_panics",
		},
		{
			Name: "observer-panics-delivered", Why: "a lease without a caller is renewed for ever",
			File: "waiter.go", Old: "				w.lease.unless(ctx, &told)\n", New: "				_ = w\n",
			Test: "TestObserver_panics",
		},
		{
			Name: "observer-panics-granted", Why: "a lease without a caller is renewed for ever",
			File: "line.go", Old: "	if !*got {\n		_ = l.discard(ctx)\n", New: "	if !*got {\n		_ = ctx\n",
			Test: "TestObserver_panics",
		},
		{
			Name: "observer-panics-between-names", Why: "the leases of the other names are renewed for ever",
			File: "multi.go", Old: "			_ = s.discard(ctx)\n", New: "			_ = s\n",
			Test: "TestObserver_panics",
		},
		{
			Name: "observer-panics-filling", Why: "all calls for the name wait for a share that no call requests",
			File: "share.go", Old: "	defer func() { // also if an observer panics: then there is neither a share nor an error\n",
			New:  "	defer func() {\n		if err == nil && s.left == 0 {\n			return\n		}\n",
			Test: "TestObserver_panics_othersGoOn",
		},
		{
			Name: "unlock-on-a-dead-context", M: "M22", Why: "a deferred Unlock after a cancel frees nothing",
			File: "lease.go", Old: "		err = l.giveBack(call)\n", New: "		err = l.giveBack(ctx)\n",
			Test: "TestLease_Unlock",
		},
		{
			Name: "renewal-survives-release", M: "M18 M19", Why: "a lease is renewed after it was released",
			File: "lease.go", Old: "		err = hold.Stop(call) // no renewal is under way from here on\n", New: "		_ = hold.Stop\n",
			Test: "TestLease_Unlock_endsRenewing",
		},
		{
			Name: "loss-by-the-timer-alone", M: "M16", Why: "a process that was paused continues with a lease that another process has by now",
			File: "lease.go", Old: "	if !l.t.hold.Lose() {\n", New: "	if l.t != nil {\n",
			Test: "TestLease_lost_lookingAtTheClock",
		},
		{
			Name: "not-held-is-a-clean-release", Why: "work that overlapped with another holder is reported as done",
			File: "lease.go", Old: " && unsure:", New: ":",
			Test: "TestLease_lost_saysTheStore",
		},
		{
			Name: "lost-run-returns-nil", Why: "a job that lost its lock is reported as done",
			File: "do.go", Old: "		return errors.Join(err, lost)\n", New: "		return err\n",
			Test: "TestDo",
		},
		{
			Name: "fence-reused-on-hand-off", M: "M04a M04b", Why: "two successive holders have the same fence",
			File: "turn.go", Old: "		lease.fence = t.fence + t.used\n", New: "		lease.fence = t.fence\n",
			Test: "TestTurn_handsOn",
		},
		{
			Name: "reacquired-without-a-floor", Why: "the fences of a tenure are used up and start again",
			File: "turn.go", Old: "		ask.Floor = t.fence + driver.Span\n", New: "		ask.Floor = 0\n",
			Test: "TestTurn_handsOn",
		},
		{
			Name: "tenure-goes-on-for-ever", Why: "other processes starve while one has waiters",
			File: "turn.go", Old: "	return (t.behind > 0 || !t.l.features.Queue) &&", New: "	return false &&",
			Test: "TestTurn_makesRoomWithoutALine",
		},
		{
			Name: "store-never-checked-again", Why: "a tenure does not learn that others wait",
			File: "turn.go", Old: "t.heard < min(turnTime, t.r.opt.ttl/4)\n", New: "t.heard < t.r.opt.ttl\n",
			Test: "TestTurn_endsForOthers",
		},
		{
			Name: "shared-handed-off", Why: "a reader gets a fence lower than one that has already ended, and passes a writer",
			File: "turn.go", Old: "	if w == nil || !t.r.alone() || t.sealed ||", New: "	if w == nil || t.sealed ||",
			Test: "TestChaos", Args: chaos("500"),
		},
		{
			Name: "handed-off-though-extended", Why: "the next holder has a TTL that it did not request",
			File: "lease.go", Old: "	l.t.sealed = true\n", New: "",
			Test: "TestTurn_handsOnOnlyWhatIsTheSame",
		},
		{
			Name: "handed-off-to-another-kind", Why: "a caller gets a claim that shows the holder of another call",
			File: "turn.go", Old: " || !w.r.same(t.r) || !t.hold.Trusted(0) {\n		return false\n", New: " || !t.hold.Trusted(0) {\n		return false\n",
			Test: "TestTurn_handsOnOnlyWhatIsTheSame",
		},
		{
			Name: "attempt-then-subscribe", M: "M23", Why: "a release between the refusal and the watch wakes nobody",
			File: "runner.go",
			Old:  "		if p.wake == nil {\n			// Watch before the ask that follows, so that no wake-up falls in between.\n			p.wake = driver.Watch(p.ctx, l.store, p.ask.ID)\n		}\n		granted, pause := l.ask(n, p, w)\n",
			New:  "		granted, pause := l.ask(n, p, w)\n		if p.wake == nil {\n			p.wake = driver.Watch(p.ctx, l.store, p.ask.ID)\n		}\n",
			Test: "TestLocker_Lock_watchesBeforeItAsks",
		},
		{
			Name: "no-poll", M: "M24", Why: "a waiter waits for ever after a lost wake-up",
			File: "place.go", Old: "and wakes nobody\n	}\n	return pause\n", New: "and wakes nobody\n	}\n	return pause + 1000*time.Hour\n",
			Test: "TestLocker_Lock_wakeUpLost",
		},
		{
			Name: "queue-entry-not-removed", Why: "a cancelled waiter blocks the queue",
			File: "place.go", Old: "	return l.withdraw(l.running, p.r, p.ask.ID)\n", New: "	return nil\n",
			Test: "TestLocker_Lock_cancelled",
		},
		{
			Name: "queue-entry-lives-long", M: "M25", Why: "a dead waiter blocks all waiters behind it",
			File: "place.go", Old: "min(3*max(r.opt.most, time.Second), longestPlace)", New: "300 * max(r.opt.most, time.Second)",
			Test: "TestLocker_Lock_placeIsShort",
		},
		{
			Name: "ensure-renews-nothing", Why: "a step begins under a lease that ends during the step",
			File: "internal/keeper/hold.go", Old: "	if h.Trusted(d) { // a renewal may have been under way\n", New: "	if true {\n",
			Test: "TestLease_Ensure",
		},
		{
			Name: "ensured-although-it-ends", Why: "a step begins that MaxHold cuts off",
			File: "lease.go", Old: "	case hold.Life() > d: // what ends it sooner is not the store\n", New: "	case hold.Life() > d:\n		return nil\n	case false:\n",
			Test: "TestLease_Ensure",
		},
		{
			Name: "early-attempts-count", Why: "three attempts are used up within milliseconds, and the pauses of Backoff are never made",
			File: "place.go", Old: "if !w.r.opt.paced || now >= w.next {", New: "if true {",
			Test: "TestMaxAttempts",
		},
		{
			Name: "notified-means-not-paced", Why: "where the store notifies, the pauses of Backoff are ignored",
			File: "place.go", Old: "	case o.paced:\n	case p.foreign", New: "	case o.paced && p.wake == nil:\n	case p.foreign",
			Test: "TestMaxAttempts",
		},
		{
			Name: "longer-pauses-of-another", Why: "a waiter sleeps as long as one that has given up wanted to",
			File: "waiter.go", Old: "first != nil && first.r.opt.paced {", New: "first == w {",
			Test: "TestBackoff_afterAnother",
		},
		{
			Name: "first-error-is-retried", Why: "a wrong password looks like a long wait",
			File: "line.go", Old: "	case err != nil:\n	case res.Granted:\n", New: "	case err != nil && r.opt.wait != 0:\n		return l.wait(ctx, n, &waiter{r: r, seq: seq})\n	case res.Granted:\n",
			Test: "TestLocker_Lock_firstError",
		},
		{
			Name: "release-never-sent", Why: "every key stays taken until its TTL expires",
			File: "lease.go", Old: "	return store.Release(ctx, id)\n", New: "	return nil\n",
			Test: "TestChaos", Args: chaos("400"),
		},
		{
			Name: "withdrawal-never-sent", Why: "queue entries and unseen grants block other callers",
			File: "request.go", Old: "	err := l.store.Release(call, id)\n", New: "	err := call.Err()\n",
			Test: "TestChaos", Args: chaos("400"),
		},
		{
			Name: "foreign-code-under-the-lock", Why: "a check of a lease context ends the lease, and that waits for the lock",
			File: "claims.go",
			Old:  "	cause := context.Cause(ctx) // before the lock is taken: to look at a lease's context may end the lease\n	l.mu.Lock()\n",
			New:  "	l.mu.Lock()\n	cause := context.Cause(ctx)\n",
			Test: "TestLocker_callsNobodyUnderItsLock",
		},
		{
			Name: "lock-delay-forgotten", Why: "another process begins while the work of a lost lease still ends",
			File: "internal/keeper/hold.go", Old: "{ return t.TTL + t.Delay }", New: "{ return t.TTL }",
			Test: "TestLease_lockDelay",
		},
		{
			Name: "try-leaves-an-attempt-in-flight", Why: "an attempt takes effect after the next one was refused because of it, and keeps the key for a TTL",
			File: "request.go", Old: "	case err == nil && (res.Granted || !unknown):\n", New: "	case err == nil && (res.Granted || true):\n",
			Test: "TestLocker_TryLock_underWay",
		},
		{
			Name: "waiter-keeps-a-barred-owner", Why: "a majority that was silent for a moment refuses all attempts of a waiter for a minute",
			File: "runner.go", Old: "		case p.forsaken(l):\n", New: "		case false && p.forsaken(l):\n",
			Pkg: "store/quorum", Test: "TestStore_waiter_after_silence/cut",
		},
	}
}

// chaos returns the arguments of a short chaos run.
func chaos(seeds string) []string { return []string{"-args", "-seeds=" + seeds} }
