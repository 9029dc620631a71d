package main

// contract are mutants of stores that the rules of drivertest about ends and sizes catch.
func contract() []mutant {
	const mem, key, pkg = "store/mem/mem.go", "store/mem/key.go", "store/mem"
	const functions, postgres = "store/postgres/sql/functions.sql", "store/postgres"
	return []mutant{
		{
			Name: "renewal-judged-before-the-lock", Why: "a renewal finds its claim live, and is written after another owner was granted the key: two holders",
			File: mem, Old: "	s.mu.Lock()\n	defer s.mu.Unlock()\n	return s.renew(r, s.now())\n",
			New: "	s.mu.Lock()\n	k := s.peek(r.Key, s.now())\n	live := k != nil && find(k.claims, r.Owner) != nil\n	s.mu.Unlock()\n	time.Sleep(r.TTL / 100000)\n" +
				"	s.mu.Lock()\n	defer s.mu.Unlock()\n	if behind, err = s.renew(r, s.now()); live {\n		err = nil\n	}\n	return behind, err\n",
			Pkg: pkg, Test: "TestStore/renewed_at_the_end",
		},
		{
			Name: "goredis-cut-off-is-unavailable", Why: "a call whose ctx ended is reported as one that changed nothing, and its claim stays",
			File: "store/redis/calls.go", Old: "	case <-ctx.Done():\n	}\n	late := time.NewTimer(grace)\n",
			New: "	case <-ctx.Done():\n		return ReplyError(\"LOADING\")\n	}\n	late := time.NewTimer(grace)\n",
			Pkg: "store/redis/goredisstore", Test: "TestStore/cut_off",
		},
		{
			Name: "postgres-silence-is-unavailable", Why: "a call whose reply did not come is reported as one that changed nothing, and its claim stays",
			File: "store/postgres/batcher.go", Old: "		b.detach(c)\n		return ctx.Err()\n", New: "		b.detach(c)\n		return errClosed\n",
			Pkg: postgres, Test: "TestStore_faults",
		},
		{
			Name: "redis-lost-reply-is-unavailable", Why: "a call whose connection ended is reported as one that changed nothing, and its claim stays",
			File: "store/redis/errors.go", Old: "		errors.As(err, &dial) && dial.Op == \"dial\":\n", New: "		errors.As(err, &dial), strings.HasSuffix(err.Error(), \"EOF\"):\n",
			Pkg: "store/redis/goredisstore", Test: "TestStore_faults",
		},
		{
			Name: "lives-are-cut-to-milliseconds", Why: "a claim ends before its TTL has passed",
			File: mem, Old: "	return now + min(life, math.MaxInt64-now)\n",
			New: "	if life > time.Millisecond {\n		life = life.Truncate(time.Millisecond)\n	}\n	return now + min(life, math.MaxInt64-now)\n",
			Pkg: pkg, Test: "TestStore/odd_milliseconds",
		},
		{
			Name: "break-looks-and-then-acts", Why: "a claim is ended by force, and the result does not say which one",
			File: mem, Old: "	k.claims = stay\n	k.wakeObservers()\n", New: "	s.mu.Unlock()\n	time.Sleep(10 * time.Millisecond)\n	s.mu.Lock()\n	k.claims = stay\n	k.wakeObservers()\n",
			Pkg: pkg, Test: "TestStore/break_and_acquire",
		},
		{
			Name: "break-ignores-the-fence", Why: "a claim is ended that was granted after the operator looked",
			File: mem, Old: "		if upTo > 0 && c.fence > upTo {\n", New: "		if upTo > 0 && c.fence > upTo && false {\n",
			Pkg: pkg, Test: "TestStore/break_up_to",
		},
		{
			Name: "break-looks-at-the-fence-and-then-acts", Why: "the claim that was granted in between is ended",
			File: mem, Old: "	var stay []*claim\n	for _, c := range k.claims {\n",
			New: "	var stay []*claim\n	if upTo > 0 && k.claims[0].fence <= upTo {\n		upTo = 0\n		s.mu.Unlock()\n		time.Sleep(10 * time.Millisecond)\n		s.mu.Lock()\n	}\n	for _, c := range k.claims {\n",
			Pkg: pkg, Test: "TestStore/break_and_grant",
		},
		{
			Name: "postgres-break-ignores-the-fence", Why: "a claim is ended that was granted after the operator looked",
			File: functions, Old: "c.ends > now\n      and (break.up_to = 0 or c.fence <= break.up_to);\n", New: "c.ends > now;\n",
			Pkg: postgres, Test: "TestStore/break_up_to",
		},
		{
			Name: "expired-claim-released", Why: "a release in good order is reported for a claim that others may have held since",
			File: mem, Old: "	k := s.peek(id.Key, s.now())\n	if k == nil {\n		return driver.ErrNotHeld\n",
			New: "	k := s.keys[id.Key]\n	if k == nil {\n		return driver.ErrNotHeld\n",
			Pkg: pkg, Test: "TestStore/ended",
		},
		{
			Name: "postgres-expired-claim-shown", Why: "a lock that is free is shown as held, until somebody acquires it",
			File: functions, Old: "    and c.ends > claims_of.now\n", New: "",
			Pkg: postgres, Test: "TestStore/ended_is_not_shown",
		},
		{
			Name: "life-cut-to-ten-years", Why: "a claim does not live for its TTL",
			File: mem, Old: "	return now + min(life, math.MaxInt64-now)\n", New: "	return now + min(life, 10*366*24*time.Hour, math.MaxInt64-now)\n",
			Pkg: pkg, Test: "TestStore/huge_TTL",
		},
		{
			Name: "rule-of-fences-in-virtual-time-only", Why: "a store on a server may forget the fence of an idle key, and the rules pass",
			File: "drivertest/rules_floor.go", Old: "rounds, pause = 1, 2*time.Second", New: "rounds, pause = 0, 0",
			Pkg: "drivertest", Test: "TestRules_slow_catch_faults",
		},
		{
			Name: "swept-too-early", Why: "the sweep ends claims that have some time left: two holders",
			File: mem, Old: "		k := s.peek(name, now)\n		idle", New: "		k := s.peek(name, now+100*time.Millisecond)\n		idle",
			Pkg: pkg, Test: "TestStore/swept",
		},
		{
			Name: "postgres-list-loses-a-key-between-pages", Why: "claims are missing from a listing",
			File: "store/postgres/list.go", Old: "		after = string(rows[len(rows)-1][0])\n", New: "		after = string(rows[len(rows)-1][0]) + \"0\"\n",
			Pkg: postgres, Test: "TestStore/many_keys", Args: []string{"-args", "-many=1000"},
		},
		{
			Name: "renews-the-first-fifty", Why: "leases are lost though their renewal was reported as done",
			File: mem, Old: "	for i, r := range rs {\n", New: "	for i, r := range rs[:min(len(rs), 50)] {\n",
			Pkg: pkg, Test: "TestStore/many_renewals",
		},
		{
			Name: "queue-counted-to-sixteen", Why: "a waiter is shown a wrong position",
			File: key, Old: "res := driver.Result{Used: k.used(), Ahead: ahead,", New: "res := driver.Result{Used: k.used(), Ahead: min(ahead, 16),",
			Pkg: pkg, Test: "TestStore/long_queue",
		},
		{
			Name: "attempt-without-queueing-changes-the-entry", Why: "the queue entry of a waiter stands for less than it waits for",
			File: key, Old: "	ahead := len(k.queue)\n	if at >= 0 {\n", New: "	ahead := len(k.queue)\n	if at >= 0 {\n		k.queue[at].Weight = r.Weight\n",
			Pkg: pkg, Test: "TestStore/entry_as_it_was",
		},
		{
			Name: "postgres-retry-too-short", Why: "a waiter attempts too early, and waits for the next wake-up or poll",
			File: functions, Old: "  retry := greatest(retry, 1000);", New: "  retry := greatest(retry - 50000, 1000);",
			Pkg: postgres, Test: "TestStore/when_to_retry",
		},
		{
			Name: "owners-of-any-length", Why: "an owner is too long for a column, and cut, or fails in the middle of the work",
			File: "driver/driver.go", Old: "	case id.Owner == \"\" || len(id.Owner) > MaxOwner:\n", New: "	case id.Owner == \"\":\n",
			Pkg: pkg, Test: "TestStore/invalid",
		},
		{
			Name: "holders-are-cut", Why: "waiters are shown half a name",
			File: key, Old: "Holder: c.Holder, Task", New: "Holder: c.Holder[:min(len(c.Holder), 255)], Task",
			Pkg: pkg, Test: "TestStore/longest_texts",
		},
		{
			Name: "listing-of-a-bad-name-fails", Why: "a listing of names ends at one that cannot be locked",
			File: mem, Old: "	k := s.peek(key, now)\n	if k == nil {\n		return nil, nil\n	}\n",
			New: "	k := s.peek(key, now)\n	if len(key) > driver.MaxKey {\n		return nil, driver.ErrInvalid\n	}\n	if k == nil {\n		return nil, nil\n	}\n",
			Pkg: pkg, Test: "TestStore/invalid_key",
		},
	}
}
