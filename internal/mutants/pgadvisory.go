package main

// pgadvisory returns mutants of the store on advisory locks.
func pgadvisory() []mutant {
	const dir, pkg = "store/pgadvisory/", "store/pgadvisory"
	return []mutant{
		{
			Name: "two-owners-on-a-connection", M: "M28 M29a", Why: "the server grants a lock again to the connection that holds it",
			File: dir + "acquire.go", Old: "		case held, ready:\n", New: "		case ready:\n",
			Pkg: pkg, Test: "TestStore_few_connections/exclusive",
		},
		{
			Name: "pooler-unseen", M: "M29a", Why: "two clients of a pooler share a connection, and both hold the lock",
			File: dir + "setup.go", Old: "	if pids[a] == pids[b] {\n", New: "	if pids[a] == \"\" {\n",
			Pkg: pkg, Test: "TestStore_pooler",
		},
		{
			Name: "key-of-32-bits", M: "M29b", Why: "names collide after some ten thousand of them",
			File: dir + "key.go", Old: "binary.BigEndian.Uint64(sum[:8])", New: "uint64(binary.BigEndian.Uint32(sum[4:8]))",
			Pkg: pkg, Test: "TestKey_apart",
		},
		{
			Name: "no-lease-at-the-server", Why: "a holder that is stopped keeps the lock",
			File: dir + "link.go", Old: "longest > 0 && want != l.lease {", New: "longest > 0 && want < 0*l.lease {",
			Pkg: pkg, Test: "TestStore_holder_stopped",
		},
		{
			Name: "lease-ends-too-soon", Why: "the server frees a lock that its holder still trusts",
			File: dir + "link.go", Old: "return (ttl + grace +", New: "return (ttl/3 +",
			Pkg: pkg, Test: "TestStore_cut_off",
		},
		{
			Name: "error-leaves-the-lock", Why: "a lock outlives the error of the statement that took it, and has no owner",
			File: dir + "acquire.go", Old: "			s.release(c, sqlrow.Unavailable(err))\n", New: "			s.remove(c)\n			c.finish(false, sqlrow.Unavailable(err))\n",
			Pkg: pkg, Test: "TestStore_grants",
		},
		{
			Name: "failed-join-frees-another", Why: "a lock that may not have been taken is released, and a reader on the same connection loses its lock without notice",
			File: dir + "acquire.go", Old: "		if s.doubt(c, sqlrow.Unavailable(err)) {\n", New: "		if true {\n",
			Pkg: pkg, Test: "TestStore_join_fails",
		},
		{
			Name: "free-again-frees-another", Why: "a lock that may have been released is released again, and a reader on the same connection loses its lock without notice",
			File: dir + "release.go", Old: "			if s.doubt(c, reason) {\n", New: "			if true {\n",
			Pkg: pkg, Test: "TestStore_free_fails",
		},
		{
			Name: "doubt-never-settled", Why: "a lock that may be held is forgotten, and has no owner",
			File: dir + "claim.go", Old: "		s.settle(l, c.number)\n", New: "",
			Pkg: pkg, Test: "TestStore_join_fails/after",
		},
		{
			Name: "join-during-a-doubt", Why: "a reader takes a lock that an unlock in flight may free",
			File: dir + "acquire.go", Old: "a.Weight != driver.Whole && !c.doubted {\n", New: "a.Weight != driver.Whole {\n",
			Pkg: pkg, Test: "TestStore_doubt_is_settled_alone",
		},
		{
			Name: "free-again-denies-it", Why: "a holder that releases gets \"not held\", because the first answer was an error",
			File: dir + "release.go", Old: "c.finish(ok || c.doubted,", New: "c.finish(ok,",
			Pkg: pkg, Test: "TestStore_free_fails_alone",
		},
		{
			Name: "dead-connection-unnoticed", Why: "the holder continues although its lock is free",
			File: dir + "pool.go", Old: "		s.notifyLosses(lost)\n", New: "		_ = lost\n",
			Pkg: pkg, Test: "TestStore_lease_ended",
		},
		{
			Name: "grant-of-unknown-age", M: "M27", Why: "a late notification of a grant is trusted for a whole TTL",
			File: dir + "wait.go", Old: "	c.since = s.clock.Now()\n	v := ", New: "	c.since = s.clock.Now() + time.Hour\n	v := ",
			Pkg: pkg, Test: "TestStore_late_grant",
		},
		{
			Name: "waiter-stays-in-the-queue", Why: "a caller that stopped waiting is granted the lock, and keeps others out",
			File: dir + "wait.go", Old: "	case c.state == waiting:\n		s.withdraw(c)\n", New: "	case c.state == ended:\n		s.withdraw(c)\n",
			Pkg: pkg, Test: "TestStore_queue_left",
		},
		{
			Name: "fences-too-close", Why: "the fences of two grants overlap",
			File: dir + "sql.go", Old: "') << 7\"", New: "') << 6\"",
			Pkg: pkg, Test: "TestStore/fence",
		},
		{
			Name: "advisory-query-behind-a-wait", Why: "a refused attempt is not answered before the lock is free",
			File: "store/pgadvisory/wait.go", Old: " && l.questions == 0 ", New: " ",
			Pkg: "store/pgadvisory", Test: "TestStore_questions",
		},
	}
}
