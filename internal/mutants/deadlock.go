package main

// deadlock are mutants of the search for deadlocks, and of the refusal of re-entry.
func deadlock() []mutant {
	return []mutant{
		{
			Name: "deadlock-seen-once", Why: "a cycle is reported whose waits never existed at the same time",
			File: "internal/deadlock/detector.go", Old: "now != \"\" && now == last && d.Now()-first >= d.confirm && c.victim() == self {", New: "now != last && first >= 0 && c.victim() == self {",
			Test: "TestDeadlock_leavesMeanwhile",
		},
		{
			Name: "deadlock-fails-all", Why: "all calls in a cycle fail, where one would be enough",
			File: "internal/deadlock/detector.go", Old: "d.Now()-first >= d.confirm && c.victim() == self {", New: "d.Now()-first >= d.confirm {",
			Test: "TestDeadlock_oneVictim",
		},
		{
			Name: "deadlock-fails-the-oldest", Why: "the task that has worked longest fails",
			File: "internal/deadlock/cycle.go", Old: "strings.Compare(one.task, out.task)) > 0 {", New: "strings.Compare(one.task, out.task)) < 0 {",
			Test: "TestDeadlock_oneVictim",
		},
		{
			Name: "deadlock-without-a-knot", Why: "one waiting holder of a semaphore is taken for all of its holders",
			File: "internal/deadlock/graph.go", Old: "return used+d.Weight > d.Limit })", New: "return used > 0 && d.Limit > 0 })",
			Test: "TestDeadlock_noKnot",
		},
		{
			Name: "deadlock-of-another-cycle", Why: "a cycle is reported that ends by itself when another one has ended",
			File: "internal/deadlock/graph.go", Old: "		if len(ring) == len(blocked) {\n", New: "		if len(ring) > 0 {\n",
			Test: "TestDeadlock_behindAnother",
		},
		{
			Name: "deadlock-blind-to-the-queue", Why: "a cycle that a queued writer closes is not found",
			File: "internal/deadlock/graph.go", Old: "		case c.Waiting && i < entry:\n", New: "		case c.Waiting && i < entry-len(claims):\n",
			Test: "TestDeadlock_queue",
		},
		{
			Name: "deadlock-blind-to-the-own-queue", Why: "the same, if the writer belongs to the same process",
			File: "deadlock.go", Old: "			wait.Ahead = append(wait.Ahead, d)\n", New: "			_ = d\n",
			Test: "TestDeadlock_queue",
		},
		{
			Name: "deadlock-with-the-dead", Why: "a process that died is in a cycle with one that came later",
			File: "internal/deadlock/detector.go", Old: "	noticeTTL = 1100 * time.Millisecond\n", New: "	noticeTTL = 5 * time.Second\n",
			Test: "TestDeadlock_dead",
		},
		{
			Name: "deadlock-with-the-dead-of-a-coarse-store", Why: "the same, on a store whose least TTL is seconds",
			File: "internal/deadlock/detector.go", Old: "		d.confirm = lookAgain + 2*(life-noticeTTL)\n", New: "		d.confirm = 0\n",
			Test: "TestDeadlock_longNotices",
		},
		{
			Name: "deadlock-by-the-tag-alone", Why: "two owners with the same short tag are taken for one",
			File: "internal/deadlock/graph.go", Old: " || c.Key != claim.Key || n.Waiting {", New: " || n.Waiting {",
			Test: "TestDeadlock_strangeNotices",
		},
		{
			Name: "deadlock-notices-stay", Why: "a call that no longer waits is taken for one that does",
			File: "internal/deadlock/detector.go", Old: "	defer d.removeAll()\n", New: "",
			Test: "TestDeadlock_waitEnded",
		},
		{
			Name: "deadlock-notice-of-an-ended-lease", Why: "a call that was handed the lease is taken for one that waits",
			File: "internal/deadlock/detector.go", Old: "return n.held.Err() != nil }", New: "return n.held.Lease == nil }",
			Test: "TestDeadlock_leaseEnded",
		},
		{
			Name: "deadlock-notice-dropped-under-a-dead-context", Why: "the notice stays although the wait has ended",
			File: "internal/deadlock/detector.go", Old: "	return context.WithTimeout(context.WithoutCancel(d.ctx), removeLimit)\n", New: "	return context.WithTimeout(d.ctx, removeLimit)\n",
			Test: "TestDeadlock_waitEnded",
		},
		{
			Name: "deadlock-found-late", Why: "no call fails within two seconds",
			File: "internal/deadlock/detector.go", Old: "	lookEvery = 400 * time.Millisecond", New: "	lookEvery = 1000 * time.Millisecond",
			Test: "TestDeadlock_oneVictim",
		},
		{
			Name: "reentry-waits", Why: "a call waits for a name that its own context holds",
			File: "request.go", Old: "	if err := l.reenters(ctx, r); err != nil {\n", New: "	if err := error(nil); err != nil {\n",
			Test: "TestLocker_reentry",
		},
		{
			Name: "reentry-with-free-slots", Why: "a semaphore with free slots is refused to a caller that already has a slot",
			File: "context.go", Old: "	if own == nil || weight <= r.Bound() {\n", New: "	if own == nil {\n",
			Test: "TestLocker_reentry",
		},
		{
			Name: "reentry-counts-twice", Why: "the slots of a lease that made two contexts count twice",
			File: "context.go", Old: "		if !slices.Contains(out, c.lease) &&", New: "		if !slices.Contains(out[:0], c.lease) &&",
			Test: "TestLocker_reentry",
		},
		{
			Name: "notice-of-the-past", Why: "a notice whose first write was not answered lists for ever the waits that its task had at that time",
			File: "internal/deadlock/detector.go", Old: "	if n.posted && again {\n", New: "	if n.posted && again && !res.Granted {\n",
			Test: "TestDeadlock_noticeUnanswered",
		},
	}
}
