package main

// redis are mutants of store/redis: the scripts in virtual time, the adapters on a server.
func redis() []mutant {
	const dir, pkg = "store/redis/lua/", "store/redis"
	return []mutant{
		{
			Name: "hand-off-for-a-whole-TTL", Why: "a dead waiter is handed the key, and no other caller gets it before the TTL expires",
			File: dir + "common.lua", Old: "      grant(c, 0, math.ceil(left))\n", New: "      grant(c, 0, math.ceil(left) + 30000)\n",
			Pkg: pkg, Test: "TestStore_virtual/expired_entry",
		},
		{
			Name: "redis-renews-a-record-by-the-short-cut", Why: "a renewal that was in flight for long makes a result expire with the lease",
			File: dir + "state.lua", Old: "(longest + KEEP > lifetime() or recorded()) and 1", New: "longest + KEEP > lifetime() and 1",
			Pkg: pkg, Test: "TestStore_virtual/record",
		},
		{
			Name: "redis-forgets-a-fence-too-soon", M: "M04e", Why: "the memory of a busy key is never prolonged, and its fences restart from a clock that was set back",
			File: dir + "acquire.lua", Old: "    'PX', fence > now and 600000 + math.ceil((fence - now) / 1000) or '600000', 'GET')\n", New: "    'KEEPTTL', 'GET')\n",
			Pkg: pkg, Test: "TestStore_remembers",
		},
		{
			Name: "redis-forgets-a-handed-fence-too-soon", M: "M04e", Why: "the same, for a key that is handed off",
			File: dir + "release.lua", Old: "fence - fence % 10000000 > tonumber(last)", New: "last == '0'",
			Pkg: pkg, Test: "TestStore_remembers",
		},
		{
			Name: "redis-hands-off-below-the-floor", M: "M04e", Why: "the memory of a name is lost and the clock is set back, and the next holder has a lower fence",
			File: dir + "release.lua", Old: "'^([1-9]%d*) 0 ([1-9]%d*) 0", New: "'^(%d+) 0 ([1-9]%d*) 0",
			Pkg: pkg, Test: "TestStore_virtual_lostFence",
		},
		{
			Name: "redis-joins-for-a-shorter-life", Why: "a queue entry with a long TTL is forgotten when another joins the queue behind it",
			File: dir + "acquire.lua", Old: "if call('PTTL', set) < 600000 then call('PEXPIRE', set, '600000') end", New: "call('PEXPIRE', set, '600000')",
			Pkg: pkg, Test: "TestStore_longEntry",
		},
		{
			Name: "redis-joins-unseen", Why: "a release does not see that somebody waits: it hands nothing over and notifies nobody",
			File: dir + "acquire.lua", Old: "    if mine and not busy then call(", New: "    if false then call(",
			Pkg: pkg, Test: "TestStore_virtual_value/an_exclusive_waiter",
		},
		{
			Name: "redis-joins-unseen-slowly", Why: "the same, for waiters that the fast path does not know",
			File: dir + "state.lua", Old: "flagged ~= busy() then", New: "flagged and not busy() then",
			Pkg: pkg, Test: "TestStore_virtual_value/a_shared_waiter",
		},
		{
			Name: "redis-far-attempt-renews-nothing", Why: "a waiter far from the head loses its place in the queue while it waits",
			File: dir + "acquire.lua", Old: "      call('ZADD', set, 100000000000000 + ends, 'e' .. owner)\n    else", New: "    else",
			Pkg: pkg, Test: "TestStore_virtual_farAttempt",
		},
		{
			Name: "redis-far-attempt-outlives-the-memory", Why: "a queue is forgotten ten minutes after the last newcomer, while its waiters attempt",
			File: dir + "acquire.lua", Old: "    local keep = waiting == 0 or ", New: "    local keep = waiting == 0 or not entry and ",
			Pkg: pkg, Test: "TestStore_virtual_farAttempt",
		},
		{
			Name: "redis-overtakes-the-queue", Why: "a newcomer takes the key that has expired from the head of the queue",
			File: dir + "acquire.lua", Old: "string.match(old, '^(%d+)\\n') or -1)", New: "string.match(old, '^(%d+)') or -1)",
			Pkg: pkg, Test: "TestStore_virtual_expiredHolder",
		},
		{
			Name: "redis-counts-the-lost", M: "M34a", Why: "claims whose memory was lost are taken off the count of the next ones, and a semaphore lets one too many in",
			File: dir + "common.lua", Old: "  if used + waiting == 0 and call('ZCOUNT', set, '-inf', '+inf') > 0 or\n    used", New: "  if used",
			Pkg: pkg, Test: "TestStore_virtual_lostMemory",
		},
		{
			Name: "redis-trusts-any-floor", M: "M04e", Why: "the first grant of a forgotten name does not look at the floor, and its fences go back with the clock",
			File: dir + "acquire.lua", Old: "#text == 16 and now - text >= 0 and", New: "#text == 16 and",
			Pkg: pkg, Test: "TestFences_built",
		},
		{
			Name: "redis-marks-by-the-clock", Why: "two servers that forgot at the same time are taken for one, and a majority refuses them for ever",
			File: dir + "acquire.lua", Old: "  if not mark then return 'm' end\n",
			New: "  if not mark then\n    mark = redis.sha1hex(ARGV[1] .. clock) .. ' ' .. clock\n    call('SET', ARGV[6], mark)\n  end\n",
			Pkg: pkg, Test: "TestStore_virtual_forgot",
		},
		{
			Name: "redis-counts-a-restarted-node", M: "M10", Why: "a node that restarted with an old snapshot is counted, and there are two holders",
			File: dir + "acquire.lua", Old: "if id and (id ~= was or tonumber(since) > now) then", New: "if id and tonumber(since) > now then",
			Pkg: pkg, Test: "TestStore_age_restart/snapshot",
		},
		{
			Name: "redis-keeps-a-mark-from-the-future", Why: "a clock that was set back by an hour keeps a node out for an hour",
			File: dir + "acquire.lua", Old: "if id and (id ~= was or tonumber(since) > now) then", New: "if id and id ~= was then",
			Pkg: pkg, Test: "TestStore_age_future",
		},
		{
			Name: "redis-begins-below-the-floor", M: "M04e", Why: "a forgotten name starts again with a clock that was set back, and guards refuse its holders",
			File: dir + "floor.lua", Old: "  if behind and last == 0 then\n", New: "  if false then\n",
			Pkg: "tests/guarantees", Test: "TestClock_corrected/redis",
		},
		{
			Name: "redis-hands-off-for-a-jump", Why: "the clock is set back, and a dead waiter is handed the key for the length of the jump",
			File: dir + "release.lua", Old: "    if requested ~= '0' then left = math.min(left, requested) end", New: "   ",
			Pkg: "tests/guarantees", Test: "TestClock_deadWaiter/redis",
		},
		{
			Name: "redis-polls-for-the-dead", Why: "a writer waits a second for every hundred readers that died",
			File: dir + "common.lua", Old: "  local left = math.max(1, first[2] - nowms)\n", New: "  local left = math.max(0, first[2] - nowms)\n",
			Pkg: pkg, Test: "TestStore_virtual_manyDead",
		},
		{
			Name: "redis-polls-for-dead-waiters", Why: "a caller waits a second for every hundred waiters that died",
			File: dir + "common.lua", Old: "return math.max(1, ends[i + 1] - ENTRIES - nowms) end", New: "return math.max(0, ends[i + 1] - ENTRIES - nowms) end",
			Pkg: pkg, Test: "TestStore_virtual_manyDead",
		},
		{
			Name: "redis-uses-an-old-server", Why: "a server that lacks a command of the scripts keeps half of a shared claim for ever",
			File: dir + "acquire.lua", Old: "major * 100 + minor < 602", New: "major * 100 + minor < 500",
			Pkg: pkg, Test: "TestStore_virtual_version",
		},
		{
			Name: "redis-shows-all-at-once", Why: "listing a name with many claims blocks the server for all its clients",
			File: pkg + "/show.go", Old: "const showStep = 200\n", New: "const showStep = 1 << 20\n",
			Pkg: pkg, Test: "TestStore_virtual_breakPages",
		},
		{
			Name: "redis-shows-one-page", Why: "claims after the first 200 on a name are hidden",
			File: pkg + "/show.go", Old: "		if err != nil || next == \"\" {\n", New: "		if err != nil || next != at {\n",
			Pkg: pkg, Test: "TestStore_virtual_pages",
		},
		{
			Name: "redis-break-ignores-the-fence", Why: "a claim is ended that was granted after the operator looked",
			File: dir + "break.lua", Old: "    if upto == 0 or fence > 0 and fence <= upto then\n", New: "    if true then\n",
			Pkg: pkg, Test: "TestStore_virtual/break_up_to",
		},
		{
			Name: "redis-breaks-what-came-later", Why: "a Break in pages ends claims that were granted after it began",
			File: dir + "break.lua", Old: "  if not c or c.order <= high and (upto == 0 or c.fence <= upto) then\n", New: "  if true then\n",
			Pkg: pkg, Test: "TestStore_virtual_breakPages",
		},
		{
			Name: "redis-dead-waiter-stays-for-a-jump", Why: "the clock is set back, and a dead waiter blocks the queue for the length of the jump",
			File: dir + "common.lua", Old: "not exclusive() then shorten() end", New: "not exclusive() then shorten = shorten end",
			Pkg: "tests/guarantees", Test: "TestClock_deadWaiter/redis",
		},
		{
			Name: "batcher-uses-an-idle-connection", Why: "a server closes a connection that is idle, and the first call after a pause fails with an unknown outcome",
			File: "store/redis/rueidisstore/solo.go", Old: "!one.taken && now.Sub(one.used) <= soloIdle {", New: "!one.taken {",
			Pkg: "store/redis/rueidisstore", Test: "TestBatcher_solo",
		},
		{
			Name: "batcher-keeps-connections", Why: "the pool of the application never gets back the connections that round trips had of their own",
			File: "store/redis/rueidisstore/solo.go", Old: "			go one.c.Close()\n", New: "			_ = one\n",
			Pkg: "store/redis/rueidisstore", Test: "TestBatcher_solo_fullPool",
		},
		{
			Name: "batcher-hears-no-cancel", Why: "a server hangs, and a call whose ctx was cancelled returns after 5 s",
			File: "store/redis/rueidisstore/batcher.go", Old: "own != nil || !quiet || !cancellable(ctx) {", New: "own != nil || !quiet || true {",
			Pkg: "store/redis/rueidisstore", Test: "TestBatcher_cancelled/shared",
		},
		{
			Name: "batcher-hears-no-cancel-alone", Why: "the same, on the connection of calls that follow each other",
			File: "store/redis/rueidisstore/solo.go", Old: "s.c == c.c && s.taken && s.count == c.count", New: "s.c == c.c && s.count != c.count",
			Pkg: "store/redis/rueidisstore", Test: "TestBatcher_cancelled/own",
		},
		{
			Name: "batcher-keeps-a-broken-connection", Why: "after one broken connection every call of one goroutine fails",
			File: "store/redis/rueidisstore/solo.go", Old: "	if res.NonRedisError() != nil {\n", New: "	if res.NonRedisError() != nil && b.closed {\n",
			Pkg: "store/redis/rueidisstore", Test: "TestBatcher_solo_cut",
		},
		{
			Name: "batcher-opens-without-end", Why: "a busy process opens one connection after the other",
			File: "store/redis/rueidisstore/solo.go", Old: "len(s.all) < minTrips && ", New: "len(s.all) < 10*minTrips && ",
			Pkg: "store/redis/rueidisstore", Test: "TestBatcher_solos",
		},
		{
			Name: "batcher-closes-for-one", Why: "a store that is closed while calls are held back never ends",
			File: "store/redis/rueidisstore/batcher.go", Old: "				b.wake.Broadcast() // other workers", New: "				// other workers",
			Pkg: "store/redis/rueidisstore", Test: "TestBatcher_closed_busy",
		},
		{
			Name: "redis-merged-release-frees-others", Why: "a late release that is one of many ends the claim of the next holder",
			File: dir + "release.lua", Old: "redis.pcall('GET', name) == ARGV[i] and redis.pcall", New: "redis.pcall",
			Pkg: pkg, Test: "TestStore_virtual_merged",
		},
		{
			Name: "redis-merged-grant-stays", Why: "an attempt that is one of many takes a name ahead of its queue",
			File: dir + "acquire.lua", Old: "      call('DEL', name)\n    end\n    many", New: "    end\n    many",
			Pkg: pkg, Test: "TestStore_virtual_merged",
		},
		{
			Name: "redis-merged-grant-forgets-the-queue", Why: "an attempt that is one of many deletes the count of the waiters and the last fence",
			File: dir + "acquire.lua", Old: "      elseif type(old) == 'string' then\n        -- The memory", New: "      elseif old == 'string' then\n        -- The memory",
			Pkg: pkg, Test: "TestStore_virtual_merged",
		},
		{
			Name: "batcher-merges-refusals", Why: "a call that was not done as a part of a command is reported as done",
			File: "store/redis/rueidisstore/batcher.go", Old: " && texts[j] != \"-\":", New: ":",
			Pkg: "store/redis/rueidisstore", Test: "TestStore_merged",
		},
		{
			Name: "batcher-undoes-too-early", Why: "a release overtakes the attempt that it undoes, and the claim stays for its TTL",
			File: "store/redis/rueidisstore/batcher.go", Old: "return int(a.merge) - int(b.merge)", New: "return int(b.merge) - int(a.merge)",
			Pkg: "store/redis/rueidisstore", Test: "TestBatcher_groups",
		},
		{
			Name: "batcher-repeats-what-was-undone", Why: "a release comes between an attempt and its repetition, and the claim stays for its TTL",
			File: "store/redis/rueidisstore/batcher.go", Old: "c.merge > 0 && c.merge < undoes[c.owner()]", New: "c.merge < 0*undoes[c.owner()]",
			Pkg: "store/redis/rueidisstore", Test: "TestBatcher_undone",
		},
		{
			Name: "calls-start-after-close", Why: "a store that is closed goes on working, and its end is not awaited",
			File: "store/redis/calls.go", Old: "	if c.idle != nil {\n		return false\n	}\n", New: "	if c.idle != nil {\n		c.running += 2\n		return true\n	}\n",
			Pkg: pkg, Test: "TestCalls_Close",
		},
		{
			Name: "inspect-outlives-its-context", Why: "a call that inspects a hung server blocks its caller",
			File: "store/redis/goredisstore/goredisstore.go", Old: "	if late := s.calls.Do(ctx, func() { cmd = s.c.Do(ctx, list...) }); late != nil {\n		return nil, late\n	}\n", New: "	cmd = s.c.Do(ctx, list...)\n",
			Pkg: pkg, Test: "TestStore_silentServer/goredis",
		},
		{
			Name: "client-sends-again", M: "M20", Why: "go-redis sends a script again after a lost answer, and one attempt runs several times",
			File: "store/redis/goredisstore/goredisstore.go", Old: "func (once) NoRetry() bool { return true }", New: "func (once) NoRetry() bool { return false }",
			Pkg: pkg, Test: "TestStore_lostReply/goredis",
		},
		{
			Name: "withdrawals-are-dropped", Why: "a release is not sent because its caller has left, and the key stays taken for a TTL",
			File: "store/redis/rueidisstore/batcher.go", Old: "	case len(b.queue) > maxQueued:\n", New: "	case len(b.queue) > 0*maxQueued:\n",
			Pkg: "store/redis/rueidisstore", Test: "TestBatcher_keeps_order",
		},
		{
			Name: "redis-full-server-renews-no-shares", Why: "a full server refuses renewals that need no more memory, and the leases are lost",
			File: dir + "common.lua", Old: " else call('HDEL', hash, '') end\n", New: " end\n",
			Pkg: pkg, Test: "TestStore_renewAll_full",
		},
		{
			Name: "redis-strange-key-fails-all", Why: "renewals that were done are reported as failed",
			File: dir + "renew.lua", Old: "    if not string.find(why, 'WRONGTYPE', 1, true) then error(answer, 0) end\n", New: "    error(answer, 0)\n",
			Pkg: pkg, Test: "TestStore_renewAll_wrongType",
		},
		{
			Name: "redis-reason-kept-for-ever", Why: "each lock of another client that is broken leaves a key behind",
			File: dir + "break.lua", Old: "  if left <= 0 then return end\n", New: "",
			Pkg: pkg, Test: "TestStore_break_foreign",
		},
		{
			Name: "rueidis-cut-off-is-unavailable", Why: "a command that was sent and may have run is reported as not run",
			File: pkg + "/rueidisstore/rueidisstore.go", Old: "	if errors.Is(err, rueidis.ErrNoSlot) {\n", New: "	if errors.Is(err, rueidis.ErrNoSlot) || errors.Is(err, rueidis.ErrClosing) {\n",
			Pkg: pkg, Test: "TestStore_close_underWay",
		},
	}
}
