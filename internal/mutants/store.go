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
			Name: "renew-resurrects", M: "M11a", Why: "a claim that ended lives again, although another owner was granted the key",
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
			Name: "lives-are-rounded-down", Why: "two owners hold the key, because a claim ends before its holder's trust does",
			File: file, Old: "	return now + min(life, math.MaxInt64-now)\n",
			New: "	if life > time.Second {\n		life = life.Truncate(time.Second)\n	}\n	return now + min(life, math.MaxInt64-now)\n",
			Pkg: pkg, Test: "TestStore/odd_TTL",
		},
		{
			Name: "again-shortens-a-record", Why: "an attempt that was in flight for long makes a result expire with the lease",
			File: key, Old: "	if !c.kept {", New: "	if true {",
			Pkg: pkg, Test: "TestStore/record",
		},
		{
			Name: "renew-shortens-a-record", Why: "a renewal that was in flight for long makes a result expire with the lease",
			File: file, Old: "	if c.kept && !r.Keep {\n", New: "	if false {\n",
			Pkg: pkg, Test: "TestStore/record",
		},
		{
			Name: "again-raises-the-weight", Why: "a reader becomes a writer next to other readers",
			File: key, Old: "	if r.Weight < c.Weight {\n", New: "	if r.Weight != c.Weight {\n",
			Pkg: pkg, Test: "TestStore/heavier",
		},
		{
			Name: "again-ignores-the-floor", Why: "fences of a prolonged tenure are issued twice",
			File: key, Old: "	c.fence = max(c.fence, r.Floor)\n", New: "",
			Pkg: pkg, Test: "TestStore/floor",
		},
		{
			Name: "floor-forgotten-in-the-queue", Why: "the head of the queue gets fences that a prolonged tenure has used",
			File: key, Old: "	k.last = max(k.last, c.fence)\n", New: "	if len(k.queue) == 0 {\n		k.last = max(k.last, c.fence)\n	}\n",
			Pkg: pkg, Test: "TestStore/floor_while_waiting",
		},
		{
			Name: "fence-repeats", M: "M04a", Why: "the late writer has the same fence as the next holder",
			File: file, Old: "	fence := max(k.last+driver.Span, s.clock(now), r.Floor)\n",
			New: "	fence := max(k.last, s.clock(now), r.Floor)\n",
			Pkg: pkg, Test: "TestStore/fence",
		},
		{
			Name: "fence-forgotten-with-the-key", M: "M04c", Why: "the next grant gets a lower fence than the last one",
			File: file, Old: "		if idle && k.last+driver.Span <= s.clock(now) {\n", New: "		if idle {\n",
			Pkg: pkg, Test: "TestStore/remembered",
		},
		{
			Name: "dead-head-blocks-the-queue", M: "M25", Why: "a dead waiter blocks all waiters behind it",
			File: key, Old: "	k.queue = slices.DeleteFunc(k.queue, ended)\n", New: "",
			Pkg: pkg, Test: "TestStore/expired_entry",
		},
		{
			Name: "queue-entry-lives-for-a-whole-TTL", Why: "a dead waiter is handed the key for much longer than its queue entry",
			File: key, Old: "queued: true, since: now, ends: after(now, r.QueueTTL)", New: "queued: true, since: now, ends: after(now, r.QueueTTL+r.TTL)",
			Pkg: pkg, Test: "TestStore/expired_entry",
		},
		{
			Name: "newcomers-pass-the-queue", Why: "waiters starve",
			File: key, Old: "	if at > 0 || at < 0 && len(k.queue) > 0 {\n", New: "	if at > 0 {\n",
			Pkg: pkg, Test: "TestStore/no_overtaking",
		},
		{
			Name: "everybody-is-woken", M: "M26", Why: "every release wakes all waiters",
			File: key, Old: "		k.wake(func(owner string) bool { return owner == head })\n",
			New: "		k.wake(func(owner string) bool { return head != \"\" })\n",
			Pkg: pkg, Test: "TestStore/wake",
		},
		{
			Name: "release-wakes-nobody", Why: "every hand-off costs a poll",
			File: file, Old: "		k.wakeObservers()\n	}\n	k.wakeHead()\n	return nil\n",
			New: "		k.wakeObservers()\n	}\n	return nil\n",
			Pkg: pkg, Test: "TestStore/wake",
		},
		{
			Name: "one-too-many", M: "M34a", Why: "a semaphore lets n+1 in",
			File: key, Old: "	return k.used()+r.Weight <= r.Limit\n", New: "	return k.used() < r.Limit || k.used()+r.Weight <= r.Limit+1 && r.Limit < driver.Whole\n",
			Pkg: pkg, Test: "TestStore/count",
		},
		{
			Name: "limit-of-the-queue-entry", Why: "a semaphore made smaller lets in those who waited for the larger one",
			File: key, Old: "	return k.used()+r.Weight <= r.Limit\n",
			New: "	if at == 0 {\n		r.Limit = max(r.Limit, k.queue[0].Limit)\n	}\n	return k.used()+r.Weight <= r.Limit\n",
			Pkg: pkg, Test: "TestStore/limit_of_last_attempt",
		},
		{
			Name: "renews-no-reader", M: "M34b", Why: "a writer is let in next to a reader whose renewal was reported as done",
			File: file, Old: "	c.ends = after(now, r.TTL)\n	if r.Value != nil {\n", New: "	if c.Weight == driver.Whole {\n		c.ends = after(now, r.TTL)\n	}\n	if r.Value != nil {\n",
			Test: "TestLocker_RLock_renewedLate",
		},
		{
			Name: "owner-is-shown", Why: "a user who may list may also release",
			File: key, Old: "Owner: driver.Tag(c.Owner)", New: "Owner: c.Owner",
			Pkg: pkg, Test: "TestStore/owner",
		},
	}
}
