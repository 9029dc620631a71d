package main

// redis are mutants of store/redis: of the scripts, in virtual time, and of the adapters, on a server.
func redis() []mutant {
	const dir, pkg = "store/redis/lua/", "store/redis"
	return []mutant{
		{
			Name: "hand-over-for-a-whole-TTL", Why: "a waiter that died is handed the key, and nobody gets it before a TTL is over",
			File: dir + "common.lua", Old: "      grant(c, 0, math.ceil(left))\n", New: "      grant(c, 0, math.ceil(left) + 30000)\n",
			Pkg: pkg, Test: "TestStore_virtual/dead_waiter",
		},
		{
			Name: "redis-renews-a-record-by-the-short-cut", Why: "a renewal that was under way for long makes a result be forgotten with the lease",
			File: dir + "common.lua", Old: "(longest + KEEP > memory() or recorded()) and 1", New: "longest + KEEP > memory() and 1",
			Pkg: pkg, Test: "TestStore_virtual/record",
		},
		{
			Name: "redis-forgets-a-fence-too-soon", Why: "the hash of a busy key is never prolonged, and its fences begin anew behind a clock that was set back",
			File: dir + "acquire.lua", Old: "fence - fence % 10000000 > last", New: "last == 0",
			Pkg: pkg, Test: "TestStore_remembers",
		},
		{
			Name: "redis-forgets-a-handed-fence-too-soon", Why: "the same, on a key that is handed on",
			File: dir + "release.lua", Old: "fence - fence % 10000000 > tonumber(last)", New: "last == '0'",
			Pkg: pkg, Test: "TestStore_remembers",
		},
		{
			Name: "client-sends-again", Why: "go-redis sends a script again whose answer was lost, and one ask is run several times",
			File: "store/redis/goredis/goredis.go", Old: "func (once) NoRetry() bool { return true }", New: "func (once) NoRetry() bool { return false }",
			Pkg: pkg, Test: "TestStore_lostReply/goredis",
		},
		{
			Name: "withdrawals-are-dropped", Why: "a release is not sent because its caller has left, and the key stays taken for a TTL",
			File: "store/redis/rueidis/mail.go", Old: "	case len(m.box) > longest:\n", New: "	case len(m.box) > 0*longest:\n",
			Pkg: "store/redis/rueidis", Test: "TestMail_keeps_order",
		},
	}
}
