package main

// kinds are mutants of the read/write lock, the semaphore, several names at once and the rate
// limit.
func kinds() []mutant {
	return []mutant{
		{
			Name: "downgrade-while-writing", Why: "a writer's work continues while readers have the lock",
			File: "internal/queue/downgrade.go", Old: "	if mine, _ := l.beginEnd(false, endLimit); !mine {\n",
			New:  "	defer l.beginEnd(false, endLimit)\n	if l.Err() != nil {\n",
			Test: "TestLease_Downgrade_endsTheWorkFirst",
		},
		{
			Name: "downgrade-of-a-lost-lease", Why: "another writer had the lock in between, and no error says so",
			File: "internal/queue/downgrade.go", Old: " && res.Fence <= t.fence; same {", New: "; same {",
			Test: "TestLease_Downgrade_lost",
		},
		{
			Name: "downgrade-after-the-trust", Why: "a call returns a lease that has ended",
			File: "internal/queue/downgrade.go", Old: "	case !t.hold.Trusted(0) || !same:\n", New: "	case !same:\n",
			Test: "TestLease_Downgrade_lostAndNotReleased",
		},
		{
			Name: "downgrade-crosses-extend", Why: "a reader is trusted for longer than its claim lives",
			File: "internal/queue/downgrade.go", Old: "	err := t.hold.Alone(ctx, call) //", New: "	err := call(ctx, t.hold.Terms().StoreTTL()) //",
			Test: "TestLease_Downgrade_crossesExtend",
		},
		{
			Name: "downgrade-after-close", Why: "Close leaves a claim and a lease that nobody ends",
			File: "internal/queue/downgrade.go", Old: "	if l.t.lease != l || m.closed {\n		return nil, m.closed\n", New: "	if l.t.lease != l {\n		return nil, false\n",
			Test: "TestLease_Downgrade_closedMeanwhile",
		},
		{
			Name: "downgrade-leaves-a-claim-unreported", Why: "a claim that was prolonged too late is left, and the error does not say so",
			File: "internal/queue/downgrade.go", Old: "l.t.m.withdraw(ctx, l.call, l.t.id); err != nil {", New: "l.t.m.withdraw(ctx, l.call, l.t.id); err != nil && false {",
			Test: "TestLease_Downgrade_lostAndNotReleased",
		},
		{
			Name: "downgrade-released-twice", Why: "a lease that ReleaseAll releases is reported as lost",
			File: "internal/queue/downgrade.go", Old: "	if why == ErrReleased { //nolint:errorlint // this very one\n", New: "	if false {\n",
			Test: "TestLease_Downgrade_releasedMeanwhile",
		},
		{
			Name: "publish-crosses-extend", Why: "a leader is trusted for longer than its claim lives",
			File: "election.go", Old: "		_, err := lease.r.l.store.Renew(ctx, driver.Renewal{ID: lease.q.ID(), TTL: ttl, Value: value})\n		return err\n	})\n",
			New:  "		return nil\n	})\n	_, err = lease.r.l.store.Renew(call, driver.Renewal{ID: lease.q.ID(), TTL: hold.Terms().StoreTTL(), Value: value})\n",
			Test: "TestTerm_Publish_crossesExtend",
		},
		{
			Name: "downgrade-not-released", Why: "a downgrade that failed leaves the lock taken for a TTL",
			File: "internal/queue/downgrade.go", Old: "		left := l.End(ctx)\n", New: "		left := error(nil)\n",
			Test: "TestLease_Downgrade_answerLost",
		},
		{
			Name: "downgrade-keeps-the-weight", Why: "readers wait for as long as the downgraded writer reads",
			File: "rw.go", Old: "	r.Weight, r.mode = 1, ModeShared\n", New: "	r.mode = ModeShared\n",
			Test: "TestLease_Downgrade",
		},
		{
			Name: "readers-here-not-woken", Why: "readers of the same process are not woken after a downgrade",
			File: "internal/queue/downgrade.go", Old: "	t.m.reconcileLocked(t.k) // waiters of this process may attempt now\n", New: "",
			Test: "TestLease_Downgrade",
		},
		{
			Name: "upgrade-waits", Why: "a reader that upgrades to a writer waits for itself for ever",
			File: "locker.go", Old: "	if mode == ModeExclusive {\n		if err := l.upgrades", New: "	if mode == ModeCounted {\n		if err := l.upgrades",
			Test: "TestLocker_Lock_upgrade",
		},
		{
			Name: "upgrade-under-another-lease", Why: "only the innermost lease of a context is checked",
			File: "context.go", Old: "	own, _ := ctx.Value(holdKey{l, r.Key}).(*Lease)\n", New: "	own := FromContext(ctx)\n	if own.r.Key != r.Key {\n		own = nil\n	}\n",
			Test: "TestLocker_Lock_upgrade",
		},
		{
			Name: "one-slot-too-many", M: "M34a", Why: "a semaphore has more holders than slots",
			File: "semaphore.go", Old: "max(1, r.opt.weight), s.Size(), s.size\n", New: "max(1, r.opt.weight), s.Size()+1, s.size\n",
			Test: "TestSemaphore_Acquire",
		},
		{
			Name: "one-slot-too-many-in-the-queue", M: "M34a", Why: "the same, for queued waiters",
			File: "internal/queue/call.go", Old: "		return c.Size.Load()\n	}\n	return c.Limit\n", New: "		return c.Size.Load() + 1\n	}\n	return c.Limit\n",
			Test: "TestSemaphore_chaos", Args: chaos("400"),
		},
		{
			Name: "resize-not-used", Why: "a waiter continues to request with the old size",
			File: "internal/queue/runner.go", Old: "	(*e).request.Limit = (*e).call.Bound()\n", New: "",
			Test: "TestSemaphore_Resize",
		},
		{
			Name: "resize-not-notified", Why: "a waiter sees the new size only at its next poll",
			File: "internal/queue/key.go", Old: "w.call.Size == size {\n		k.wakeRunnerLocked()\n", New: "w.call.Size == size {\n		_ = k\n",
			Test: "TestSemaphore_Resize",
		},
		{
			Name: "resize-loses-the-queue-entry", Why: "a waiter goes to the end of the queue",
			File: "internal/queue/call.go", Old: "		return c.Size == other.Size\n", New: "		return c.Size == other.Size && c.Limit == other.Limit\n",
			Test: "TestSemaphore_Resize_passesTheEntryOn",
		},
		{
			Name: "waits-for-more-than-there-is", Why: "a call waits for slots that a resize removed, and so do all calls behind it",
			File: "internal/queue/key.go", Old: "w.call.Size == size && w.call.TooHeavy() != nil\n", New: "false\n",
			Test: "TestSemaphore_Resize_tooSmall",
		},
		{
			Name: "waits-behind-for-more-than-there-is", Why: "the same, if the call is not the first in the queue",
			File: "internal/queue/key.go", Old: "w.call.Size == size && w.call.TooHeavy() != nil\n", New: "w == k.firstLocked() && w.call.Size == size && w.call.TooHeavy() != nil\n",
			Test: "TestSemaphore_Resize_tooSmallBehind",
		},
		{
			Name: "queues-for-more-than-there-is", Why: "the same, if the resize comes just before the call enters the queue",
			File: "internal/queue/waiter.go", Old: "	if err := w.call.TooHeavy(); err != nil {", New: "	if err := error(nil); err != nil {",
			Test: "TestSemaphore_Resize_onTheWay",
		},
		{
			Name: "lock-with-a-weight", Why: "a weight is accepted for a lock and has no effect",
			File: "options.go", Old: "names.Lock:      givenWeight | ", New: "names.Lock:      ",
			Test: "TestSemaphore_refused",
		},
		{
			Name: "several-in-any-order", Why: "two callers that take the same names wait for each other for ever",
			File: "multi.go", Old: "slices.Compact(slices.Sorted(slices.Values(all)))", New: "slices.Compact(slices.Clone(all))",
			Test: "TestLocker_LockAll_noDeadlock",
		},
		{
			Name: "some-and-not-all", Why: "if one name cannot be acquired, the names before it stay taken",
			File: "multi.go", Old: "		if err := end(ctx); err != nil && !errors.Is(err, ErrLost) {\n", New: "		_ = end\n		if err := lease.Err(); err != nil {\n",
			Test: "TestLocker_LockAll_allOrNothing",
		},
		{
			Name: "wait-of-each", Why: "a wait is bounded for each name, and not for all together",
			File: "multi.go", Old: "	if wait := r.Wait; wait > 0 {\n", New: "	if wait := r.Wait; wait < -1 {\n",
			Test: "TestLocker_LockAll_wait",
		},
		{
			Name: "first-lost-unseen", Why: "the call waits for the other names although the lease of the first is lost",
			File: "multi.go", Old: "		waiting = lease.Context(waiting) // a loss ends the wait for the next\n", New: "",
			Test: "TestLocker_LockAll_lostWhileWaiting",
		},
		{
			Name: "pass-released", Why: "a rate limit counts nothing",
			File: "limiter.go", Old: "	return lease.q.Detach(ctx)\n", New: "	return lease.Unlock(ctx)\n",
			Test: "TestLimiter_Allow",
		},
		{
			Name: "no-retry-after", Why: "a refused caller does not know when to come back",
			File: "internal/queue/call.go", Old: ", Retry: res.Retry, heard", New: ", heard",
			Test: "TestLimiter_Allow",
		},
		{
			Name: "share-spent-too-late", Why: "passes spent at the end of a share are forgotten before its window has ended",
			File: "limiter.go", Old: " + lease.Hold().Left() - m.window}\n", New: " + lease.Hold().Left()}\n",
			Test: "TestLimiter_shares_unspent",
		},
		{
			Name: "share-without-a-second-window", Why: "the same, because the claim expires too early",
			File: "limiter.go", Old: "driver.Renewal{ID: id, TTL: m.window})", New: "driver.Renewal{ID: id, TTL: m.window / 2})",
			Test: "TestLimiter_neverOver",
		},
		{
			Name: "share-kept-for-two-windows", Why: "a limit above 1,000 lets half of it pass",
			File: "limiter.go", Old: "			spent = append(spent, s.id)\n", New: "",
			Test: "TestLimiter_shares",
		},
		{
			Name: "share-for-everyone", Why: "a hundred calls at once take a hundred shares",
			File: "limiter.go", Old: "			p.fill = f\n", New: "			p.fill = nil\n",
			Test: "TestLimiter_shares_together",
		},
		{
			Name: "refused-for-anothers-reason", Why: "a call fails because another one was cancelled",
			File: "limiter.go", Old: "		if errors.As(f.err, &limited) && weight >= f.weight {\n", New: "		if !errors.As(f.err, &limited) && f.err != nil {\n			return filled, f.err\n		}\n		if limited != nil {\n",
			Test: "TestLimiter_shares_together",
		},
		{
			Name: "refused-with-a-larger-one", Why: "a call that fits into the limit is refused because another was",
			File: "limiter.go", Old: " && weight >= f.weight {\n", New: " {\n",
			Test: "TestLimiter_shares_refusedTogether",
		},
		{
			Name: "share-waits-after-close", Why: "a call waits for a window of a limit although its Locker is closed",
			File: "limiter.go", Old: "	case <-m.l.queue.Closing():\n", New: "	case <-(chan struct{})(nil):\n",
			Test: "TestLimiter_closedWhileWaiting",
		},
		{
			Name: "share-left-unreported", Why: "an interrupted attempt leaves a claim, and the error does not say so",
			File: "limiter.go", Old: "errors.Join(refused.Err, err)", New: "errors.Join(refused.Err, context.Cause(ctx))",
			Test: "TestLimiter_shares_unknown",
		},
		{
			Name: "pools-for-ever", Why: "every name that was ever limited stays in memory",
			File: "limiter.go", Old: "			delete(m.pools, other)\n", New: "			_ = other\n",
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
			File: "adapter/httpratelimit/httpratelimit.go", Old: " && wrong.What == \"name\":\n", New: ":\n",
			Pkg: "adapter/httpratelimit", Test: "TestMiddleware_badWeight",
		},
		{
			Name: "handle-of-a-provisional-claim", Why: "a handle is valid for the rest of a queue entry, and not for its TTL",
			File: "internal/queue/end.go", Old: "	if err := l.confirm(ctx); err != nil {\n", New: "	if err := error(nil); err != nil {\n",
			Test: "TestLease_Detach_pushed",
		},
		{
			Name: "provisional-claim-renewed-once", Why: "one unanswered renewal takes all the time of a claim that began with a part of its TTL",
			File: "lease.go", Old: "context.WithTimeout(ctx, min(queue.CallLimit, hold.Left()/3))", New: "context.WithTimeout(ctx, min(queue.CallLimit, hold.Left()))",
			Test: "TestLease_Ensure_pushedAndNotRenewed",
		},
		{
			Name: "provisional-claim-renewed-though-extended", Why: "a check whether a lease is valid undoes an Extend that was in flight",
			File: "lease.go", Old: "	err := hold.Ensure(call, d)\n", New: "	err := hold.Extend(call, l.r.opt.ttl)\n",
			Test: "TestLease_Ensure_pushedAndExtended",
		},
	}
}
