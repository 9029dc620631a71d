package main

// postgres returns mutants of the store in tables of PostgreSQL. They need a server.
func postgres() []mutant {
	const file, pkg = "store/postgres/sql/functions.sql", "store/postgres"
	return []mutant{
		{
			Name: "postgres-busy-server-refuses", Why: "on a busy server attempts are refused although the key has capacity left",
			File: file, Old: "is distinct from 'active');", New: "is not null);",
			Pkg: pkg, Test: "TestSQL_slow",
		},
		{
			Name: "postgres-compiles-attempts", Why: "attempts of two processes on one key take ten times as long",
			File: file, Old: "set enable_sort = off set jit = off as $$\n#variable_conflict use_column\ndeclare\n  number constant bigint",
			New: "set enable_sort = off as $$\n#variable_conflict use_column\ndeclare\n  number constant bigint",
			Pkg: pkg, Test: "TestFunctions_compiled",
		},
		{
			Name: "postgres-two-connections-to-wait", Why: "waiting commands use up the connections of the server",
			File: "store/postgres/watch.go", Old: "	if l.s.brief {\n		open =", New: "	if false {\n		open =",
			Pkg: pkg, Test: "TestStore_Brief",
		},
		{
			Name: "postgres-open-closes-its-connection", Why: "commands that start together need two connections each",
			File: "store/postgres/url.go", Old: "		if err = s.claims.adopt(ctx, conn); err != nil {\n", New: "		if _, err = s.prepare(ctx, conn); true {\n",
			Pkg: pkg, Test: "TestOpen_keepsItsConnection",
		},
		{
			Name: "postgres-second-connection-for-a-busy-key", Why: "commands that wait for one key fill the server",
			File: "store/postgres/verbs.go", Old: "	if s.brief {\n		again", New: "	if false {\n		again",
			Pkg: pkg, Test: "TestStore_Brief_busy",
		},
		{
			Name: "postgres-notification-in-calls-lost", Why: "a waiter whose connection is in the middle of a call misses its grant",
			File: "internal/pgwire/conn.go", Old: "			c.notify(m.Channel, m.Payload)\n", New: "",
			Pkg: pkg, Test: "TestStore_Brief_calls",
		},
		{
			Name: "postgres-closed-connection-fails-a-call", Why: "after a restart of the server the next Lock fails, although the server did nothing for it",
			File: "store/postgres/exchange.go", Old: "	if kept && unserved(calls, err) {\n", New: "	if !kept && unserved(calls, err) {\n",
			Pkg: pkg, Test: "TestBatcher_closedByServer/a_large_call",
		},
		{
			Name: "postgres-closed-connection-fails-its-caller", Why: "a caller that sends its call itself fails on a connection that the server has closed",
			File: "store/postgres/batcher.go", Old: "		again := x.live.Load() > 0\n", New: "		again := false\n",
			Pkg: pkg, Test: "TestBatcher_closedByServer/a_small_call",
		},
		{
			Name: "postgres-answered-call-sent-again", Why: "a call whose commit was not confirmed runs twice, and a release then reports that there was no claim",
			File: "store/postgres/exchange.go", Old: "bool { return c.answered })\n", New: "bool { return c == nil })\n",
			Pkg: pkg, Test: "TestBatcher_closedAtCommit",
		},
		{
			Name: "postgres-unsent-call-is-unknown", Why: "a call that was never sent is reported as one whose outcome is unknown",
			File: "store/postgres/errors.go", Old: "	case errors.Is(err, errUnsent), errors.As", New: "	case errors.As",
			Pkg: pkg, Test: "TestDefinite_unsent",
		},
		{
			Name: "pgwire-sends-on-a-cut-connection", Why: "a call is sent on a connection that was cut, and its outcome is unknown",
			File: "internal/pgwire/conn.go", Old: "	if c.err == nil && c.closed {\n", New: "	if false {\n",
			Pkg: "internal/pgwire", Test: "TestConn_Close",
		},
		{
			Name: "pgwire-late-answer-unread", Why: "an answer that takes longer than its caller reads is never read",
			File: "internal/pgwire/conn.go", Old: "			if !c.readUntil(done) && c.WatchNow() {\n", New: "			if !c.readUntil(done) {\n",
			Pkg: "internal/pgwire", Test: "TestConn_late",
		},
		{
			Name: "pgwire-idle-end-unnoticed", Why: "a holder does not notice that its connection ended, and with it its locks",
			File: "internal/pgwire/conn.go", Old: "	go c.runWatch()\n", New: "",
			Pkg: "internal/pgwire", Test: "TestConn_Watch",
		},
		{
			Name: "postgres-now-for-the-clock", M: "M30", Why: "a lease is compared with the time at which the transaction began",
			File: file, Old: "  now := clock_timestamp();\n  micros :=", New: "  now := now();\n  micros :=",
			Pkg: pkg, Test: "TestSQL_oldTransaction",
		},
		{
			Name: "postgres-sql-needs-a-ttl", Why: "acquire_lock has no default TTL, unlike all other ways to take a lock",
			File: file, Old: "ttl_seconds double precision default 30, metadata", New: "ttl_seconds double precision, metadata",
			Pkg: pkg, Test: "TestSQL_defaultTTL",
		},
		{
			Name: "postgres-old-snapshot-unseen", Why: "doctor reports nothing while every hold takes longer than the one before",
			File: "store/postgres/inspect.go", Old: "	case d >= oldSnapshot:\n", New: "	case d >= 1000*oldSnapshot:\n",
			Pkg: pkg, Test: "TestStore_Inspect_oldSnapshot",
		},
		{
			Name: "postgres-renews-a-record-among-many", Why: "a renewal that was in flight for long makes a result expire with the lease",
			File: file, Old: "set ends = case when c.kept then c.ends else clock_timestamp() + o.ttl end from ours o", New: "set ends = clock_timestamp() + o.ttl from ours o",
			Pkg: pkg, Test: "TestStore/record",
		},
		{
			Name: "postgres-renew-resurrects", M: "M11a", Why: "a claim that ended lives again",
			File: file, Old: "    where c.key = renew.key and c.owner = renew.owner and c.broken is null\n      and c.ends > clock_timestamp()\n    returning c.ends into until;",
			New: "    where c.key = renew.key and c.owner = renew.owner and c.broken is null\n    returning c.ends into until;",
			Pkg: pkg, Test: "TestStore/ended",
		},
		{
			Name: "postgres-release-without-owner", M: "M01", Why: "a late release frees the next holder's key",
			File: file, Old: "  delete from @schema@.claim c where c.key = release.key and c.owner = release.owner\n      and c.broken",
			New: "  delete from @schema@.claim c where c.key = release.key\n      and c.broken",
			Pkg: pkg, Test: "TestStore/stale",
		},
		{
			Name: "postgres-renew-without-owner", M: "M02", Why: "a late renewal extends the next holder's claim",
			File: file, Old: "    where c.key = renew.key and c.owner = renew.owner and c.broken is null\n      and c.ends > clock_timestamp()\n    returning c.ends into until;",
			New: "    where c.key = renew.key and c.broken is null\n      and c.ends > clock_timestamp()\n    returning c.ends into until;",
			Pkg: pkg, Test: "TestStore/stale",
		},
		{
			Name: "postgres-fence-repeats", M: "M04a", Why: "the late writer has the same fence as the next holder",
			File: file, Old: "      set fence = greatest(k.fence + 128, micros, attempt.floor), used", New: "      set fence = greatest(k.fence, micros, attempt.floor), used",
			Pkg: pkg, Test: "TestStore_sweep",
		},
		{
			Name: "postgres-no-lock-on-the-key", Why: "two attempts at the same time are both granted",
			File: file, Old: "    and pg_try_advisory_xact_lock(hashtextextended(attempt.key, @seed@))\n    and current_setting",
			New: "    and current_setting",
			Pkg: pkg, Test: "TestSQL_idle",
		},
		{
			Name: "postgres-batch-passes-the-queue", Why: "a batch takes a key for which others wait",
			File: file, Old: "        and (select true from @schema@.claim c where c.key = w.key collate \"C\" limit 1) is null\n        and (select true from @schema@.queue q where q.key = w.key collate \"C\" limit 1) is null\n",
			New: "        and (select true from @schema@.claim c where c.key = w.key collate \"C\" limit 1) is null\n",
			Pkg: pkg, Test: "TestBatcher_sameKey",
		},
		{
			Name: "postgres-batch-forgets-waiters", Why: "a batch of releases wakes no waiters, and they have to poll",
			File: file, Old: "      where w.ours\n        and (select true from @schema@.queue q where q.key = w.key collate \"C\" limit 1) is null\n        and",
			New: "      where w.ours\n        and",
			Pkg: pkg, Test: "TestBatcher_sameKey",
		},
		{
			Name: "postgres-batch-forgets-a-fence", Why: "the next claim on a key that was new may have the same fence, or a lower one",
			File: file, Old: "select u.key, u.fence from unused u\n", New: "select u.key, u.fence from unused u where false\n",
			Pkg: pkg, Test: "TestBatcher_newKeys",
		},
		{
			Name: "postgres-batch-goes-below-the-floor", Why: "a claim on a new key has a fence lower than earlier ones",
			File: file, Old: "where f.row is null and f.floor <= micros\n", New: "where f.row is null\n",
			Pkg: pkg, Test: "TestBatcher_newKeys",
		},
		{
			Name: "postgres-batch-requests-new-keys-alone", Why: "many callers that take new keys wait for one another",
			File: file, Old: "where f.row is null and f.floor <= micros\n", New: "where false\n",
			Pkg: pkg, Test: "TestBatcher_newKeys",
		},
		{
			Name: "postgres-halves-alternate", Why: "each half of the callers pays for its own transactions",
			File: "store/postgres/batcher.go", Old: "	all := min(have+last, together)\n", New: "	all := min(last, together)\n",
			Pkg: pkg, Test: "TestBatcher_gather",
		},
		{
			Name: "postgres-reads-the-past", Why: "a transaction with an old snapshot grants a key that is held",
			File: file, Old: "  if current_setting('transaction_isolation') <> 'read committed' then", New: "  if false then",
			Pkg: pkg, Test: "TestSQL_isolation",
		},
		{
			Name: "postgres-release-waits-for-the-key", Why: "a client that is idle in its transaction keeps others from releasing",
			File: file, Old: "    ours := pg_try_advisory_xact_lock(number);", New: "    ours := pg_advisory_xact_lock(number) is not null;",
			Pkg: pkg, Test: "TestSQL_idle",
		},
		{
			Name: "postgres-release-sees-no-grant-in-flight", Why: "a claim that is being granted is reported as not held, and stays",
			File: file, Old: "    exit when held or ours;", New: "    exit;",
			Pkg: pkg, Test: "TestRelease_crossesHandOff",
		},
		{
			Name: "postgres-release-trusts-a-queue-entry", Why: "a queue entry is removed while its owner's Acquire is granted",
			File: file, Old: "    exit when held or ours;",
			New: "    exit when held or ours or exists (select from @schema@.queue q where q.key = release.key and q.owner = release.owner);",
			Pkg: pkg, Test: "TestRelease_queueEntryUnderTransaction",
		},
		{
			Name: "postgres-release-waits-on-the-conn", Why: "a release behind a transaction that is stuck delays all others of its process",
			File: "store/postgres/verbs.go", Old: "waitArg: []byte(\"f\")}", New: "waitArg: []byte(\"t\")}",
			Pkg: pkg, Test: "TestBatcher_absent",
		},
		{
			Name: "postgres-retries-past-a-grant", Why: "an owner that is being granted the key is refused, and has both a claim and a queue entry",
			File: file, Old: "    perform from @schema@.queue q where q.key = acquire.key and q.owner = acquire.owner for update;", New: "    null;",
			Pkg: pkg, Test: "TestAcquire_crossesHandOff",
		},
		{
			Name: "postgres-granted-again-keeps-its-entry", Why: "an owner is granted the key once more after its release",
			File: file, Old: "      delete from @schema@.queue q where q.key = acquire.key and q.owner = acquire.owner;\n", New: "",
			Pkg: pkg, Test: "TestAcquire_againLeavesQueue",
		},
		{
			Name: "postgres-hands-off-an-old-entry", Why: "a claim ends before its owner, which made another attempt, can know of it",
			File: file, Old: "\n      returning q.* into head;", New: ";",
			Pkg: pkg, Test: "TestPromote_entryRenewedMeanwhile",
		},
		{
			Name: "postgres-list-ends-at-ended-claims", Why: "claims that ended hide those that live",
			File: file, Old: "        and c.broken is null and c.ends > (select now from moment) order by c.key", New: "        order by c.key",
			Pkg: pkg, Test: "TestList_endedBefore",
		},
		{
			Name: "postgres-locked-releases-one-by-one", Why: "releases behind a transaction that is stuck wait for one another, and their outcome is unknown",
			File: "store/postgres/batcher.go", Old: "locked := code(err) == lockTimeout\n", New: "locked := false\n",
			Pkg: pkg, Test: "TestBatcher_locked",
		},
		{
			Name: "postgres-lost-reply-is-unavailable", Why: "a claim that may have been granted is reported as not granted",
			File: "store/postgres/exchange.go", Old: "		return fmt.Errorf(\"%w: %w\", errLost, x.Lost)\n", New: "		return fmt.Errorf(\"%w: %w\", errClosed, x.Lost)\n",
			Pkg: pkg, Test: "TestStore_lostReply",
		},
		{
			Name: "postgres-forgets-the-highest-fence", M: "M04e", Why: "a swept key starts again with a clock that was set back, and guards refuse its holders",
			File: file, Old: "    insert into @schema@.key as k (key, fence) values ('', high)\n", New: "    insert into @schema@.key as k (key, fence) values ('', 0)\n",
			Pkg: "tests/guarantees", Test: "TestClock_corrected/postgres",
		},
		{
			Name: "postgres-hands-off-for-a-jump", Why: "the clock is set back, and a dead waiter is handed the key for the length of the jump",
			File: file, Old: "        least(head.ends, now + head.ttl));", New: "        head.ends);",
			Pkg: "tests/guarantees", Test: "TestClock_deadWaiter/postgres",
		},
		{
			Name: "postgres-keeps-outdated-statements", Why: "functions are replaced, and every renewal of a running process fails from then on",
			File: "store/postgres/exchange.go", Old: "	changed := outdated[code(x.Err)]\n", New: "	changed := outdated[code(x.Err)+\"-\"]\n",
			Pkg: pkg, Test: "TestRenew_replacedFunctions",
		},
		{
			Name: "postgres-takes-any-columns", Why: "a later function that returns one more column fails every renewal",
			File: "store/postgres/verbs.go", Old: "select answer, behind, reason from @schema@.renew_all($1", New: "select * from @schema@.renew_all($1",
			Pkg: pkg, Test: "TestRenew_replacedFunctions",
		},
		{
			Name: "postgres-keeps-idle-connections", Why: "every waiting process keeps a connection for half an hour, and the server is full",
			File: "store/postgres/url.go", Old: "		conf.MaxConnIdleTime = poolIdle\n", New: "",
			Pkg: pkg, Test: "TestOpen_connections",
		},
		{
			Name: "postgres-dead-waiter-stays-for-a-jump", Why: "the clock is set back, and a dead waiter blocks the queue for the length of the jump",
			File: file, Old: "set ends = now + q.ttl from (", New: "set ends = q.ends from (",
			Pkg: "tests/guarantees", Test: "TestClock_deadWaiter/postgres",
		},
		{
			Name: "postgres-grants-the-data-of-an-entry", Why: "a claim shows the holder and the value of an earlier attempt",
			File: file, Old: "promote(acquire.key, coalesce(entry_number, 9223372036854775807))", New: "promote(acquire.key, 9223372036854775807)",
			Pkg: pkg, Test: "TestStore/claim_behind_the_head",
		},
		{
			Name: "postgres-sum-misses-a-grant", Why: "the sum of many claims is too low, and a limit is passed",
			File: file, Old: "acquire.used > 0 then k.used + acquire.weight end", New: "acquire.used > 0 then k.used end",
			Pkg: pkg, Test: "TestSQL_manyClaims",
		},
		{
			Name: "postgres-sum-of-a-free-key-stays", Why: "claims on a key that was free are not counted, and a limit is passed",
			File: file, Old: "micros, attempt.floor), used = null, soon = null\n", New: "micros, attempt.floor)\n",
			Pkg: pkg, Test: "TestSQL_sumEnds",
		},
		{
			Name: "postgres-sum-keeps-released-weight", Why: "a release without the key frees no capacity for the length of a TTL",
			File: file, Old: "    insert into @schema@.freed values (release.key, freed, null);\n", New: "    null;\n",
			Pkg: pkg, Test: "TestSQL_manyClaims",
		},
		{
			Name: "postgres-sum-outlives-its-claims", Why: "a claim that ends sooner than before blocks others until its former end",
			File: file, Old: "k.soon > until;\n", New: "false;\n",
			Pkg: pkg, Test: "TestSQL_manyClaims",
		},
		{
			Name: "postgres-reads-the-whole-queue", Why: "every attempt takes as long as the queue",
			File: file, Old: "limit 17) q;\n    exit when ended is not true;\n    exit when not @schema@.clear_queue(acquire.key, now, 0,", New: ") q;\n    exit when ended is not true;\n    exit when not @schema@.clear_queue(acquire.key, now, 0,",
			Pkg: pkg, Test: "TestSQL_flat",
		},
		{
			Name: "postgres-free-key-waits-for-its-head", Why: "a key stays free while others wait, until the head of its queue attempts",
			File: file, Old: "    if @schema@.promote(acquire.key, coalesce(entry_number, 9223372036854775807)) then", New: "    if false then",
			Pkg: pkg, Test: "TestAcquire_promotesHead",
		},
		{
			Name: "postgres-owner-by-the-queue", Why: "a plan that was made for an empty table reads the whole queue for the entry of one owner",
			File: "store/postgres/sql/0003.sql", Old: "(key, number) where number > 0;", New: "(key, number);",
			Pkg: pkg, Test: "TestSQL_flatPlans",
		},
		{
			Name: "postgres-far-holder-is-refused", Why: "a holder that lost the answer waits, until its claim ends",
			File: file, Old: "          and not exists (select from @schema@.claim c where c.key = e.key and c.owner = e.owner)\n", New: "",
			Pkg: pkg, Test: "TestSQL_farAttempts",
		},
		{
			Name: "postgres-far-entry-is-revived", Why: "an entry that had ended keeps its position, before others that were served meanwhile",
			File: file, Old: "e.number < high and e.ends > now", New: "e.number < high",
			Pkg: pkg, Test: "TestSQL_farAttempts",
		},
		{
			Name: "postgres-ended-entry-is-revived", Why: "a waiter that lost its position is served before others that kept theirs",
			File: file, Old: "  if ended then -- the owner has lost its position\n", New: "  if false then\n",
			Pkg: pkg, Test: "TestSQL_farAttempts",
		},
		{
			Name: "postgres-near-is-far", Why: "a waiter near the head waits as long as one far from it",
			File: file, Old: "and e.number > low and", New: "and e.number > 0 and",
			Pkg: pkg, Test: "TestSQL_farAttempts",
		},
		{
			Name: "postgres-lowers-twice", Why: "two calls that lower one claim free its weight twice, and more claims than the limit are granted",
			File: file, Old: "    if acquire.weight < own.weight then\n      -- A call", New: "    if false then\n      -- A call",
			Pkg: pkg, Test: "TestSQL_sumLoweredTwice",
		},
		{
			Name: "postgres-other-encoding", Why: "a role with another client_encoding cannot lock, or locks other keys",
			File: "store/postgres/postgres.go", Old: "	inUTF8(conn)\n", New: "",
			Pkg: pkg, Test: "TestStore_settings_pool",
		},
		{
			Name: "postgres-pool-in-another-encoding", Why: "two processes with different encodings hold one lock",
			File: "store/postgres/schema.go", Old: "encoding != \"UTF8\" && encoding != \"\" {\n", New: "encoding == \"none\" {\n",
			Pkg: pkg, Test: "TestStore_settings_pool",
		},
		{
			Name: "postgres-escaped-values", Why: "with bytea_output = escape, Once returns another result than it recorded",
			File: "store/postgres/answer.go", Old: "c.Value = bytea(t.Value)", New: "c.Value = []byte(sqlrow.Plain(t.Value))",
			Pkg: pkg, Test: "TestStore_settings/bytea_output=escape",
		},
		{
			Name: "postgres-quoted-search-path", Why: "functions that were created with quote_all_identifiers call themselves for ever",
			File: "store/postgres/migrate.go", Old: "set local quote_all_identifiers = off;\\n", New: "",
			Pkg: pkg, Test: "TestStore_settings/quote_all_identifiers=on",
		},
		{
			Name: "postgres-check-outlives-its-call", Why: "while another process migrates, calls do not end with their contexts",
			File: "store/postgres/schema.go", Old: "	case <-ctx.Done():\n		return nil, ctx.Err()\n	}\n	if v := s.ready", New: "	}\n	if v := s.ready",
			Pkg: pkg, Test: "TestStore_check_ends",
		},
		{
			Name: "postgres-remembers-broken-records", Why: "the reason of a broken record, and its value, stay in the table for as long as it would have lived",
			File: file, Old: ", ends = least(c.ends, now + interval '1 hour')\n", New: "\n",
			Pkg: pkg, Test: "TestStore_Break_forgets",
		},
	}
}
