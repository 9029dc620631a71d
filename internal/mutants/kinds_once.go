package main

// kindsOnce are mutants of results that are remembered, elections and jobs of several schedulers.
func kindsOnce() []mutant {
	return []mutant{
		{
			Name: "cron-hides-that-it-did-not-run", Why: "a fire whose job could not take its lock is reported as run",
			File: "cron.go", Old: "	defer func() { err = outcome(ran, err) }()\n", New: "",
			Test: "TestErrNotAcquired",
		},
		{
			Name: "led-though-never-elected", Why: "an election that failed is reported as one that led",
			File: "election.go", Old: "	return outcome(led, err)\n", New: "	return outcome(led || true, err)\n",
			Test: "TestErrNotAcquired",
		},
		{
			Name: "record-without-keep", Why: "the claim of a result expires, or queued callers are not woken to read it",
			File: "internal/queue/end.go", Old: "Value: value, Keep: true}", New: "Value: value}",
			Test: "TestOnce_Do_remembers",
		},
		{
			Name: "record-for-the-ttl", Why: "a result is forgotten as soon as a lease would be",
			File: "internal/queue/end.go", Old: "driver.Renewal{ID: l.t.id, TTL: ttl,", New: "driver.Renewal{ID: l.t.id, TTL: l.call.TTL,",
			Test: "TestOnce_Do_forgets",
		},
		{
			Name: "record-waited-for", Why: "queued callers wait until the record ends, instead of reading it",
			File: "internal/queue/entry.go", Old: "		if res.Blocker.Kept {\n", New: "		if false {\n",
			Test: "TestOnce_Do_waits",
		},
		{
			Name: "record-waited-for-at-once", Why: "a caller that comes later enters the queue for a record",
			File: "internal/queue/acquire.go", Old: " || c.MaxAttempts == 1 || res.Blocker.Kept:", New: " || c.MaxAttempts == 1:",
			Test: "TestOnce_Do_remembers",
		},
		{
			Name: "result-recorded-though-lost", Why: "a result is reported as recorded although another caller may be working on it",
			File: "once.go", Old: "o.keep, record); lost != nil {", New: "o.keep, record); lost != nil && !errors.Is(lost, ErrLost) {",
			Test: "TestOnce_Do_lostBetween",
		},
		{
			Name: "recording-tried-once", Why: "a lost answer makes the next caller run the function again",
			File: "internal/queue/end.go", Old: "errors.Is(err, driver.ErrNotHeld) || errors.Is(err, driver.ErrInvalid) {\n			return err\n", New: "true {\n			return err\n",
			Test: "TestOnce_Do_recordsAgain",
		},
		{
			Name: "recording-that-may-have-been-made", Why: "a result is recorded, and the error says that nothing was changed",
			File: "internal/queue/end.go", Old: "			return cmp.Or(unsure, err)\n		}\n	}\n}\n\n// endTenure", New: "			return err\n		}\n	}\n}\n\n// endTenure",
			Test: "TestOnce_Do_mayBeRecorded",
		},
		{
			Name: "recording-tried-for-too-long", Why: "a recording is sent when another caller may already run the function",
			File: "internal/queue/end.go", Old: "	until := clock.Now() + hold.Left()\n", New: "	until := clock.Now() + hold.Left() + 2*time.Second\n",
			Test: "TestOnce_Do_notRecorded",
		},
		{
			Name: "recording-ends-with-the-caller", Why: "a result is lost because the caller has gone, which is when the result is needed most",
			File: "internal/queue/end.go", Old: "		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(CallLimit,", New: "		call, cancel := context.WithTimeout(ctx, min(CallLimit,",
			Test: "TestOnce_Do_recordsThoughDone",
		},
		{
			Name: "recording-outlives-its-locker", Why: "a call continues for minutes after Close, on a store that may be closed too",
			File: "internal/queue/end.go", Old: "(ctx.Err() != nil || m.running.Err() != nil) &&", New: "(ctx.Err() != nil || m.running == nil) &&",
			Test: "TestOnce_Do_closedWhileRecording",
		},
		{
			Name: "recording-waited-for", Why: "Close takes as long as the TTL of a result that cannot be recorded",
			File: "internal/queue/end.go", Old: "time.NewTimer(patience)", New: "time.NewTimer(24 * time.Hour)",
			Test: "TestOnce_Do_closedWhileRecording",
		},
		{
			Name: "recordings-waited-for-one-by-one", Why: "ReleaseAll does not give up after 10 s: it waits for each recording that it finds",
			File: "internal/queue/end.go", Old: "l.beginEnd(true, 0)", New: "l.beginEnd(true, endLimit)",
			Test: "TestOnce_Do_closedWhileRecording",
		},
		{
			Name: "recording-pauses-for-long", Why: "a caller that has left is blocked for a part of a long TTL",
			File: "internal/queue/end.go", Old: "backoff.Jitter(min(ttl/20, time.Second))", New: "backoff.Jitter(ttl/20)",
			Test: "TestOnce_Do_notRecordedForOneWhoLeaves",
		},
		{
			Name: "failures-always-remembered", Why: "a passing failure is the answer for a day",
			File: "once.go", Old: "		if o.o.Failures == nil || !o.o.Failures(failed) {\n", New: "		if false {\n",
			Test: "TestOnce_Do_failures",
		},
		{
			Name: "panic-keeps-the-claim", Why: "no caller can run the function until the TTL expires",
			File: "once.go", Old: "		if record == nil {\n			err = lease.finish(ctx, err)", New: "		if record == nil && err != nil {\n			err = lease.finish(ctx, err)",
			Test: "TestOnce_Do_panic",
		},
		{
			Name: "second-panic-keeps-the-claim", Why: "a panic in the callback that decides about a panic leaves a lease that is renewed for ever",
			File: "once.go", Old: "			if record, _ = o.write(v, ErrPanicked); record != nil {", New: "			record = []byte{}\n			if record, _ = o.write(v, ErrPanicked); record != nil {",
			Test: "TestOnce_Do_panicPanics",
		},
		{
			Name: "panic-forgotten", Why: "every scheduler whose clock is late runs the job that panics, and goes down with it",
			File: "once.go", Old: "		if !returned {", New: "		if !returned && record != nil {",
			Test: "TestCron_Run_panics",
		},
		{
			Name: "large-result-stored", Why: "the store refuses it, and the result is lost with the lease",
			File: "once.go", Old: "	case len(b) > maxValue:\n", New: "	case len(b) > maxValue+1:\n",
			Test: "TestOnce_Do_tooLarge",
		},
		{
			Name: "options-of-the-constructor-dropped", Why: "candidates have the TTL of the Locker, and not that of their Election",
			File: "election.go", Old: "append(e.opts, opts...))", New: "opts)",
			Test: "TestOptions_constructor",
		},
		{
			Name: "preferred-without-a-queue", Why: "a preferred candidate waits for a leader that cannot see it",
			File: "request.go", Old: "	if opt.preferred && k == names.Election && !l.features.Queue {\n", New: "	if false {\n",
			Test: "TestElection_refuses",
		},
		{
			Name: "leadership-released-early", Why: "another candidate leads while the work of the first is still in progress",
			File: "election.go", Old: "	term := lease.Context(office)\n", New: "	term := lease.Context(office)\n	context.AfterFunc(ctx, func() { _ = lease.Unlock(ctx) })\n",
			Test: "TestElection_Run_letsGoLast",
		},
		{
			Name: "leadership-kept-after-lead", Why: "there is no leader until the TTL expires",
			File: "election.go", Old: "		_ = lease.Unlock(ctx) //", New: "		_ = lease.q.Abandon(ctx) //",
			Test: "TestElection_Run_handsOff",
		},
		{
			Name: "loss-ends-the-candidate", Why: "a candidate that lost a term never stands again",
			File: "election.go", Old: "	if term.Err() != nil && ctx.Err() == nil {\n", New: "	if false {\n",
			Test: "TestElection_Run_lost",
		},
		{
			Name: "terms-handed-off", Why: "the store shows observers a term that has ended",
			File: "election.go", Old: "	if lease.q.Pin() != nil || e.outranked(", New: "	if e.outranked(",
			Test: "TestElection_Run_oneProcess",
		},
		{
			Name: "preferred-not-looked-up", Why: "a leader never steps down for a preferred candidate",
			File: "election.go", Old: "				resign(ErrStepDown)\n", New: "",
			Test: "TestElection_preferred",
		},
		{
			Name: "preferred-here-not-seen", Why: "the same, if the candidate is on the leader's own Locker",
			File: "election.go", Old: "c.Caller.(*caller).opt.preferred })", New: "c == nil })",
			Test: "TestElection_preferred_oneProcess",
		},
		{
			Name: "preferred-passed-over", Why: "a candidate that stands before the preferred one leads instead",
			File: "election.go", Old: "Pin() != nil || e.outranked(term, lease) {", New: "Pin() != nil {",
			Test: "TestElection_preferred",
		},
		{
			Name: "published-value-forgotten", Why: "publishing an empty value leaves the old address",
			File: "election.go", Old: "		value = []byte{} // nil would leave it as it was\n", New: "",
			Test: "TestElection_Leader",
		},
		{
			Name: "observer-misses-the-end", Why: "an observer is notified of the end of a term a second late",
			File: "election.go", Old: "			case <-wake:\n				n = 0\n", New: "",
			Test: "TestElection_Observe",
		},
		{
			Name: "observer-ends-with-trouble", Why: "an observer gets no more events after the store was unavailable",
			File: "election.go", Old: " || !errors.Is(err, ErrUnavailable) {", New: " || errors.Is(err, ErrUnavailable) {",
			Test: "TestElection_Observe_trouble",
		},
		{
			Name: "failed-fire-run-again", Why: "a scheduler that is late runs a job again that has failed",
			File: "cron.go", Old: "func(error) bool { return ran }", New: "func(error) bool { return false }",
			Test: "TestCron_Run_oncePerFire",
		},
		{
			Name: "fire-not-begun-remembered", Why: "a fire is reported as done although the store failed before it began",
			File: "cron.go", Old: "func(error) bool { return ran }", New: "func(error) bool { return true }",
			Test: "TestCron_Run_storeFails",
		},
		{
			Name: "fire-judged-by-its-error", Why: "a job that returns the error of another that could not begin is run again",
			File: "cron.go", Old: "func(error) bool { return ran }", New: "func(err error) bool { return !errors.Is(err, ErrUnavailable) }",
			Test: "TestCron_Run_nested",
		},
		{
			Name: "fires-overlap", Why: "a job starts while an earlier fire of it is still running",
			File: "cron.go", Old: "	if c.overlap {\n", New: "	if true {\n",
			Test: "TestCron_Run_skipsIfRunning",
		},
		{
			Name: "key-used-for-another-request", Why: "a client gets the answer to another request",
			File: "adapter/httpidempotency/httpidempotency.go", Old: "	case a.mark != mark:\n", New: "	case false:\n",
			Pkg: "./adapter/httpidempotency", Test: "TestMiddleware_otherRequest",
		},
		{
			Name: "key-used-for-another-form", Why: "the same, if a handler around the middleware has parsed the form",
			File: "adapter/httpidempotency/httpidempotency.go", Old: "r.URL.RequestURI(), string(body), form)", New: "r.URL.RequestURI(), string(body))\n			_ = form",
			Pkg: "./adapter/httpidempotency", Test: "TestMiddleware_otherForm",
		},
		{
			Name: "key-used-for-another-file", Why: "the same, if only a file of the form is another",
			File: "adapter/httpidempotency/httpidempotency.go", Old: "texts = append(texts, name, file.Filename, content)", New: "texts = append(texts, name, file.Filename, content[:0])",
			Pkg: "./adapter/httpidempotency", Test: "TestMiddleware_otherForm",
		},
		{
			Name: "key-of-everybody", Why: "a client reads the answer for another client",
			File: "adapter/httpidempotency/httpidempotency.go", Old: "digest(m.o.Scope(r), key)", New: "digest(key)",
			Pkg: "./adapter/httpidempotency", Test: "TestMiddleware_replays",
		},
		{
			Name: "idempotency-scope-is-the-token", Why: "a client that repeats a request with a refreshed token is served again",
			File: "adapter/httpidempotency/httpidempotency.go", Old: "	if m.o.Scope == nil {\n", New: "	if m.o.Scope == nil {\n		m.o.Scope = func(r *http.Request) string { return r.Header.Get(\"Authorization\") }\n	}\n	if m.o.Scope == nil {\n",
			Pkg: "./adapter/httpidempotency", Test: "TestMiddleware_scope",
		},
		{
			Name: "failed-answer-remembered", Why: "a client that tries again gets the old failure",
			File: "adapter/httpidempotency/answer.go", Old: "	return status >= http.StatusInternalServerError\n", New: "	return false\n",
			Pkg: "./adapter/httpidempotency", Test: "TestMiddleware_notStored",
		},
		{
			Name: "idempotency-remembers-429", Why: "a client that got 429 gets it again for a whole day",
			File: "adapter/httpidempotency/answer.go", Old: ", http.StatusTooManyRequests:", New: ":",
			Pkg: "./adapter/httpidempotency", Test: "TestMiddleware_passing",
		},
		{
			Name: "idempotency-without-the-host", Why: "the order of one tenant is the answer to the request of another",
			File: "adapter/httpidempotency/httpidempotency.go", Old: "strings.ToLower(r.Host), ", New: "",
			Pkg: "./adapter/httpidempotency", Test: "TestMiddleware_host",
		},
		{
			Name: "no-splay", Why: "a scheduler whose clock is late runs a quick job again",
			File: "adapter/gocronlock/gocronlock.go", Old: "distlock.New(store, append(opts[:len(opts):len(opts)], distlock.MinHold(splay+patience))...)", New: "distlock.New(store, opts...)",
			Pkg: "./adapter/gocronlock", Test: "TestLocker",
		},
		{
			Name: "schedulers-refuse-each-other", Why: "schedulers that fire at the same moment split the votes of a majority, and none runs the job",
			File: "adapter/gocronlock/gocronlock.go", Old: "distlock.MaxWait(l.patience)", New: "distlock.MaxWait(0)",
			Pkg: "./adapter/gocronlock", Test: "TestLocker_Lock_noQueue",
		},
		{
			Name: "fires-hours-apart", Why: "processes that began hours apart each run a job, when the fire of another is forgotten",
			File: "adapter/robfigcron/robfigcron.go", Old: "		return byTheClock(every.Delay), nil\n", New: "		return every, nil\n",
			Pkg: "./adapter/robfigcron", Test: "TestCron_Add_everyFewHours",
		},
		{
			Name: "fire-by-the-local-clock", Why: "every scheduler takes the time at which it reached the job for the time of the fire",
			File: "adapter/robfigcron/robfigcron.go", Old: "	at := entry.Prev\n", New: "	at := time.Now()\n",
			Pkg: "./adapter/robfigcron", Test: "TestCron_Add_oncePerFire",
		},
	}
}
