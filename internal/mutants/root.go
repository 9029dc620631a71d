package main

// root are mutants of acquiring, waiting, handing off and releasing.
func root() []mutant {
	return []mutant{
		{
			Name: "validity-from-the-reply", M: "M12", Why: "trust outlasts the claim by the travel time of the reply",
			File: "internal/queue/store.go", Old: "	res, err = m.store.Acquire(call, r)\n",
			New:  "	res, err = m.store.Acquire(call, r)\n	sent = m.clock.Now()\n",
			Test: "TestLocker_Lock_lateAnswer",
		},
		{
			Name: "call-without-a-limit", Why: "a call under a context that can be cancelled has no limit of its own, and a store that hangs is awaited for ever",
			File: "internal/queue/store.go", Old: "context.WithDeadline(c.Context, c.ends)", New: "context.WithCancel(c.Context)",
			Pkg: "internal/queue", Test: "TestLazyLimit",
		},
		{
			Name: "held-back-without-a-limit", Why: "a call that Redis does not answer is awaited for as long as the caller's context lasts",
			File: "internal/queue/store.go", Old: "	return c.Context.Done(), c.shared\n", New: "	return c.Context.Done(), nil\n",
			Pkg: "internal/queue", Test: "TestLazyLimit_shared",
		},
		{
			Name: "outer-lease-not-checked", M: "M12", Why: "after a pause, the context of several leases is still valid although an outer lease is lost",
			File: "context.go", Old: "		_ = outer.Err()\n", New: "",
			Test: "TestLease_Context_nested",
		},
		{
			Name: "no-lease-panics", Why: "work whose context was not passed on panics in place of being refused",
			File: "lease.go", Old: "func (l *Lease) none() bool { return l == nil || l.q == nil }", New: "func (l *Lease) none() bool { return false }",
			Test: "TestLease_none",
		},
		{
			Name: "held-at-the-last-answer", Why: "a wait that ends reports for how long the lock was held when the wait began",
			File: "internal/queue/waiter.go", Old: "		h = k.held.now()\n", New: "		h = *k.held\n",
			Test: "TestLocker_Lock_heldUntilNow",
		},
		{
			Name: "past-end-is-no-expiry", Why: "a key that has just expired is reported as one that never expires",
			File: "internal/queue/call.go", Old: "min(b.Left, max(b.Left-passed, time.Millisecond))", New: "max(b.Left-passed, 0)",
			Test: "TestLocker_Lock_heldPastItsEnd",
		},
		{
			Name: "no-expiry-not-reported", Why: "no error says that a key of another program never expires",
			File: "request.go", Old: "	e.endless = b.Owner != \"\" &&", New: "	e.endless = b.Owner == \"\" &&",
			Test: "TestLocker_Lock_heldWithoutExpiry",
		},
		{
			Name: "deadline-twice", Why: "an error says twice that the context has ended",
			File: "internal/queue/acquire.go", Old: "	if errors.Is(err, cause) {\n", New: "	if false {\n",
			Test: "TestLocker_Lock_oneDeadline",
		},
		{
			Name: "options-of-another-kind", Why: "Exact and Preferred on a lock are accepted and have no effect",
			File: "request.go", Old: "	if opt.given&without[k] == 0 {\n", New: "	if true {\n",
			Test: "TestOptions_otherKind",
		},
		{
			Name: "shortest-hold-kept-after-its-end", Why: "Unlock near the end of MinHold renews until it fails, on a store that cannot renew for so short a time",
			File: "internal/queue/end.go", Old: "; left > 0 && !l.unused {\n", New: "; l.call.MinHold > 0 && !l.unused {\n",
			Test: "TestLease_Unlock_shortestHoldEnds",
		},
		{
			Name: "release-not-repeated", Why: "a connection that the server has closed leaves the lock taken for its TTL",
			File: "internal/queue/end.go", Old: "		case <-pause.C:\n", New: "		case <-pause.C:\n			return err\n",
			Test: "TestLease_Unlock_repeats",
		},
		{
			Name: "released-is-lost", Why: "a release whose answer was lost is repeated, and the second answer is taken for a loss",
			File: "internal/queue/end.go", Old: "(l.tried || unsure != nil):", New: "l.tried:",
			Test: "TestLease_Unlock_repeats",
		},
		{
			Name: "release-that-may-have-been-made", Why: "the lock is free, and the error says that nothing was changed",
			File: "internal/queue/end.go", Old: "			pause.Stop()\n			return cmp.Or(unsure, err)\n", New: "			pause.Stop()\n			return err\n",
			Test: "TestLease_Unlock_repeats_unknown",
		},
		{
			Name: "release-bounded-by-maxhold", Why: "an Unlock shortly before MaxHold has no time to be answered",
			File: "internal/queue/end.go", Old: "max(hold.Life(), minRelease)", New: "max(hold.Left(), minRelease)",
			Test: "TestLease_Unlock_beforeMaxHold",
		},
		{
			Name: "release-error-returned", Why: "a job that was done is reported as if the store had kept it from running, and is done again",
			File: "do.go", Old: "	case errors.Is(lost, ErrLost):\n", New: "	case lost != nil:\n",
			Test: "TestDo",
		},
		{
			Name: "inner-refusal-is-the-outer-one", Why: "a function that ran and could not take a second lock is reported as not run, and runs again",
			File: "errors.go", Old: "	return target != ErrNotAcquired && errors.Is(e.err, target)\n", New: "	return errors.Is(e.err, target)\n",
			Test: "TestErrNotAcquired_nested",
		},
		{
			Name: "undo-before-return", Why: "a call on a store that hangs returns a second after its context has ended",
			File: "internal/queue/store.go", Old: "	timer.Reset(min(limit, grace()))\n", New: "	timer.Reset(limit)\n",
			Test: "TestBound",
		},
		{
			Name: "second-attempt-with-a-new-limit", Why: "TryLock takes 11 s on a store that hangs",
			File: "internal/queue/acquire.go", Old: "unknown && left > 0 && ctx.Err() == nil {\n		again, cancel := context.WithTimeout(ctx, left)\n", New: "unknown && left > -time.Hour && ctx.Err() == nil {\n		again, cancel := context.WithCancel(ctx)\n",
			Test: "TestBound_none",
		},
		{
			Name: "undone-behind-nobody", Why: "Close returns while an earlier call still undoes its request",
			File: "internal/queue/store.go", Old: "	m.wg.Go(func() {\n		var r result\n", New: "	go func(f func()) { f() }(func() {\n		var r result\n",
			Test: "TestBound_close",
		},
		{
			Name: "unused-lease-held-for-its-shortest-time", Why: "a LockAll that fails leaves names taken for MinHold",
			File: "internal/queue/end.go", Old: "left > 0 && !l.unused {", New: "left > 0 {",
			Test: "TestLocker_LockAll_minHold",
		},
		{
			Name: "far-waiters-attempt-often", Why: "with n waiting processes, each grant costs the store n attempts",
			File: "internal/queue/entry.go", Old: "	if e.far(w, res) {\n", New: "	if e.far(w, res) && res.Ahead < 0 {\n",
			Test: "TestLocker_Lock_farFromTheHead",
		},
		{
			Name: "far-waiters-attempt-alone", Why: "a store that batches attempts gets them one at a time, and thousands of waiters fill it",
			File: "internal/queue/entry.go", Old: "			pause += toBeat(pause)\n", New: "			pause += toBeat(pause) * 0\n",
			Test: "TestLocker_Lock_farTogether",
		},
		{
			Name: "foreign-release-waited-for", Why: "next to SET NX clients, whose release wakes nobody, a waiter starves",
			File: "internal/queue/entry.go", Old: "	case e.foreign(blocker):\n", New: "	case e.foreign(blocker) && e.wake == nil:\n",
			Test: "TestLocker_Lock_foreignClients",
		},
		{
			Name: "trust-from-the-message", M: "M12 M27", Why: "a message with a long delay makes a lease outlast its claim",
			File: "internal/queue/entry.go", Old: "return m.deliverLocked(k, e, res, e.sent, min", New: "return m.deliverLocked(k, e, res, m.clock.Now(), min",
			Test: "TestLocker_Lock_pushedLate",
		},
		{
			Name: "pushed-for-an-earlier-entry", M: "M27", Why: "a late message makes a lease of a claim that has ended",
			File: "internal/queue/entry.go", Old: "	if !e.stays || pushed.Fence", New: "	if pushed.Fence",
			Test: "TestLocker_Lock_pushedStale",
		},
		{
			Name: "pushed-for-an-earlier-claim", M: "M27", Why: "the same, where the fence of the holder shows it",
			File: "internal/queue/entry.go", Old: "pushed.Fence <= e.fence || ", New: "",
			Test: "TestLocker_Lock_pushedStale",
		},
		{
			Name: "pushed-for-an-unseen-entry", M: "M27", Why: "the same, where the first queue entry belongs to an unanswered attempt",
			File: "internal/queue/entry.go", Old: "	if !e.begun {\n", New: "	if !e.begun && err == nil {\n",
			Test: "TestLocker_Lock_pushedToUnseenEntry",
		},
		{
			Name: "part-of-a-ttl-for-good", Why: "a lease without renewal keeps only the rest of a queue entry, and a claim that must outlive its trust does not",
			File: "internal/queue/entry.go", Old: " || terms.Fixed || terms.Delay > 0 {", New: " {",
			Test: "TestLocker_Lock_pushedButAttempted",
		},
		{
			Name: "pushed-grant-inherited", Why: "a reader gets a fence lower than that of a claim that ended before the reader came",
			File: "internal/queue/entry.go", Old: "	known := e.since\n", New: "	known := e.seen\n",
			Test: "TestTenure_readerInheritsNoPushedGrant",
		},
		{
			Name: "owner-reused", M: "M28", Why: "two goroutines of a process, or two tenures, have one claim",
			File: "internal/queue/store.go", Old: "{ return rand.Text() }", New: "{ return rand.Text()[:0] + \"me\" }",
			Test: "TestChaos", Args: chaos("300"),
		},
		{
			Name: "second-attempt-with-a-new-owner", Why: "the claim of the first attempt, whose answer was lost, refuses its own caller",
			File: "internal/queue/acquire.go", Old: "		again, cancel := context.WithTimeout(ctx, left)\n", New: "		again, cancel := context.WithTimeout(ctx, left)\n		r.Owner = NewOwner()\n",
			Test: "TestLocker_Lock_unknown",
		},
		{
			Name: "unknown-not-withdrawn", Why: "an unanswered attempt leaves a claim behind for its TTL",
			File: "internal/queue/acquire.go", Old: "		failed.unknown = m.undo(ctx, c, r.ID) != nil\n", New: "		failed.unknown = false\n",
			Test: "TestLocker_Lock_unknown",
		},
		{
			Name: "unknown-is-held", M: "M21a", Why: "an attempt whose answers were lost is reported as held by another",
			File: "internal/queue/acquire.go", Old: "	case err == nil && (res.Granted || !unknown):\n", New: "	case err == nil && (res.Granted || !unknown), err != nil && unknown:\n",
			Test: "TestLocker_TryLock_unknown",
		},
		{
			Name: "unknown-is-granted", M: "M21b", Why: "an attempt whose answers were lost is reported as granted",
			File: "internal/queue/acquire.go", Old: "	switch {\n	case err == nil && (res.Granted || !unknown):\n",
			New:  "	if err != nil && unknown {\n		res.Granted, err = true, nil\n	}\n	switch {\n	case err == nil && (res.Granted || !unknown):\n",
			Test: "TestLocker_Lock_unknown",
		},
		{
			Name: "unanswered-release-is-done", M: "M21b", Why: "a key that may be taken for the rest of its TTL is reported as released",
			File: "internal/queue/end.go", Old: "		err, final = l.call.failed(\"release\", err), false\n", New: "		err = nil\n",
			Test: "TestLease_Unlock",
		},
		{
			Name: "clean-up-on-a-dead-context", M: "M22", Why: "a cancelled wait leaves its claim or queue entry behind",
			File: "internal/queue/store.go", Old: "m.lastCall(ctx, min(withdrawLimit, c.limit()), new(limited))",
			New:  "context.WithTimeout(ctx, min(withdrawLimit, c.limit()))",
			Test: "TestLocker_Lock_cancelledInFirstAttempt",
		},
		{
			Name: "left-before-another", Why: "a call leaves a queue entry behind and does not report it, if a call of another kind waits behind it",
			File: "internal/queue/key.go", Old: "	if k.running && k.idleLocked() && ", New: "	if k.running && k.firstLocked() == nil && ",
			Test: "TestLocker_Lock_notWithdrawnBeforeAnother",
		},
		{
			Name: "granted-unseen-before-another", Why: "a call leaves a claim behind and reports that nothing was changed",
			File: "internal/queue/key.go", Old: "	if k.running && k.idleLocked() && ", New: "	if k.running && k.firstLocked() == nil && ",
			Test: "TestLocker_Lock_unknownBeforeAnother",
		},
		{
			Name: "unknown-and-unavailable", Why: "a call that may have left a claim also reports that nothing was changed",
			File: "internal/queue/waiter.go", Old: "		unsure.unknown = true\n", New: "",
			Test: "TestLocker_Lock_unknownBeforeAnother",
		},
		{
			Name: "attempt-continues-before-another", Why: "a cancelled call waits for an answer that nobody needs",
			File: "internal/queue/key.go", Old: "	if k.interrupt != nil && k.idleLocked() {\n", New: "	if k.interrupt != nil && k.firstLocked() == nil {\n",
			Test: "TestLocker_Lock_cancelledBeforeAnother",
		},
		{
			Name: "observer-panics-in-attempt", Why: "all calls for the key wait for one that has ended",
			File: "internal/queue/acquire.go", Old: "			k.finishAttemptLocked(c)\n			m.reconcileLocked(k)\n", New: "",
			Test: "TestObserver_panics",
		},
		{
			Name: "observer-panics-waiting", Why: "a call that has ended stays in the queue, and so do all behind it",
			File: "internal/queue/waiter.go", Old: "			w.m.detach(ctx, w.k, w)\n			if", New: "			if",
			Test: "TestObserver_panics",
		},
		{
			Name: "observer-panics-delivered", Why: "a lease without a caller is renewed for ever",
			File: "internal/queue/waiter.go", Old: "				w.lease.unless(ctx, &reported)\n", New: "				_ = w\n",
			Test: "TestObserver_panics",
		},
		{
			Name: "observer-panics-granted", Why: "a lease without a caller is renewed for ever",
			File: "internal/queue/acquire.go", Old: "	if !*got {\n		_ = l.Discard(ctx)\n", New: "	if !*got {\n		_ = ctx\n",
			Test: "TestObserver_panics",
		},
		{
			Name: "observer-panics-between-names", Why: "the leases of the other names are renewed for ever",
			File: "multi.go", Old: "			_ = s.discard(ctx)\n", New: "			_ = s\n",
			Test: "TestObserver_panics",
		},
		{
			Name: "observer-panics-filling", Why: "all calls for the name wait for a share that no call requests",
			File: "limiter.go", Old: "	defer func() { // also if an observer panics: then there is neither a share nor an error\n",
			New:  "	defer func() {\n		if err == nil && s.left == 0 {\n			return\n		}\n",
			Test: "TestObserver_panics_othersGoOn",
		},
		{
			Name: "unlock-on-a-dead-context", M: "M22", Why: "a deferred Unlock after a cancel frees nothing",
			File: "internal/queue/end.go", Old: "		err = l.endClaim(call)\n", New: "		err = l.endClaim(ctx)\n",
			Test: "TestLease_Unlock",
		},
		{
			Name: "renewal-survives-release", M: "M18 M19", Why: "a lease is renewed after it was released",
			File: "internal/queue/end.go", Old: "		err = hold.Stop(call) // no renewal is under way from here on\n", New: "		_ = hold.Stop\n",
			Test: "TestLease_Unlock_endsRenewing",
		},
		{
			Name: "loss-by-the-timer-alone", M: "M16", Why: "a process that was paused continues with a lease that another process has by now",
			File: "internal/queue/lease.go", Old: "	if !l.t.hold.Lose() {\n", New: "	if l.t != nil {\n",
			Test: "TestLease_lost_lookingAtTheClock",
		},
		{
			Name: "not-held-is-a-clean-release", Why: "work that overlapped with another holder is reported as done",
			File: "internal/queue/end.go", Old: " && (l.tried || unsure != nil):", New: ":",
			Test: "TestLease_lost_inTheStore",
		},
		{
			Name: "lost-run-returns-nil", Why: "a job that lost its lock is reported as done",
			File: "do.go", Old: "	return errors.Join(err, lost)\n", New: "	return err\n",
			Test: "TestDo",
		},
		{
			Name: "fence-reused-on-hand-off", M: "M04a M04b", Why: "two successive holders have the same fence",
			File: "internal/queue/tenure.go", Old: "		lease.fence = t.fence + t.used\n", New: "		lease.fence = t.fence\n",
			Test: "TestTenure_handsOff",
		},
		{
			Name: "reacquired-without-a-floor", Why: "the fences of a tenure are used up and start again",
			File: "internal/queue/tenure.go", Old: "		r.Floor = t.fence + driver.Span\n", New: "		r.Floor = 0\n",
			Test: "TestTenure_handsOff",
		},
		{
			Name: "tenure-goes-on-for-ever", Why: "other processes starve while one has waiters",
			File: "internal/queue/tenure.go", Old: "	return (t.behind > 0 || !t.m.features.Queue) &&", New: "	return false &&",
			Test: "TestTenure_yieldsWithoutAQueue",
		},
		{
			Name: "store-never-checked-again", Why: "a tenure does not learn that others wait",
			File: "internal/queue/tenure.go", Old: "t.heard < min(tenureTime, t.call.Terms.TTL/4)\n", New: "t.heard < t.call.Terms.TTL\n",
			Test: "TestTenure_endsForOthers",
		},
		{
			Name: "shared-handed-off", Why: "a reader gets a fence lower than one that has already ended, and passes a writer",
			File: "internal/queue/tenure.go", Old: "	if w == nil || !t.call.exclusive() || t.pinned ||", New: "	if w == nil || t.pinned ||",
			Test: "TestChaos", Args: chaos("500"),
		},
		{
			Name: "handed-off-though-extended", Why: "the next holder has a TTL that it did not request",
			File: "internal/queue/lease.go", Old: "	l.t.pinned = true\n", New: "",
			Test: "TestTenure_handsOffOnlyTheSame",
		},
		{
			Name: "handed-off-to-another-kind", Why: "a caller gets a claim that shows the holder of another call",
			File: "internal/queue/tenure.go", Old: " || !w.call.same(t.call) || !t.hold.Trusted(0) {\n		return false\n", New: " || !t.hold.Trusted(0) {\n		return false\n",
			Test: "TestTenure_handsOffOnlyTheSame",
		},
		{
			Name: "attempt-then-subscribe", M: "M23", Why: "a release between the refusal and the watch wakes nobody",
			File: "internal/queue/runner.go",
			Old:  "	if e.wake == nil {\n		// Watch before the attempt, so that no notification falls in between.\n		e.wake = driver.Watch(e.ctx, m.store, e.request.ID)\n	}\n	granted, pause := m.runAttempt(k, e, w)\n",
			New:  "	granted, pause := m.runAttempt(k, e, w)\n	if e.wake == nil {\n		e.wake = driver.Watch(e.ctx, m.store, e.request.ID)\n	}\n",
			Test: "TestLocker_Lock_watchesBeforeItAttempts",
		},
		{
			Name: "no-poll", M: "M24", Why: "a waiter waits for ever after a lost wake-up",
			File: "internal/queue/entry.go", Old: "and notifies nobody\n	}\n	return pause\n", New: "and notifies nobody\n	}\n	return pause + 1000*time.Hour\n",
			Test: "TestLocker_Lock_wakeUpLost",
		},
		{
			Name: "queue-entry-not-removed", Why: "a cancelled waiter blocks the queue",
			File: "internal/queue/entry.go", Old: "	return m.withdraw(m.running, e.call, e.request.ID)\n", New: "	return nil\n",
			Test: "TestLocker_Lock_cancelled",
		},
		{
			Name: "queue-entry-lives-long", M: "M25", Why: "a dead waiter blocks all waiters behind it",
			File: "internal/queue/entry.go", Old: "min(3*max(c.MaxPause, time.Second), maxQueueTTL)", New: "300 * max(c.MaxPause, time.Second)",
			Test: "TestLocker_Lock_entryIsShort",
		},
		{
			Name: "ensure-renews-nothing", Why: "a step begins under a lease that ends during the step",
			File: "internal/keeper/extend.go", Old: "	if h.Trusted(d) { // lockIdle may have waited for a renewal\n", New: "	if true {\n",
			Test: "TestLease_Ensure",
		},
		{
			Name: "break-without-a-bound", Why: "a lock that was granted after the look at its holders is broken",
			File: "status.go", Old: "kinds[0].Key(name), upTo, reason)", New: "kinds[0].Key(name), 0, reason)",
			Test: "TestLocker_Break",
		},
		{
			Name: "break-of-no-claim", Why: "the fence of a waiter, or of no lease, breaks all claims",
			File: "status.go", Old: "	case upTo == 0:\n", New: "	case false:\n",
			Test: "TestLocker_Break",
		},
		{
			Name: "close-does-not-wait", Why: "the next holder comes in while the function under a lock still runs",
			File: "internal/queue/manager.go", Old: "	case <-idle:\n	case <-ctx.Done():\n", New: "	case <-idle:\n	default:\n",
			Test: "TestLocker_Close_waitsForFunctions",
		},
		{
			Name: "work-begins-after-close", Why: "a function runs without a lock: Close has released the lock",
			File: "internal/queue/lease.go", Old: "	if m.closed {\n		return false\n	}\n	l.working = true\n", New: "	l.working = true\n",
			Test: "TestLocker_Close_beforeTheFunction",
		},
		{
			Name: "do-hides-a-release-under-it", Why: "Do reports success although another holder may have come in while its function ran",
			File: "internal/queue/manager.go", Old: "				t.lease.taken = t.lease.working\n", New: "",
			Test: "TestDo/Do_released_under_f",
		},
		{
			Name: "ensured-although-it-ends", Why: "a step begins that MaxHold cuts off",
			File: "lease.go", Old: "	case hold.Life() > d: // the store would keep it: MaxHold ends it\n", New: "	case hold.Life() > d:\n		return nil\n	case false:\n",
			Test: "TestLease_Ensure",
		},
		{
			Name: "early-attempts-count", Why: "three attempts are used up within milliseconds, and the pauses of Backoff are never made",
			File: "internal/queue/entry.go", Old: "if !w.call.Paced || now >= w.next {", New: "if true {",
			Test: "TestMaxAttempts",
		},
		{
			Name: "notified-means-not-paced", Why: "where the store notifies, the pauses of Backoff are ignored",
			File: "internal/queue/entry.go", Old: "	case c.Paced:\n	case e.foreign", New: "	case c.Paced && e.wake == nil:\n	case e.foreign",
			Test: "TestMaxAttempts",
		},
		{
			Name: "longer-pauses-of-another", Why: "a waiter sleeps as long as one that has given up wanted to",
			File: "internal/queue/waiter.go", Old: "first != nil && first.call.Paced {", New: "first == w {",
			Test: "TestBackoff_afterAnother",
		},
		{
			Name: "first-error-is-retried", Why: "a wrong password looks like a long wait",
			File: "internal/queue/acquire.go", Old: "	case err != nil:\n	case res.Granted:\n", New: "	case err != nil && c.Wait != 0:\n		w, err = &Waiter{call: c}, nil\n		m.enqueueLocked(k, w)\n	case res.Granted:\n",
			Test: "TestLocker_Lock_firstError",
		},
		{
			Name: "release-never-sent", Why: "every key stays taken until its TTL expires",
			File: "internal/queue/end.go", Old: "	return m.store.Release(ctx, id)\n", New: "	return nil\n",
			Test: "TestChaos", Args: chaos("400"),
		},
		{
			Name: "withdrawal-never-sent", Why: "queue entries and unseen grants block other callers",
			File: "internal/queue/store.go", Old: "	err := m.store.Release(call, id)\n", New: "	err := call.Err()\n",
			Test: "TestChaos", Args: chaos("400"),
		},
		{
			Name: "foreign-code-under-the-lock", Why: "a check of a lease context ends the lease, and that waits for the lock",
			File: "internal/queue/waiter.go",
			Old:  "	cause := context.Cause(ctx) // before the lock is taken: a look at a lease's context may end the lease\n	m.mu.Lock()\n",
			New:  "	m.mu.Lock()\n	cause := context.Cause(ctx)\n",
			Test: "TestLocker_callsNobodyUnderItsLock",
		},
		{
			Name: "lock-delay-forgotten", Why: "another process begins while the work of a lost lease still ends",
			File: "internal/keeper/hold.go", Old: "{ return t.TTL + t.Delay }", New: "{ return t.TTL }",
			Test: "TestLease_lockDelay",
		},
		{
			Name: "try-leaves-an-attempt-in-flight", Why: "an attempt takes effect after the next one was refused because of it, and keeps the key for a TTL",
			File: "internal/queue/acquire.go", Old: "	case err == nil && (res.Granted || !unknown):\n", New: "	case err == nil && (res.Granted || true):\n",
			Test: "TestLocker_TryLock_underWay",
		},
		{
			Name: "waiter-keeps-a-barred-owner", Why: "a majority that was silent for a moment refuses all attempts of a waiter for a minute",
			File: "internal/queue/runner.go", Old: "	case e.stuck(m):\n", New: "	case false && e.stuck(m):\n",
			Pkg: "store/quorum", Test: "TestStore_waiter_after_silence/cut",
		},
	}
}

// chaos are the arguments of a short chaos run.
func chaos(seeds string) []string { return []string{"-args", "-seeds=" + seeds} }
