package main

// quorum are mutants of the majority.
func quorum() []mutant {
	const dir, pkg = "store/quorum/", "store/quorum"
	fences := []string{"-grants=255", "-rapid.checks=20", "-rapid.nofailfile", "-rapid.shrinktime=1s"}
	return []mutant{
		{
			Name: "value-of-the-first-node", Why: "a value that was replaced is returned again",
			File: pkg + "/show.go", Old: "		one.Value = current(one.values)\n", New: "",
			Pkg: pkg, Test: "TestStore_shows_the_renewed_value",
		},
		{
			Name: "no-write-back", M: "M08", Why: "the highest fence of a majority is used although only some nodes have stored it",
			File: dir + "ballot.go", Old: "	return fence, len(fences) - at\n", New: "	return fences[len(fences)-1], len(fences) + 0*at\n",
			Pkg: pkg, Test: "TestFences/3_nodes", Args: fences,
		},
		{
			Name: "haste-where-all-are-down", Why: "a node that refuses connections is reported as one that does not answer in time",
			File: dir + "ballot.go", Old: "max(b.counted, b.refused, b.invalid) >= s.majority()", New: "max(b.counted, b.refused, b.invalid, b.down) >= s.majority()",
			Pkg: pkg, Test: "TestStore_all_refuse",
		},
		{
			Name: "counted-for-its-age", Why: "an error shows the age of a node in place of the time until it is counted",
			File: dir + "vote.go", Old: "out[i].Counted = s.longest - r.Age", New: "out[i].Counted = r.Age",
			Pkg: pkg, Test: "TestStore_node_that_forgot",
		},
		{
			Name: "half-is-a-majority", M: "M07a", Why: "two halves hold the same key",
			File: dir + "quorum.go", Old: "return len(s.nodes)/2 + 1", New: "return len(s.nodes) / 2",
			Pkg: pkg, Test: "TestFences/3_nodes", Args: fences,
		},
		{
			Name: "one-node-twice", M: "M07b", Why: "one store that is given twice has two votes",
			File: dir + "quorum.go", Old: "Comparable() && s.nodes[i] == s.nodes[j] {\n", New: "Comparable() && s.nodes[i] == nil {\n",
			Pkg: pkg, Test: "TestNew_refuses/the_same,_unknown",
		},
		{
			Name: "one-node-by-two-ways", M: "M07b", Why: "one server that is reached in two ways has two votes",
			File: dir + "inspect.go", Old: "	case a.value.Identity != \"\" && a.value.Identity == b.value.Identity:\n", New: "	case a.value.Identity != \"\" && a.value.Identity == \"\":\n",
			Pkg: pkg, Test: "TestNew_refuses/the_same_by_links",
		},
		{
			Name: "one-server-by-two-databases", M: "M07b", Why: "two databases of one server have two votes, and are lost together",
			File: dir + "inspect.go", Old: "	case a.value.Server != \"\" && a.value.Server == b.value.Server:\n", New: "	case a.value.Server != \"\" && a.value.Server == \"\":\n",
			Pkg: pkg, Test: "TestNew_refuses/databases_of_one_server",
		},
		{
			Name: "new-node-counts", M: "M10", Why: "a node that forgot the holder grants the key again",
			File: dir + "ballot.go", Old: "v.uncounted = age < s.longest", New: "v.uncounted = age < 0*s.longest",
			Pkg: pkg, Test: "TestStore_node_that_forgot",
		},
		{
			Name: "new-nodes-need-only-a-majority", Why: "in a new deployment, a node that forgets is as new as all others",
			File: dir + "ballot.go", Old: " && b.granted == len(votes) {", New: " && b.granted >= s.majority() {",
			Pkg: pkg, Test: "TestStore_new_deployment",
		},
		{
			Name: "a-release-in-parts-is-not-held", Why: "a claim that this very release ended is reported as ended before",
			File: dir + "quorum.go", Old: "	case gone >= s.majority() && done == 0:\n", New: "	case gone >= s.majority():\n",
			Pkg: pkg, Test: "TestStore_Release_in_parts",
		},
		{
			Name: "split-votes-wait", Why: "while votes are split, a node that is down keeps all owners waiting with parts of the claim",
			File: dir + "acquire.go", Old: "if !s.late[i].Load() {", New: "if s.late != nil {",
			Pkg: pkg, Test: "TestStore_split_votes_down",
		},
		{
			Name: "split-votes-give-up-far-nodes", Why: "while a part of a dead owner's claim is left on a node, nobody gets the key if another node is far away",
			File: dir + "acquire.go", Old: " && s.missOnlyLate(votes) {", New: " {",
			Pkg: pkg, Test: "TestStore_Acquire_waits_for_the_release_of_an_earlier_try",
		},
		{
			Name: "late-vote-counts", M: "M06", Why: "a grant is counted although its answer came after the limit",
			File: dir + "round.go", Old: "context.WithoutCancel(ctx), limit, errLate)", New: "context.WithoutCancel(ctx), 100*limit, errLate)",
			Pkg: pkg, Test: "TestStore_late_grants_do_not_count",
		},
		{
			Name: "losers-are-kept", M: "M09a", Why: "parts of claims that nobody holds block other callers",
			File: dir + "acquire.go", Old: "{ return possible(a.last.answer(i)) }", New: "{ return a.last.answer(i).err != nil }",
			Pkg: pkg, Test: "TestStore_losers_are_released",
		},
		{
			Name: "unanswered-losers-are-kept", M: "M09b", Why: "grants without an answer stay for a TTL",
			File: dir + "acquire.go", Old: "{ return possible(a.last.answer(i)) }", New: "{ return a.last.answer(i).value.Granted }",
			Pkg: pkg, Test: "TestStore_majority_silent",
		},
		{
			Name: "created-node-counts-as-renewed", M: "M11b", Why: "a lost claim lives again, although another owner was granted the key",
			File: dir + "renew.go", Old: "			c.gone++\n", New: "			c.good++\n",
			Pkg: pkg, Test: "TestStore_Renew_counts_no_node_that_lost_it",
		},
		{
			Name: "nobody-is-topped-up", Why: "a claim stays on a bare majority after the outage of a node",
			File: dir + "renew.go", Old: "		_, _ = s.acquire(ctx, node, r)\n", New: "		_ = r\n",
			Pkg: pkg, Test: "TestStore_Renew_tops_up",
		},
		{
			Name: "calls-overtake-each-other", Why: "a release overtakes its acquire, at a slow node",
			File: dir + "calls.go", Old: "	case <-s.ready:\n		return false\n	default:\n		return true\n", New: "	case <-s.ready:\n		return false\n	default:\n		return false\n",
			Pkg: pkg, Test: "TestStore_Release_waits_for_its_acquire",
		},
		{
			Name: "calls-behind-others-are-dropped", Why: "a release behind an acquire without an answer is not made, and the part of the claim stays for a TTL",
			File: dir + "calls.go", Old: "	s.then = t\n	return true\n", New: "	return t.round == nil\n",
			Pkg: pkg, Test: "TestStore_Release_waits_for_its_acquire",
		},
		{
			Name: "calls-behind-top-ups-are-dropped", Why: "a release behind a top-up is not made, and the node keeps the claim for a TTL",
			File: dir + "renew.go", Old: "	defer func() { s.workers.do(slot.leave()) }()\n", New: "	defer slot.leave()\n",
			Pkg: pkg, Test: "TestStore_Renew_tops_up_nothing_that_was_released",
		},
		{
			Name: "no-answer-changed-nothing", Why: "an attempt that ended before any node answered is reported as one that changed nothing",
			File: dir + "acquire.go", Old: "	a.ballot = s.count(a.votes) // if nobody", New: "	// if nobody",
			Pkg: pkg, Test: "TestStore_Acquire_ends_before_any_answer",
		},
		{
			Name: "late-release-undoes-a-grant", Why: "a node is used that may still release what it grants",
			File: dir + "calls.go", Old: "	return len(c.doubts) > 0 && ", New: "	return k.node < 0 && ",
			Pkg: pkg, Test: "TestStore_calls_no_node_that_owes_a_release",
		},
		{
			Name: "doubt-only-when-it-is-queued", Why: "a release ahead in the queue of calls turns out to be unanswered",
			File: dir + "calls.go", Old: "	if s.acquire && s.ready != nil { // the", New: "	if s.acquire && s.calls == nil { // the",
			Pkg: pkg, Test: "TestStore_calls_no_node_that_comes_to_owe_a_release",
		},
		{
			Name: "late-release-undoes-a-renewal", Why: "a renewal counts on a node that then releases the claim, and two owners hold the key",
			File: dir + "renew.go", Old: "ok && renewed[j].Err == nil {", New: "ok && renewed[j].Err != nil {",
			Pkg: pkg, Test: "TestStore_Renew_counts_no_node_that_owes_a_release",
		},
		{
			Name: "release-under-way-undoes-a-renewal", Why: "a renewal counts on a node to which a release of an earlier attempt is under way",
			File: dir + "calls.go", Old: "q != nil && q.nodes[i].releases > 0 || c.doubtful(k)", New: "c.doubtful(k)",
			Pkg: pkg, Test: "TestStore_Renew_counts_no_node_that_owes_a_release/the_release_has_no_answer_yet",
		},
		{
			Name: "earlier-try-ends-the-claim", Why: "a held claim is reported as lost while an earlier attempt is released",
			File: dir + "renew.go", Old: "s.calls.releasing(r.ID) && !s.claims.isHeld(r.ID):", New: "s.calls.releasing(r.ID):",
			Pkg: pkg, Test: "TestStore_Renew_while_an_earlier_try_is_released",
		},
		{
			Name: "broken-claim-is-topped-up", Why: "a claim that was broken comes back on a node, and blocks the next",
			File: dir + "renew.go", Old: "errors.Is(one.Err, driver.ErrNotHeld) && !broken {", New: "errors.Is(one.Err, driver.ErrNotHeld) && (!broken || broken) {",
			Pkg: pkg, Test: "TestStore_Renew_tops_up_nothing_that_was_broken",
		},
		{
			Name: "earlier-try-lowers-the-fence", Why: "a node that granted an earlier attempt is regarded as one that had the claim all the time",
			File: dir + "claims.go", Old: "	same := k.held && ", New: "	same := ",
			Pkg: pkg, Test: "TestStore_late_grant_to_an_owner_that_tries_again",
		},
		{
			Name: "idle-goroutines-stay", Why: "a burst of calls leaves its goroutines behind",
			File: dir + "workers.go", Old: "	w.fewest = len(w.idle)\n", New: "	w.fewest = 0\n",
			Pkg: pkg, Test: "TestStore_idle_goroutines_end",
		},
		{
			Name: "failed-repetition-releases", Why: "a claim is released that its holder trusts",
			File: dir + "acquire.go", Old: "	if a.held && !lost {\n", New: "	if a.held && !lost && a.r.TTL < 0 {\n",
			Pkg: pkg, Test: "TestStore_failed_repetition_keeps_what_is_held",
		},
		{
			Name: "unavailable-is-refused", M: "M31", Why: "a store that is down is reported as a held key",
			File: dir + "acquire.go", Old: "	default:\n		return no(driver.ErrUnavailable)\n", New: "	default:\n		return driver.Result{}, nil\n",
			Pkg: pkg, Test: "TestStore_majority_unavailable",
		},
		{
			Name: "silent-is-refused", M: "M21a", Why: "a majority that did not answer is reported as a held key",
			File: dir + "acquire.go", Old: "	case left >= s.majority():\n		return no(errNoMajority)\n", New: "	case left >= s.majority():\n		return driver.Result{}, nil\n",
			Pkg: pkg, Test: "TestStore_majority_silent",
		},
	}
}
