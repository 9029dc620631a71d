package main

// store are mutants of the reference store: the rules catch them, on every store.
func store() []mutant {
	const file, key, pkg = "store/mem/mem.go", "store/mem/key.go", "store/mem"
	return []mutant{
		{
			Name: "release-without-owner", M: "M01", Why: "a late release frees the next holder's key",
			File: file, Old: "	mine := func(c *claim) bool { return c.Owner == id.Owner }\n",
			New: "	mine := func(c *claim) bool { return id.Owner != \"\" }\n",
			Pkg: pkg, Test: "TestStore/stale",
		},
		{
			Name: "renew-without-owner", M: "M02", Why: "a late renewal prolongs the next holder's claim",
			File: file, Old: "	c := find(k.claims, r.Owner)\n	if c == nil {\n",
			New: "	c := find(k.claims, r.Owner)\n	if c == nil && len(k.claims) > 0 {\n		c = k.claims[0]\n	}\n	if c == nil {\n",
			Pkg: pkg, Test: "TestStore/stale",
		},
		{
			Name: "renew-resurrects", M: "M11a", Why: "a claim that ended goes on, over another's grant",
			File: file, Old: "	k := s.peek(r.Key, now)\n	if k == nil {\n		return 0, driver.ErrNotHeld\n",
			New: "	k := s.keys[r.Key]\n	if k == nil {\n		return 0, driver.ErrNotHeld\n",
			Pkg: pkg, Test: "TestStore/ended",
		},
		{
			Name: "again-does-not-restart-the-TTL", Why: "a repeated acquire is trusted for longer than the store keeps it",
			File: key, Old: "		c.ends = after(now, r.TTL)\n	}\n	c.fence",
			New: "	}\n	c.fence",
			Pkg: pkg, Test: "TestStore/again",
		},
		{
			Name: "lives-are-rounded-down", Why: "two hold the key, since a claim ends before its holder's trust does",
			File: file, Old: "	return now + min(life, math.MaxInt64-now)\n",
			New: "	if life > time.Second {\n		life = life.Truncate(time.Second)\n	}\n	return now + min(life, math.MaxInt64-now)\n",
			Pkg: pkg, Test: "TestStore/odd_TTL",
		},
		{
			Name: "again-shortens-a-record", Why: "an ask that was under way for long makes a result be forgotten with the lease",
			File: key, Old: "	if !c.kept {", New: "	if true {",
			Pkg: pkg, Test: "TestStore/record",
		},
		{
			Name: "renew-shortens-a-record", Why: "a renewal that was under way for long makes a result be forgotten with the lease",
			File: file, Old: "	if c.kept && !r.Keep {\n", New: "	if false {\n",
			Pkg: pkg, Test: "TestStore/record",
		},
		{
			Name: "again-raises-the-weight", Why: "a reader becomes a writer beside other readers",
			File: key, Old: "	if r.Weight < c.Weight {\n", New: "	if r.Weight != c.Weight {\n",
			Pkg: pkg, Test: "TestStore/heavier",
		},
		{
			Name: "again-ignores-the-floor", Why: "fences of a prolonged turn are given out twice",
			File: key, Old: "	c.fence = max(c.fence, r.Floor)\n", New: "",
			Pkg: pkg, Test: "TestStore/floor",
		},
		{
			Name: "floor-forgotten-in-line", Why: "the head of the line is given fences that a prolonged turn has used",
			File: key, Old: "	k.last = max(k.last, c.fence)\n", New: "	if len(k.line) == 0 {\n		k.last = max(k.last, c.fence)\n	}\n",
			Pkg: pkg, Test: "TestStore/floor_while_waiting",
		},
		{
			Name: "fence-repeats", M: "M04a", Why: "the late writer has the same fence as the next holder",
			File: file, Old: "	fence := max(k.last+driver.Span, s.clock(now), r.Floor)\n",
			New: "	fence := max(k.last, s.clock(now), r.Floor)\n",
			Pkg: pkg, Test: "TestStore/fence",
		},
		{
			Name: "fence-forgotten-with-the-key", M: "M04c", Why: "the next grant begins below the last one",
			File: file, Old: "		if idle && k.last+driver.Span <= s.clock(now) {\n", New: "		if idle {\n",
			Pkg: pkg, Test: "TestStore/remembered",
		},
		{
			Name: "dead-head-blocks-the-line", M: "M25", Why: "a waiter that died holds up all behind it",
			File: key, Old: "	k.line = slices.DeleteFunc(k.line, over)\n", New: "",
			Pkg: pkg, Test: "TestStore/expired_entry",
		},
		{
			Name: "place-lives-for-a-whole-TTL", Why: "a dead waiter is handed the key for much longer than its place",
			File: key, Old: "placed: true, since: now, ends: after(now, r.QueueTTL)", New: "placed: true, since: now, ends: after(now, r.QueueTTL+r.TTL)",
			Pkg: pkg, Test: "TestStore/expired_entry",
		},
		{
			Name: "newcomers-pass-the-line", Why: "those who wait starve",
			File: key, Old: "	if at > 0 || at < 0 && len(k.line) > 0 {\n", New: "	if at > 0 {\n",
			Pkg: pkg, Test: "TestStore/no_overtaking",
		},
		{
			Name: "everybody-is-woken", M: "M26", Why: "a herd of waiters for every release",
			File: key, Old: "		k.wake(func(owner string) bool { return owner == head })\n",
			New: "		k.wake(func(owner string) bool { return head != \"\" })\n",
			Pkg: pkg, Test: "TestStore/wake",
		},
		{
			Name: "release-wakes-nobody", Why: "every hand-over costs a poll",
			File: file, Old: "		k.wakeOnlookers()\n	}\n	k.wakeHead()\n	return nil\n",
			New: "		k.wakeOnlookers()\n	}\n	return nil\n",
			Pkg: pkg, Test: "TestStore/wake",
		},
		{
			Name: "one-too-many", M: "M34a", Why: "a semaphore lets n+1 in",
			File: key, Old: "	return k.used()+r.Weight <= r.Limit\n", New: "	return k.used() < r.Limit || k.used()+r.Weight <= r.Limit+1 && r.Limit < driver.Whole\n",
			Pkg: pkg, Test: "TestStore/count",
		},
		{
			Name: "limit-of-the-place", Why: "a semaphore made smaller lets in those who waited for the larger one",
			File: key, Old: "	return k.used()+r.Weight <= r.Limit\n",
			New: "	if at == 0 {\n		r.Limit = max(r.Limit, k.line[0].Limit)\n	}\n	return k.used()+r.Weight <= r.Limit\n",
			Pkg: pkg, Test: "TestStore/limit_of_last_attempt",
		},
		{
			Name: "renews-no-reader", M: "M34b", Why: "a writer is let in beside a reader that was told that it was renewed",
			File: file, Old: "	c.ends = after(now, r.TTL)\n	if r.Value != nil {\n", New: "	if c.Weight == driver.Whole {\n		c.ends = after(now, r.TTL)\n	}\n	if r.Value != nil {\n",
			Test: "TestLocker_RLock_renewedLate",
		},
		{
			Name: "owner-is-shown", Why: "whoever may look may also release",
			File: key, Old: "Owner: driver.Tag(c.Owner)", New: "Owner: c.Owner",
			Pkg: pkg, Test: "TestStore/owner",
		},
	}
}
