package main

// etcd returns mutants of the store on etcd.
func etcd() []mutant {
	const dir, pkg = "store/etcd/", "store/etcd"
	return []mutant{
		{
			Name: "etcd-grant-without-a-condition", Why: "two callers that read the same state are both granted the key",
			File: dir + "acquire.go", Old: "noneChanged(a.base+\"c/\", st.revision), first}", New: "first}",
			Pkg: pkg, Test: "TestStore_same_state",
		},
		{
			Name: "etcd-fences-too-close", Why: "the fences that one grant hands out in memory reach those of the next",
			File: dir + "key.go", Old: "return uint64(revision) * driver.Span", New: "return uint64(revision)",
			Pkg: pkg, Test: "TestStore/fence",
		},
		{
			Name: "etcd-names-meet", Why: "the claims of jobs/eu count as claims of jobs",
			File: "internal/etcdkey/etcdkey.go", Old: " || c == '/' || c == '%' {", New: " || c == '%' {",
			Pkg: "internal/etcdkey", Test: "TestEscape",
		},
		{
			Name: "etcd-lease-half-over", Why: "a claim gets a lease that was granted a while ago, and ends before its TTL",
			File: dir + "lease.go", Old: "	if !l.whole {\n", New: "	if false {\n",
			Pkg: pkg, Test: "TestStore_used_lease",
		},
		{
			Name: "etcd-lease-kept-long-ago", Why: "a claim gets a lease whose last keep-alive was sent a while ago, and ends before its TTL",
			File: dir + "lease.go", Old: "p.age(l) < slack(weight, seconds)", New: "p.age(l) < 60*slack(weight, seconds)",
			Pkg: pkg, Test: "TestPool_whole",
		},
		{
			Name: "etcd-lease-of-the-ttl", Why: "a lease that is as long as its TTL is used without a keep-alive, and its claim ends before its TTL",
			File: dir + "etcd.go", Old: "if weight == driver.Whole && n >= slackFrom {", New: "if weight < 0 {",
			Pkg: pkg, Test: "TestStore_seconds",
		},
		{
			Name: "etcd-suspended-without-a-clock", Why: "after a suspend that only the time of day shows, a claim gets a lease that has nearly ended",
			File: dir + "lease.go", Old: "return max(byDay, p.clock.Now()-l.kept)", New: "return min(byDay, p.clock.Now()-l.kept)",
			Pkg: pkg, Test: "TestPool_suspended",
		},
		{
			Name: "etcd-no-slack-for-short-leases", Why: "a lease that is not longer than its TTL is used without a keep-alive",
			File: dir + "lease.go", Old: "p.age(l) < slack(weight, seconds)", New: "p.age(l) < time.Second",
			Pkg: pkg, Test: "TestPool_whole",
		},
		{
			Name: "etcd-lease-in-doubt", Why: "a late transaction writes a claim on the lease of another claim, which keeps it alive",
			File: dir + "lease.go", Old: "	if l == nil || l.doubt {\n", New: "	if l == nil {\n",
			Pkg: pkg, Test: "TestPool_doubt",
		},
		{
			Name: "etcd-lease-of-two-claims", Why: "a lease that has a claim gets another, if two replies arrive in the wrong order",
			File: dir + "lease.go", Old: "	if free != nil && free.since > revision {\n", New: "	if false {\n",
			Pkg: pkg, Test: "TestPool_order",
		},
		{
			Name: "etcd-lease-of-the-next-claim", Why: "a late release frees the lease of the claim that the owner has now",
			File: dir + "lease.go", Old: "	if l == nil || l.since > revision {\n", New: "	if l == nil {\n",
			Pkg: pkg, Test: "TestPool_order",
		},
		{
			Name: "etcd-break-without-a-condition", Why: "Break ends a claim that was granted after it had read the key",
			File: dir + "end.go", Old: "		r.Compare = append(r.Compare, created(k.claim(c.owner), c.kv.CreateRevision))\n", New: "",
			Pkg: pkg, Test: "TestStore_break_of_an_owner",
		},
		{
			Name: "etcd-sent-is-not-unavailable", Why: "a request that was sent and not answered is reported as one that changed nothing",
			File: dir + "call.go", Old: "	case !sent && status.Code(err)", New: "	case status.Code(err)",
			Pkg: pkg, Test: "TestStore_faults",
		},
		{
			Name: "etcd-seconds-cut", Why: "a TTL is rounded down to whole seconds",
			File: dir + "etcd.go", Old: "	if ttl%time.Second > 0 {\n", New: "	if ttl < 0 {\n",
			Pkg: pkg, Test: "TestStore/odd_TTL",
		},
		{
			Name: "etcd-late-answer", Why: "the answer to an earlier keep-alive is taken for one to a later request",
			File: dir + "beat.go", Old: "		one := st.pending[0]\n", New: "		one := st.pending[len(st.pending)-1]\n",
			Pkg: pkg, Test: "TestStream_order",
		},
		{
			Name: "etcd-broken-claim-renewed", Why: "the lease of a claim whose key was deleted is alive, and the renewal succeeds",
			File: dir + "renew.go", Old: "		if l.claim == nil {\n", New: "		if l.claim == nil && n.beat != nil {\n			return 0, nil\n		}\n		if l.claim == nil {\n",
			Pkg: pkg, Test: "TestStore/break",
		},
		{
			Name: "etcd-silent-watch", Why: "a watch that gets no answers and no error never wakes its waiter",
			File: dir + "watch.go", Old: " && time.Since(m.heard) > 2*ws.pulse {", New: " && time.Since(m.heard) > time.Hour {",
			Pkg: pkg, Test: "TestWatch_silent",
		},
		{
			Name: "etcd-far-entry-ends", Why: "an entry in a long queue is not kept alive, and its waiter loses its position",
			File: dir + "acquire.go", Old: "if alive, err := a.extend(ctx, a.entry, l.id); err != nil || alive {", New: "if err == nil {",
			Pkg: pkg, Test: "TestStore_long_queue",
		},
		{
			Name: "etcd-counts-the-queue", Why: "each attempt in a long queue makes the server count it: n waiters cost n times n",
			File: dir + "watch.go", Old: "		return many + 1\n", New: "		return 0\n",
			Pkg: pkg, Test: "TestStore_long_queue",
		},
		{
			Name: "etcd-refuses-by-an-old-queue", Why: "a name that is free is refused because of a queue that is gone",
			File: dir + "acquire.go", Old: "			st.part && st.used()+r.Weight <= r.Limit: //", New: "			false: //",
			Pkg: pkg, Test: "TestStore_long_queue_gone",
		},
		{
			Name: "etcd-joins-an-old-queue", Why: "a caller waits for a name that is free, because of a queue that is gone",
			File: dir + "acquire.go", Old: "			joined.part && joined.used()+a.r.Weight <= a.r.Limit {", New: "			false {",
			Pkg: pkg, Test: "TestStore_long_queue_gone",
		},
		{
			Name: "etcd-overtakes-itself", Why: "the calls of one process for a semaphore overtake each other until one gives up",
			File: dir + "acquire.go", Old: "			if !alone && err == nil && st != nil {", New: "			if !alone && err != nil && st != nil {",
			Pkg: pkg, Test: "TestStore_overtaken",
		},
		{
			Name: "etcd-push-to-nobody", Why: "a waiter that has just withdrawn is granted the key",
			File: dir + "end.go", Old: "st.revision), unchanged(k.entry(head.owner), head.kv.ModRevision)},", New: "st.revision)},",
			Pkg: pkg, Test: "TestStore_withdrawn",
		},
		{
			Name: "etcd-plain-wake-before-a-push", Why: "a waiter that was pushed its grant is woken without it first, and makes a call more",
			File: dir + "watch.go", Old: "		wake(m.subs)\n		return\n", New: "		for w := range m.subs {\n			w.ready(driver.Wake{})\n		}\n",
			Pkg: pkg, Test: "TestWatches_pushed",
		},
		{
			Name: "etcd-record-renewed", Why: "a late renewal of the claim gives a record a longer life",
			File: dir + "renew.go", Old: "		n.pool.forget(n.key, resp.Header.Revision) //", New: "		_ = n //",
			Pkg: pkg, Test: "TestStore_late_renewal",
		},
		{
			Name: "etcd-guard-of-the-next-holder", Why: "a late write is accepted while another process holds the lock",
			File: "fence/etcdfence/etcdfence.go", Old: "\"=\", int64(p.Fence()/span))", New: "\">\", 0)",
			Pkg: "fence/etcdfence", Test: "TestGuard",
		},
		{
			Name: "etcd-short-answers", Why: "claims with long values cannot be renewed together, listed or waited for",
			File: dir + "call.go", Old: "MaxCallRecvMsgSize(math.MaxInt32)", New: "MaxCallRecvMsgSize(math.MaxUint16 << 6)",
			Pkg: pkg, Test: "TestStore_long_answers",
		},
		{
			Name: "etcd-tries-ended-leases", Why: "after a suspend, or in a new cluster, the first Lock fails: it tries each lease that has ended",
			File: dir + "lease.go", Old: "		s.pool.drop(l.seconds)\n", New: "",
			Pkg: pkg, Test: "TestStore_ended_leases",
		},
		{
			Name: "etcd-break-chases-new-claims", Why: "Break of a busy semaphore ends nothing: another claim has always ended meanwhile",
			File: dir + "end.go", Old: "upTo, all = st.claims[len(st.claims)-1].fence(), true", New: "upTo, all = driver.MaxFence, true",
			Pkg: pkg, Test: "TestStore_Break_of_a_busy_key",
		},
		{
			Name: "etcd-part-of-a-password", Why: "a password with a slash is shown, or the call goes to a host that its user's name has",
			File: dir + "url.go", Old: "strings.Contains(path, \"@\") || ", New: "",
			Pkg: pkg, Test: "TestOpen_bad",
		},
		{
			Name: "etcd-close-leaves-leases", Why: "each command with a long TTL leaves a lease in the cluster for that TTL",
			File: dir + "lease.go", Old: "context.WithoutCancel(ctx), revokeLimit", New: "ctx, revokeLimit",
			Pkg: pkg, Test: "TestStore_Close_leaves_no_long_lease",
		},
	}
}
