package main

// redisOwner are mutants of how store/redis compares owners, atomically with its change, and of the
// fences that it issues. All are caught in virtual time.
func redisOwner() []mutant {
	const dir, lua, pkg = "store/redis/", "store/redis/lua/", "store/redis"
	return []mutant{
		{
			Name: "redis-release-without-owner", M: "M01", Why: "a late release frees the next holder's key",
			File: lua + "release.lua", Old: "if value == ARGV[1] then\n", New: "if value then\n",
			Pkg: pkg, Test: "TestStore_virtual_stale",
		},
		{
			Name: "redis-slow-release-without-owner", M: "M01", Why: "the same, on the slow path of a release by a caller that is not the holder",
			File: lua + "release.lua", Old: "if held == owner then\n  call('DEL', name)\n", New: "if held then\n  call('DEL', name)\n",
			Pkg: pkg, Test: "TestStore_virtual/stale",
		},
		{
			Name: "redis-renew-without-owner", M: "M02", Why: "a late renewal prolongs the next holder's claim",
			File: lua + "renew.lua", Old: "  if mode == 0 and call('GET', KEYS[k]) == owner and", New: "  if mode == 0 and call('GET', KEYS[k]) and",
			Pkg: pkg, Test: "TestStore_virtual_stale",
		},
		{
			Name: "redis-takes-any-holder-for-the-owner", M: "M02", Why: "the same, on the slow path, and any caller is granted a key that another holds",
			File: lua + "common.lua", Old: "  if held == owner then\n    local c = latest == owner and lastClaim()\n",
			New: "  if held then\n    local c = lastClaim()\n    c.owner = owner\n",
			Pkg: pkg, Test: "TestStore_virtual/stale",
		},
		{
			Name: "redis-compares-then-deletes", M: "M03", Why: "a claim that ends between the comparison and the deletion belongs to the next holder by then",
			File: dir + "store.go", Old: "	switch text, err := s.run(ctx, f, &s.scripts.release); {\n",
			New: "	step := f.call(&s.scripts.release)\n" +
				"	step.Verb, step.Script = \"EVAL\", \"return redis.call('GET', KEYS[1]) == ARGV[1] and '' or 'n'\"\n" +
				"	if text, err := s.client.Run(ctx, step); err != nil || text == \"n\" {\n		return cmp.Or(definite(id.Key, err), driver.ErrNotHeld)\n	}\n" +
				"	step.Script = \"redis.call('DEL', KEYS[1]) return ''\"\n" +
				"	switch text, err := s.client.Run(ctx, step); {\n",
			Pkg: pkg, Test: "TestStore_virtual_oneStep/release",
		},
		{
			Name: "redis-compares-then-renews", M: "M03", Why: "the same, for a renewal: it changes the TTL of the next holder's claim",
			File: dir + "renew.go", Old: "	text, err := s.run(ctx, f, &s.scripts.renew)\n	if err != nil {\n		return 0,",
			New: "	step := f.call(&s.scripts.renew)\n" +
				"	step.Verb, step.Script = \"EVAL\", \"return redis.call('GET', KEYS[1]) == ARGV[1] and '' or 'n'\"\n" +
				"	if text, err := s.client.Run(ctx, step); err != nil || text == \"n\" {\n		return 0, cmp.Or(definite(r.Key, err), driver.ErrNotHeld)\n	}\n" +
				"	step.Script = \"redis.call('PEXPIRE', KEYS[1], ARGV[2]) return '+0\\\\n'\"\n" +
				"	text, err := s.client.Run(ctx, step)\n	if err != nil {\n		return 0,",
			Pkg: pkg, Test: "TestStore_virtual_oneStep/renew",
		},
		{
			Name: "redis-hands-off-the-fence", M: "M04b", Why: "the next in the queue gets the fence of the owner that released",
			File: lua + "release.lua", Old: "math.max((last or 0) + 128, now)\n", New: "tonumber(last or 0)\n",
			Pkg: pkg, Test: "TestStore_virtual_fences/handed_on",
		},
		{
			Name: "redis-counts-without-the-clock", M: "M04d", Why: "a server that has forgotten everything starts its fences again",
			File: lua + "acquire.lua", Old: "local fence, number = now, clock\n", New: "local fence, number = 0, '0'\n",
			Pkg: pkg, Test: "TestStore_virtual_fences/forgotten",
		},
		{
			Name: "redis-reads-the-fence-later", M: "M05", Why: "the fence that is read after a grant may be the next holder's",
			File: dir + "store.go", Old: "	return result(r.Key, r.Floor, text)\n",
			New: "	res, err := result(r.Key, r.Floor, text)\n" +
				"	if cs, shown := s.Show(ctx, r.Key); shown == nil && res.Granted && len(cs) > 0 {\n		res.Fence = cs[0].Fence\n	}\n	return res, err\n",
			Pkg: pkg, Test: "TestStore_virtual_oneStep/acquire",
		},
		{
			Name: "redis-renewal-makes-a-claim", M: "M11a", Why: "a claim that ended lives again, over later grants",
			File: lua + "renew.lua", Old: "  local c = own(owner)\n  if not c then\n",
			New: "  local c = own(owner)\n  if not c and taken() == 0 then\n    grant(parse(owner, '1073741824 1073741824 0 0 0 0 0 0\\n'), 0, ttl)\n    close()\n    return '+0\\n'\n  end\n  if not c then\n",
			Pkg: pkg, Test: "TestStore_virtual/ended",
		},
		{
			Name: "redis-expiry-frees-too-much", M: "M34a", Why: "a semaphore lets one too many in after a claim expired",
			File: lua + "common.lua", Old: "  used = math.max(0, used - (c and c.weight or 0))\n", New: "  used = math.max(0, used - 2 * (c and c.weight or 0))\n",
			Pkg: pkg, Test: "TestStore_virtual/slots",
		},
		{
			Name: "redis-renews-no-reader", M: "M34b", Why: "a writer is let in next to a reader whose renewal was reported as done",
			File: lua + "common.lua", Old: "  if c.weight == WHOLE then call('PEXPIRE', name, digits(life)) else call('HDEL', hash, '') end\n  put(",
			New: "  if c.weight < WHOLE then return end\n  call('PEXPIRE', name, digits(life))\n  put(",
			Pkg: pkg, Test: "TestStore_virtual_lateReader",
		},
	}
}
