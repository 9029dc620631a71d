package main

// redisReplies are mutants of how store/redis reads the replies of a server.
func redisReplies() []mutant {
	const dir, pkg = "store/redis/", "store/redis"
	const acquireReply = "	if err != nil {\n		return driver.Result{}, definite(r.Key, err)\n	}\n	return result(r.Key, r.Floor, text)\n"
	return []mutant{
		{
			Name: "redis-full-is-held", M: "M31", Why: "a server that is out of memory is reported as a held key",
			File: dir + "store.go", Old: acquireReply, New: "	if strings.HasPrefix(replied(err), \"OOM\") {\n		return driver.Result{}, nil\n	}\n" + acquireReply,
			Pkg: pkg, Test: "TestStore_unavailable/goredis",
		},
		{
			Name: "redis-read-only-is-held", M: "M31", Why: "a replica is reported as a held key",
			File: dir + "store.go", Old: acquireReply, New: "	if strings.HasPrefix(replied(err), \"READONLY\") {\n		return driver.Result{}, nil\n	}\n" + acquireReply,
			Pkg: pkg, Test: "TestStore_unavailable/goredis",
		},
		{
			Name: "redis-unknown-is-held", M: "M21a", Why: "an attempt whose answer was lost is reported as a held key",
			File: dir + "store.go", Old: acquireReply, New: "	if err != nil && replied(err) == \"\" {\n		return driver.Result{}, nil\n	}\n" + acquireReply,
			Pkg: pkg, Test: "TestStore_lostReply/goredis",
		},
		{
			Name: "redis-unknown-is-granted", M: "M21b", Why: "an attempt whose answer was lost is reported as granted",
			File: dir + "store.go", Old: acquireReply, New: "	if err != nil && replied(err) == \"\" {\n		return driver.Result{Granted: true, Fence: 1}, nil\n	}\n" + acquireReply,
			Pkg: pkg, Test: "TestStore_lostReply/goredis",
		},
		{
			Name: "redis-unknown-release-is-done", M: "M21b", Why: "a release whose answer was lost is reported as done",
			File: dir + "store.go", Old: "	case err != nil:\n		return definite(id.Key, err)\n", New: "	case err != nil && replied(err) == \"\":\n		return nil\n	case err != nil:\n		return definite(id.Key, err)\n",
			Pkg: pkg, Test: "TestStore_lostRelease/goredis",
		},
		{
			Name: "redis-lists-by-a-raw-pattern", M: "M32b", Why: "a name with a star in it lists the claims of others",
			File: dir + "show.go", Old: ").Replace(s)\n", New: ").Replace(\"\") + s\n",
			Pkg: pkg, Test: "TestStore_virtual/list",
		},
	}
}
