package main

// locks are mutants of the service Locks of the lock server.
func locks() []mutant {
	const acquire, request = "server/locks_acquire.go", "server/locks_request.go"
	return []mutant{
		{
			Name: "locks-shared-becomes-exclusive", Why: "an owner that has a shared lock is answered that its lock is exclusive, next to other holders",
			File: acquire, Old: "handle.Exclusive && res.Used < driver.Whole:", New: "handle.Exclusive && res.Used < 1:",
			Pkg: "server", Test: "TestLocks_owner_twice",
		},
		{
			Name: "locks-unknown-becomes-definite", Why: "a caller does not release a lock that it may have, because a later attempt of its wait changed nothing",
			File: acquire, Old: "	if a.unsure && definite(err) {\n", New: "	if a.unsure && !definite(err) {\n",
			Pkg: "server", Test: "TestLocks_wait_unknown",
		},
		{
			Name: "locks-list-with-values", Why: "a few lists of names with large values end the server for want of memory",
			File: "server/locks.go", Old: "			c.Value = nil // those", New: "			// those",
			Pkg: "server", Test: "TestLocks_List_values",
		},
		{
			Name: "locks-one-slot-becomes-two", Why: "an owner that has one slot is answered that it has two",
			File: acquire, Old: "!c.Waiting && c.Weight < a.request.Weight {", New: "c.Waiting && c.Weight < a.request.Weight {",
			Pkg: "server", Test: "TestLocks_owner_twice",
		},
		{
			Name: "locks-releases-a-known-owner", Why: "the clean-up of one server frees a lock that its caller was granted through another",
			File: acquire, Old: "	if !a.made || !a.left {\n", New: "	if !a.left {\n",
			Pkg: "server", Test: "TestLocks_stopped",
		},
		{
			Name: "locks-leaves-unknown-owners", Why: "a caller that hangs up leaves a lock behind that nobody knows",
			File: acquire, Old: "	if err == nil && ctx.Err() != nil {\n", New: "	if err == nil && false {\n",
			Pkg: "server", Test: "TestLocks_abandoned_granted",
		},
		{
			Name: "locks-waited-for-the-answer", M: "M12", Why: "the time of the store's answer counts as waited: the client trusts the lock for too long",
			File: acquire, Old: "durationpb.New(a.sent.Sub(a.received))", New: "durationpb.New(time.Since(a.received))",
			Pkg: "server", Test: "TestLocks_wait",
		},
		{
			Name: "locks-no-margin", M: "M13", Why: "a client whose clock is slower trusts the lock of the next holder",
			File: "server/locks.go", Old: "{ return ttl - keeper.Margin(ttl) }", New: "{ return ttl }",
			Pkg: "server", Test: "TestLocks",
		},
		{
			Name: "locks-answers-a-pushed-grant", Why: "the claim of a pushed grant may have ended when its message comes",
			File: acquire, Old: "		case <-wake:\n",
			New: "		case w := <-wake:\n			if w.Granted {\n				return a.granted(driver.Result{Granted: true, Fence: w.Fence}), nil\n			}\n",
			Pkg: "server", Test: "TestLocks_pushed",
		},
		{
			Name: "locks-again-without-end", Why: "a caller waits for longer than it wanted",
			File: acquire, Old: "		again := waited < a.wait\n", New: "		again := true\n",
			Pkg: "server", Test: "TestLocks_wait_ends",
		},
		{
			Name: "locks-drains-for-good", Why: "a server that ends takes waiters out of the queue",
			File: acquire, Old: "		again := waited < a.wait\n", New: "		again := waited < a.wait && a.server.drained.Err() == nil\n",
			Pkg: "server", Test: "TestLocks_drain",
		},
		{
			Name: "locks-loses-the-position", Why: "a caller that calls again is at the end of the queue",
			File: acquire, Old: "		queue := queueTTL\n", New: "		queue := queueTTL / 2\n",
			Pkg: "server", Test: "TestLocks_again",
		},
		{
			Name: "locks-stays-in-the-queue", Why: "a caller whose wait has ended holds up others",
			File: acquire, Old: "			queue = leaveTTL\n", New: "			queue = queueTTL / 2\n",
			Pkg: "server", Test: "TestLocks_wait_ends",
		},
		{
			Name: "locks-unknown-is-held", M: "M21a", Why: "a caller that may hold the lock leaves without a release",
			File: acquire, Old: "		case err != nil && (last || definite(err)", New: "		case err != nil && (definite(err)",
			Pkg: "server", Test: "TestLocks_wait_fails",
		},
		{
			Name: "locks-revoked-token-waits", Why: "a client whose token was revoked is granted a lock",
			File: acquire, Old: "		if time.Since(checked) > recheckEvery {\n", New: "		if time.Since(checked) > recheckEvery && false {\n",
			Pkg: "server", Test: "TestLocks_revoked",
		},
		{
			Name: "locks-short-owners", Why: "two callers with the same short owner are one holder",
			File: request, Old: "len(owner) < minOwner || ", New: "",
			Pkg: "server", Test: "TestLocks_invalid",
		},
		{
			Name: "locks-wait-is-cut", Why: "calls that wait for 25 seconds have no answer",
			File: acquire, Old: "	control.idle()\n", New: "",
			Pkg: "server", Test: "TestLocks_wait_connection",
		},
		{
			Name: "locks-lenient-json", Why: "a misspelled ttl is the default TTL",
			File: "server/json.go", Old: "(protojson.UnmarshalOptions{})", New: "(protojson.UnmarshalOptions{DiscardUnknown: true})",
			Pkg: "server", Test: "TestLocks_invalid",
		},
		{
			Name: "locks-json-without-reason", Why: "a definite error looks like that of a proxy",
			File: "server/json.go", Old: "		mark(m, explain(text, m.ProtoReflect().Descriptor(), err))\n", New: "		return err\n",
			Pkg: "server", Test: "TestLocks_invalid",
		},
		{
			Name: "locks-breaks-the-next-holder", Why: "a lock that was granted after its holder was shown is taken away",
			File: "server/locks.go", Old: "key, m.GetUpToFence(), m.GetReason())", New: "key, 0, m.GetReason())",
			Pkg: "server", Test: "TestLocks_Break",
		},
		{
			Name: "locks-unknown-renewal-is-lost", Why: "a holder gives its lock up because a renewal was denied or unanswered",
			File: "server/locks.go", Old: "Lost: errors.Is(err, driver.ErrNotHeld)", New: "Lost: true",
			Pkg: "server", Test: "TestLocks",
		},
	}
}
