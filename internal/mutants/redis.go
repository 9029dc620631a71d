package main

// redis are mutants of store/redis: of the scripts, in virtual time, and of the adapters, on a server.
func redis() []mutant {
	const dir, pkg = "store/redis/lua/", "store/redis"
	return []mutant{
		{
			Name: "hand-over-for-a-whole-TTL", Why: "a waiter that died is handed the key, and nobody gets it before a TTL is over",
			File: dir + "common.lua", Old: "      grant(c, 0, math.ceil(left))\n", New: "      grant(c, 0, math.ceil(left) + 30000)\n",
			Pkg: pkg, Test: "TestStore_virtual/expired_entry",
		},
		{
			Name: "redis-renews-a-record-by-the-short-cut", Why: "a renewal that was under way for long makes a result be forgotten with the lease",
			File: dir + "common.lua", Old: "(longest + KEEP > memory() or recorded()) and 1", New: "longest + KEEP > memory() and 1",
			Pkg: pkg, Test: "TestStore_virtual/record",
		},
		{
			Name: "redis-forgets-a-fence-too-soon", M: "M04e", Why: "the hash of a busy key is never prolonged, and its fences begin anew behind a clock that was set back",
			File: dir + "acquire.lua", Old: "fence - fence % 10000000 > last", New: "last == 0",
			Pkg: pkg, Test: "TestStore_remembers",
		},
		{
			Name: "redis-forgets-a-handed-fence-too-soon", M: "M04e", Why: "the same, on a key that is handed on",
			File: dir + "release.lua", Old: "fence - fence % 10000000 > tonumber(last)", New: "last == '0'",
			Pkg: pkg, Test: "TestStore_remembers",
		},
		{
			Name: "redis-joins-for-a-shorter-life", Why: "a place that lives for long is forgotten when another joins the line behind it",
			File: dir + "acquire.lua", Old: "if call('PTTL', KEYS[3]) < 600000 then call('PEXPIRE', KEYS[3], '600000') end", New: "call('PEXPIRE', KEYS[3], '600000')",
			Pkg: pkg, Test: "TestStore_longPlace",
		},
		{
			Name: "redis-marks-by-the-clock", Why: "two servers that forgot at the same time are taken for one, and a majority refuses them for good",
			File: dir + "acquire.lua", Old: "  if not mark then return 'm' end\n",
			New: "  if not mark then\n    mark = redis.sha1hex(ARGV[1] .. clock) .. ' ' .. clock\n    call('SET', KEYS[4], mark)\n  end\n",
			Pkg: pkg, Test: "TestStore_virtual_forgot",
		},
		{
			Name: "redis-counts-a-restarted-node", M: "M10", Why: "a node that came back with an old snapshot is counted, and there are two holders",
			File: dir + "acquire.lua", Old: "if id and (id ~= was or tonumber(since) > now) then", New: "if id and tonumber(since) > now then",
			Pkg: pkg, Test: "TestStore_age_restart/snapshot",
		},
		{
			Name: "redis-keeps-a-mark-from-the-future", Why: "a clock that was set back by an hour keeps a node out for an hour",
			File: dir + "acquire.lua", Old: "if id and (id ~= was or tonumber(since) > now) then", New: "if id and id ~= was then",
			Pkg: pkg, Test: "TestStore_age_future",
		},
		{
			Name: "redis-begins-below-the-floor", M: "M04e", Why: "a name that was forgotten begins again behind a clock that was corrected, and guards refuse its holders",
			File: dir + "floor.lua", Old: "  if behind and last == 0 then\n", New: "  if false then\n",
			Pkg: "tests/promise", Test: "TestClock_corrected/redis",
		},
		{
			Name: "redis-hands-over-for-a-jump", Why: "the clock is set back, and a waiter that died is handed the key for as long as the jump",
			File: dir + "release.lua", Old: "    if asked ~= '0' then left = math.min(left, asked) end", New: "   ",
			Pkg: "tests/promise", Test: "TestClock_deadWaiter/redis",
		},
		{
			Name: "redis-polls-for-the-dead", Why: "a writer waits a second for every hundred readers that died",
			File: dir + "common.lua", Old: "  local left = math.max(1, first[2] - nowms)\n", New: "  local left = math.max(0, first[2] - nowms)\n",
			Pkg: pkg, Test: "TestStore_virtual_manyDead",
		},
		{
			Name: "redis-polls-for-dead-waiters", Why: "a caller waits a second for every hundred waiters that died",
			File: dir + "common.lua", Old: "return math.max(1, ends[i + 1] - PLACES - nowms) end", New: "return math.max(0, ends[i + 1] - PLACES - nowms) end",
			Pkg: pkg, Test: "TestStore_virtual_manyDead",
		},
		{
			Name: "redis-uses-an-old-server", Why: "a server that lacks a command of the scripts keeps half of a shared claim for ever",
			File: dir + "acquire.lua", Old: "major * 100 + minor < 602", New: "major * 100 + minor < 500",
			Pkg: pkg, Test: "TestStore_virtual_version",
		},
		{
			Name: "redis-shows-all-at-once", Why: "a look at a name with many claims stops the server for all its clients",
			File: pkg + "/tell.go", Old: "const showStep = 200\n", New: "const showStep = 1 << 20\n",
			Pkg: pkg, Test: "TestStore_virtual_breakPages",
		},
		{
			Name: "redis-shows-one-page", Why: "claims after the first 200 on a name are hidden",
			File: pkg + "/tell.go", Old: "		if err != nil || next == \"\" {\n", New: "		if err != nil || next != at {\n",
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
			Name: "redis-dead-waiter-stays-for-a-jump", Why: "the clock is set back, and a waiter that died is in the way for as long as the jump",
			File: dir + "common.lua", Old: "not exclusive() then shorten() end", New: "not exclusive() then shorten = shorten end",
			Pkg: "tests/promise", Test: "TestClock_deadWaiter/redis",
		},
		{
			Name: "mail-closes-for-one", Why: "a store that is closed while calls are held back never ends",
			File: "store/redis/rueidisstore/mail.go", Old: "				m.posted.Broadcast() // others", New: "				// others",
			Pkg: "store/redis/rueidisstore", Test: "TestMail_closed_busy",
		},
		{
			Name: "client-sends-again", M: "M20", Why: "go-redis sends a script again whose answer was lost, and one ask is run several times",
			File: "store/redis/goredisstore/goredisstore.go", Old: "func (once) NoRetry() bool { return true }", New: "func (once) NoRetry() bool { return false }",
			Pkg: pkg, Test: "TestStore_lostReply/goredis",
		},
		{
			Name: "withdrawals-are-dropped", Why: "a release is not sent because its caller has left, and the key stays taken for a TTL",
			File: "store/redis/rueidisstore/mail.go", Old: "	case len(m.box) > longest:\n", New: "	case len(m.box) > 0*longest:\n",
			Pkg: "store/redis/rueidisstore", Test: "TestMail_keeps_order",
		},
		{
			Name: "redis-full-server-renews-no-shares", Why: "claims that take no more room are lost for want of it, and others with them",
			File: dir + "common.lua", Old: " else call('HDEL', hash, '') end\n", New: " end\n",
			Pkg: pkg, Test: "TestStore_renewAll_full",
		},
		{
			Name: "redis-strange-key-fails-all", Why: "renewals that were done are told as if they were not",
			File: dir + "renew.lua", Old: "    if not string.find(why, 'WRONGTYPE', 1, true) then error(answer, 0) end\n", New: "    error(answer, 0)\n",
			Pkg: pkg, Test: "TestStore_renewAll_wrongType",
		},
		{
			Name: "redis-reason-kept-for-ever", Why: "each lock of another client that is broken leaves a key behind",
			File: dir + "break.lua", Old: "  if left <= 0 then return end\n", New: "",
			Pkg: pkg, Test: "TestStore_break_foreign",
		},
		{
			Name: "rueidis-cut-off-is-unavailable", Why: "what was sent and may have been done is told as if it were not",
			File: pkg + "/rueidisstore/rueidisstore.go", Old: "	if errors.Is(err, rueidis.ErrNoSlot) {\n", New: "	if errors.Is(err, rueidis.ErrNoSlot) || errors.Is(err, rueidis.ErrClosing) {\n",
			Pkg: pkg, Test: "TestStore_close_underWay",
		},
	}
}
