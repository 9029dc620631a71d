package main

// deadlock are mutants of the search for deadlocks, and of the refusal of re-entry.
func deadlock() []mutant {
	return []mutant{
		{
			Name: "deadlock-seen-once", Why: "a circle of waits that were never there at the same time is told",
			File: "internal/deadlock/detector.go", Old: "now != \"\" && now == last && c.victim() == self {", New: "now != last && c.victim() == self {",
			Test: "TestDeadlock_leavesMeanwhile",
		},
		{
			Name: "deadlock-tells-all", Why: "everybody in a circle gives up, where one would be enough",
			File: "internal/deadlock/detector.go", Old: "now == last && c.victim() == self {", New: "now == last {",
			Test: "TestDeadlock_oneVictim",
		},
		{
			Name: "deadlock-tells-the-oldest", Why: "who has worked longest gives up",
			File: "internal/deadlock/cycle.go", Old: "strings.Compare(one.task, out.task)) > 0 {", New: "strings.Compare(one.task, out.task)) < 0 {",
			Test: "TestDeadlock_oneVictim",
		},
		{
			Name: "deadlock-without-a-knot", Why: "one holder of a semaphore that waits is taken for all of them",
			File: "internal/deadlock/graph.go", Old: "return used+d.Weight > d.Limit })", New: "return used > 0 && d.Limit > 0 })",
			Test: "TestDeadlock_noKnot",
		},
		{
			Name: "deadlock-of-another-circle", Why: "a circle is told that opens by itself when another one has",
			File: "internal/deadlock/graph.go", Old: "		if len(ring) == len(blocked) {\n", New: "		if len(ring) > 0 {\n",
			Test: "TestDeadlock_behindAnother",
		},
		{
			Name: "deadlock-blind-to-the-line", Why: "a circle that a writer in line closes is not found",
			File: "internal/deadlock/graph.go", Old: "		case c.Waiting && i < entry:\n", New: "		case c.Waiting && i < entry-len(claims):\n",
			Test: "TestDeadlock_line",
		},
		{
			Name: "deadlock-blind-to-the-own-line", Why: "the same, if the writer is of the same process",
			File: "detect.go", Old: "			wait.Ahead = append(wait.Ahead, d)\n", New: "			_ = d\n",
			Test: "TestDeadlock_line",
		},
		{
			Name: "deadlock-with-the-dead", Why: "a process that died is in a circle with one that came later",
			File: "internal/deadlock/detector.go", Old: "	noticeTTL = 1100 * time.Millisecond\n", New: "	noticeTTL = 5 * time.Second\n",
			Test: "TestDeadlock_dead",
		},
		{
			Name: "deadlock-by-the-tag-alone", Why: "two owners with the same short tag are taken for one",
			File: "internal/deadlock/graph.go", Old: " || c.Key != claim.Key || n.Waiting {", New: " || n.Waiting {",
			Test: "TestDeadlock_strangeNotices",
		},
		{
			Name: "deadlock-notices-stay", Why: "who no longer waits is taken for one who does",
			File: "internal/deadlock/detector.go", Old: "	defer d.removeAll()\n", New: "",
			Test: "TestDeadlock_waitOver",
		},
		{
			Name: "deadlock-notice-of-a-lease-that-is-over", Why: "who was handed the lease is taken for one who waits",
			File: "internal/deadlock/detector.go", Old: "return n.held.Err() != nil }", New: "return n.held.Lease == nil }",
			Test: "TestDeadlock_leaseOver",
		},
		{
			Name: "deadlock-notice-dropped-under-a-dead-context", Why: "the notice stays though the wait is over",
			File: "internal/deadlock/detector.go", Old: "	return context.WithTimeout(context.WithoutCancel(d.ctx), removeLimit)\n", New: "	return context.WithTimeout(d.ctx, removeLimit)\n",
			Test: "TestDeadlock_waitOver",
		},
		{
			Name: "deadlock-found-late", Why: "nobody is told within two seconds",
			File: "internal/deadlock/detector.go", Old: "	lookEvery = 400 * time.Millisecond", New: "	lookEvery = 1000 * time.Millisecond",
			Test: "TestDeadlock_oneVictim",
		},
		{
			Name: "reentry-waits", Why: "a call waits for what its own context holds",
			File: "request.go", Old: "	if err := l.reenters(ctx, r); err != nil {\n", New: "	if err := error(nil); err != nil {\n",
			Test: "TestLocker_reentry",
		},
		{
			Name: "reentry-of-room", Why: "a semaphore with room is refused to whoever has a slot of it",
			File: "reentry.go", Old: "	if own == nil || weight <= r.Bound() {\n", New: "	if own == nil {\n",
			Test: "TestLocker_reentry",
		},
		{
			Name: "reentry-counts-twice", Why: "the slots of a lease that made two contexts count twice",
			File: "reentry.go", Old: "		if !slices.Contains(out, c.lease) &&", New: "		if !slices.Contains(out[:0], c.lease) &&",
			Test: "TestLocker_reentry",
		},
		{
			Name: "notice-of-the-past", Why: "a notice whose first post was not answered tells for ever who waited before its party then",
			File: "internal/deadlock/detector.go", Old: "	if n.posted && again {\n", New: "	if n.posted && again && !res.Granted {\n",
			Test: "TestDeadlock_noticeUnanswered",
		},
	}
}
