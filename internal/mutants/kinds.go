package main

// kinds are mutants of read/write locks, semaphores, locks of several names and rate limits.
func kinds() []mutant {
	return []mutant{
		{
			Name: "downgrade-while-writing", Why: "a writer's work continues while readers have the lock",
			File: "rw.go", Old: "	if mine, _ := l.depart(false, departLimit); !mine { //nolint:contextcheck // Err waits for nothing\n",
			New:  "	defer l.depart(false, departLimit)\n	if l.Err() != nil {\n",
			Test: "TestLease_Downgrade_endsTheWorkFirst",
		},
		{
			Name: "downgrade-of-a-lost-lease", Why: "another writer had the lock in between, and no error says so",
			File: "rw.go", Old: " && res.Fence <= t.fence; same {", New: "; same {",
			Test: "TestLease_Downgrade_lost",
		},
		{
			Name: "downgrade-after-the-trust", Why: "a call returns a lease that has ended",
			File: "rw.go", Old: "	case !t.hold.Trusted(0) || !same:\n", New: "	case !same:\n",
			Test: "TestLease_Downgrade_lostAndNotGivenBack",
		},
		{
			Name: "downgrade-crosses-extend", Why: "a reader is trusted for longer than its claim lives",
			File: "rw.go", Old: "	err := t.hold.Alone(ctx, call) //", New: "	err := call(ctx, t.hold.Terms().StoreTTL()) //",
			Test: "TestLease_Downgrade_crossesExtend",
		},
		{
			Name: "downgrade-after-close", Why: "Close leaves a claim and a lease that nobody ends",
			File: "rw.go", Old: "	if l.t.lease != l || locker.closed {\n		return nil, locker.closed\n", New: "	if l.t.lease != l {\n		return nil, false\n",
			Test: "TestLease_Downgrade_closedMeanwhile",
		},
		{
			Name: "downgrade-leaves-a-claim-unreported", Why: "a claim that was prolonged too late is left, and the error does not say so",
			File: "rw.go", Old: "l.t.l.withdraw(ctx, l.r, l.t.id); err != nil {", New: "l.t.l.withdraw(ctx, l.r, l.t.id); err != nil && false {",
			Test: "TestLease_Downgrade_lostAndNotGivenBack",
		},
		{
			Name: "downgrade-released-twice", Why: "a lease that ReleaseAll releases is reported as lost",
			File: "rw.go", Old: "	if !errors.Is(why, ErrLost) {\n", New: "	if false {\n",
			Test: "TestLease_Downgrade_releasedMeanwhile",
		},
		{
			Name: "publish-crosses-extend", Why: "a leader is trusted for longer than its claim lives",
			File: "election.go", Old: "		_, err := lease.t.l.store.Renew(ctx, driver.Renewal{ID: lease.t.id, TTL: ttl, Value: value})\n		return err\n	})\n",
			New:  "		return nil\n	})\n	_, err = lease.t.l.store.Renew(call, driver.Renewal{ID: lease.t.id, TTL: hold.Terms().StoreTTL(), Value: value})\n",
			Test: "TestTerm_Publish_crossesExtend",
		},
		{
			Name: "downgrade-not-released", Why: "a downgrade that failed leaves the lock taken for a TTL",
			File: "rw.go", Old: "newOpError(\"downgrade\", l.r.name, err), l.Unlock(ctx)\n", New: "newOpError(\"downgrade\", l.r.name, err), error(nil)\n",
			Test: "TestLease_Downgrade_answerLost",
		},
		{
			Name: "downgrade-keeps-the-weight", Why: "readers wait for as long as the downgraded writer reads",
			File: "rw.go", Old: "	r.Weight, r.mode, r.room = 1, ModeShared, nil\n", New: "	r.mode, r.room = ModeShared, nil\n",
			Test: "TestLease_Downgrade",
		},
		{
			Name: "readers-here-not-woken", Why: "readers of the same process are not woken after a downgrade",
			File: "rw.go", Old: "	t.l.tidy(t.n) // readers of this process may ask now\n", New: "",
			Test: "TestLease_Downgrade",
		},
		{
			Name: "upgrade-waits", Why: "a reader that upgrades to a writer waits for itself for ever",
			File: "locker.go", Old: "	if mode == ModeExclusive {\n		if err := l.upgrades", New: "	if mode == ModeCounted {\n		if err := l.upgrades",
			Test: "TestLocker_Lock_upgrade",
		},
		{
			Name: "upgrade-under-another-lease", Why: "only the innermost lease of a context is checked",
			File: "rw.go", Old: "	own, _ := ctx.Value(holdKey{l, r.Key}).(*Lease)\n", New: "	own := FromContext(ctx)\n	if own.r.Key != r.Key {\n		own = nil\n	}\n",
			Test: "TestLocker_Lock_upgrade",
		},
		{
			Name: "one-slot-too-many", M: "M34a", Why: "a semaphore has more holders than slots",
			File: "semaphore.go", Old: "max(1, r.opt.weight), s.Size(), s.size\n", New: "max(1, r.opt.weight), s.Size()+1, s.size\n",
			Test: "TestSemaphore_Acquire",
		},
		{
			Name: "one-slot-too-many-in-the-queue", M: "M34a", Why: "the same, for queued waiters",
			File: "semaphore.go", Old: "		return r.size.Load()\n	}\n	return r.Limit\n", New: "		return r.size.Load() + 1\n	}\n	return r.Limit\n",
			Test: "TestSemaphore_chaos", Args: chaos("400"),
		},
		{
			Name: "resize-not-used", Why: "a waiter continues to request with the old size",
			File: "runner.go", Old: "		p.ask.Limit = p.r.bound()\n", New: "",
			Test: "TestSemaphore_Resize",
		},
		{
			Name: "resize-not-notified", Why: "a waiter sees the new size only at its next poll",
			File: "semaphore.go", Old: "		n.shake()\n", New: "		_ = n\n",
			Test: "TestSemaphore_Resize",
		},
		{
			Name: "resize-loses-the-queue-entry", Why: "a waiter goes to the end of the queue",
			File: "semaphore.go", Old: "		return r.size == other.size\n", New: "		return r.size == other.size && r.Limit == other.Limit\n",
			Test: "TestSemaphore_Resize_passesThePlaceOn",
		},
		{
			Name: "waits-for-more-than-there-is", Why: "a call waits for slots that a resize removed, and so do all calls behind it",
			File: "semaphore.go", Old: "w.r.size == size && w.r.tooHeavy() != nil\n", New: "false\n",
			Test: "TestSemaphore_Resize_tooSmall",
		},
		{
			Name: "waits-behind-for-more-than-there-is", Why: "the same, if the call is not the first in the queue",
			File: "semaphore.go", Old: "w.r.size == size && w.r.tooHeavy() != nil\n", New: "w == n.first() && w.r.size == size && w.r.tooHeavy() != nil\n",
			Test: "TestSemaphore_Resize_tooSmallBehind",
		},
		{
			Name: "queues-for-more-than-there-is", Why: "the same, if the resize comes just before the call enters the queue",
			File: "waiter.go", Old: "	if w.err = w.r.tooHeavy(); w.err != nil {", New: "	if false {",
			Test: "TestSemaphore_Resize_onTheWay",
		},
		{
			Name: "lock-with-a-weight", Why: "a weight is accepted for a lock and has no effect",
			File: "request.go", Old: "	case opt.weight > 0 && k != kindSem && k != kindRate:\n", New: "	case false:\n",
			Test: "TestSemaphore_refused",
		},
		{
			Name: "several-in-any-order", Why: "two callers that take the same names wait for each other for ever",
			File: "multi.go", Old: "slices.Compact(slices.Sorted(slices.Values(names)))", New: "slices.Compact(slices.Clone(names))",
			Test: "TestLocker_LockAll_noDeadlock",
		},
		{
			Name: "some-and-not-all", Why: "if one name cannot be acquired, the names before it stay taken",
			File: "multi.go", Old: "		if err := end(ctx); err != nil && !errors.Is(err, ErrLost) {\n", New: "		_ = end\n		if err := lease.Err(); err != nil {\n",
			Test: "TestLocker_LockAll_allOrNothing",
		},
		{
			Name: "wait-of-each", Why: "a wait is bounded for each name, and not for all together",
			File: "multi.go", Old: "	if wait := r.opt.wait; wait > 0 {\n", New: "	if wait := r.opt.wait; wait < -1 {\n",
			Test: "TestLocker_LockAll_wait",
		},
		{
			Name: "first-lost-unseen", Why: "the call waits for the other names although the lease of the first is lost",
			File: "multi.go", Old: "		waiting = lease.Context(waiting) // a loss ends the wait for the next\n", New: "",
			Test: "TestLocker_LockAll_lostWhileWaiting",
		},
		{
			Name: "pass-released", Why: "a rate limit counts nothing",
			File: "limiter.go", Old: "	return lease.leave(ctx)\n", New: "	return lease.Unlock(ctx)\n",
			Test: "TestLimiter_Allow",
		},
		{
			Name: "no-retry-after", Why: "a refused caller does not know when to come back",
			File: "request.go", Old: ", Retry: res.Retry, heard", New: ", heard",
			Test: "TestLimiter_Allow",
		},
		{
			Name: "share-spent-too-late", Why: "passes spent at the end of a share are forgotten before its window has ended",
			File: "share.go", Old: " + lease.t.hold.Left() - m.window}\n", New: " + lease.t.hold.Left()}\n",
			Test: "TestLimiter_shares_unspent",
		},
		{
			Name: "share-without-a-second-window", Why: "the same, because the claim expires too early",
			File: "share.go", Old: "driver.Renewal{ID: id, TTL: m.window})", New: "driver.Renewal{ID: id, TTL: m.window / 2})",
			Test: "TestLimiter_neverOver",
		},
		{
			Name: "share-kept-for-two-windows", Why: "a limit above 1,000 lets half of it pass",
			File: "share.go", Old: "			spent = append(spent, s.id)\n", New: "",
			Test: "TestLimiter_shares",
		},
		{
			Name: "share-for-everyone", Why: "a hundred calls at once take a hundred shares",
			File: "share.go", Old: "			p.fill = f\n", New: "			p.fill = nil\n",
			Test: "TestLimiter_shares_together",
		},
		{
			Name: "refused-for-anothers-reason", Why: "a call fails because another one was cancelled",
			File: "share.go", Old: "		if errors.As(f.err, &limited) && weight >= f.weight {\n", New: "		if !errors.As(f.err, &limited) && f.err != nil {\n			return asked, f.err\n		}\n		if limited != nil {\n",
			Test: "TestLimiter_shares_together",
		},
		{
			Name: "refused-with-a-larger-one", Why: "a call that fits into the limit is refused because another was",
			File: "share.go", Old: " && weight >= f.weight {\n", New: " {\n",
			Test: "TestLimiter_shares_refusedTogether",
		},
		{
			Name: "share-waits-after-close", Why: "a call waits for a window of a limit although its Locker is closed",
			File: "share.go", Old: "	case <-m.l.closing:\n", New: "	case <-(chan struct{})(nil):\n",
			Test: "TestLimiter_closedWhileWaiting",
		},
		{
			Name: "share-left-unreported", Why: "an interrupted attempt leaves a claim, and the error does not say so",
			File: "share.go", Old: "errors.Join(refused.Err, err)", New: "errors.Join(refused.Err, context.Cause(ctx))",
			Test: "TestLimiter_shares_unknown",
		},
		{
			Name: "pools-for-ever", Why: "every name that was ever limited stays in memory",
			File: "share.go", Old: "			delete(m.pools, other)\n", New: "			_ = other\n",
			Test: "TestLimiter_shares_forgotten",
		},
		{
			Name: "retry-after-too-early", Why: "a client that obeys is refused again",
			File: "adapter/httpratelimit/httpratelimit.go", Old: "(d+time.Second-1)/time.Second", New: "d/time.Second",
			Pkg: "adapter/httpratelimit", Test: "TestMiddleware",
		},
		{
			Name: "no-limit-without-the-store", Why: "a store that fails lets every call pass, although this was not configured",
			File: "adapter/httpratelimit/httpratelimit.go", Old: "	case m.PassOnError && ", New: "	case ",
			Pkg: "adapter/httpratelimit", Test: "TestMiddleware_storeFails",
		},
		{
			Name: "client-blamed-for-a-weight", Why: "a service with a wrong weight reports to its clients that their requests are bad",
			File: "adapter/httpratelimit/httpratelimit.go", Old: "	case errors.Is(err, distlock.ErrInvalidName):\n", New: "	case errors.Is(err, distlock.ErrInvalid):\n",
			Pkg: "adapter/httpratelimit", Test: "TestMiddleware_badWeight",
		},
		{
			Name: "handle-of-a-provisional-claim", Why: "a handle is valid for the rest of a queue entry, and not for its TTL",
			File: "handle.go", Old: "	if err := l.mature(ctx); err != nil {\n", New: "	if err := error(nil); err != nil {\n",
			Test: "TestLease_Handle_told",
		},
		{
			Name: "provisional-claim-renewed-once", Why: "one unanswered renewal takes all the time of a claim that began with a part of its TTL",
			File: "lease.go", Old: "context.WithTimeout(ctx, min(callLimit, hold.Left()/3))", New: "context.WithTimeout(ctx, min(callLimit, hold.Left()))",
			Test: "TestLease_Ensure_toldAndNotRenewed",
		},
		{
			Name: "provisional-claim-renewed-though-extended", Why: "a check whether a lease is valid undoes an Extend that was in flight",
			File: "lease.go", Old: "	err := hold.Ensure(call, d)\n", New: "	err := hold.Extend(call, l.r.opt.ttl)\n",
			Test: "TestLease_Ensure_toldAndExtended",
		},
	}
}
