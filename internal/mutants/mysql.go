package main

// mysql returns mutants of the store in tables of MariaDB. They need a server.
func mysql() []mutant {
	const sql, verbs, pkg = "store/mysql/sql/procedures.sql", "store/mysql/verbs.go", "store/mysql"
	const now = "    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));\n"
	const lock = "    SELECT entries INTO v_entries FROM distlock_claim WHERE lock_key = p_key AND slot = '' FOR UPDATE;\n"
	return []mutant{
		{
			Name: "mysql-renews-by-an-early-clock", Why: "a renewal that waited for the lock brings back a claim that has ended",
			File: sql, Old: lock + now + "    SELECT slot, broken INTO", New: now + lock + "    SELECT slot, broken INTO",
			Pkg: pkg, Test: "TestStore_renewed_too_late/alone",
		},
		{
			Name: "mysql-renews-many-without-locks", Why: "renewals in one statement read the clock before they have the rows, and bring back claims that have ended",
			File: sql, Old: "AND c.slot = UNHEX(j.o) FOR UPDATE;\n", New: "AND c.slot = UNHEX(j.o);\n",
			Pkg: pkg, Test: "TestStore_renewed_too_late/together",
		},
		{
			Name: "mysql-grants-by-an-early-clock", Why: "a claim that waited for the lock of its row is shorter than its TTL",
			File: verbs, Old: "SYSDATE(6))\"\n", New: "NOW(6))\"\n",
			Pkg: pkg, Test: "TestStore_clock_after_lock/direct",
		},
		{
			Name: "mysql-every-insert-is-a-grant", Why: "a process that sees a key for the first time is granted the claim of another",
			File: verbs, Old: "		if err == nil && got[0] == attempt {\n", New: "		if err == nil {\n",
			Pkg: pkg, Test: "TestStore_direct_refused",
		},
		{
			Name: "mysql-takes-a-shared-key", Why: "a writer is granted a key that readers have",
			File: verbs, Old: "slot = '' AND ends = 0 AND others = 0", New: "slot = '' AND ends = 0",
			Pkg: pkg, Test: "TestStore_direct_refused",
		},
		{
			Name: "mysql-overtakes-waiters", Why: "a process that has used a key before overtakes those who wait for it",
			File: verbs, Old: "others = 0 AND entries = 0 AND last < 9007199254740608\"\n", New: "others = 0 AND last < 9007199254740608\"\n",
			Pkg: pkg, Test: "TestStore_direct_refused",
		},
		{
			Name: "mysql-release-forgets-waiters", Why: "a release without a procedure leaves the key free, and its waiters do not learn of it",
			File: verbs, Old: "AND owner = ? AND entries = 0 AND broken", New: "AND owner = ? AND broken",
			Pkg: pkg, Test: "TestStore_direct_release",
		},
		{
			Name: "mysql-releases-a-broken-claim", Why: "a holder whose claim was broken learns nothing of it",
			File: verbs, Old: "AND broken IS NULL\" +\n	\" AND ends", New: "\" +\n	\" AND ends",
			Pkg: pkg, Test: "TestStore_direct_broken",
		},
		{
			Name: "mysql-breaks-an-unlocked-key", Why: "a break of a key without a row ends a claim that was granted meanwhile, and does not return it",
			File: sql, Old: "      SET p_up_to = -1; --", New: "      SET p_up_to = p_up_to; --",
			Pkg: pkg, Test: "TestStore_break_unlocked",
		},
		{
			Name: "mysql-lock-wait-is-unknown", Why: "a call that changed nothing is reported as one that may have",
			File: "store/mysql/errors.go", Old: "	lockWait: true, deadlock: true,\n", New: "	deadlock: true,\n",
			Pkg: pkg, Test: "TestStore_locked",
		},
		{
			Name: "mysql-one-locked-key-ends-all", Why: "a key that a person has locked prevents the renewal of all others",
			File: "store/mysql/renew.go", Old: "n == lockWait || n == deadlock {\n", New: "n == deadlock {\n",
			Pkg: pkg, Test: "TestStore_locked",
		},
		{
			Name: "mysql-deadlock-is-unknown", Why: "a call that the server rolled back is reported as one that may have changed something",
			File: "store/mysql/errors.go", Old: "	lockWait: true, deadlock: true,\n", New: "	lockWait: true,\n",
			Pkg: pkg, Test: "TestStore_deadlock/attempt",
		},
		{
			Name: "mysql-deadlock-ends-all", Why: "a deadlock with another transaction ends all renewals of a process",
			File: "store/mysql/renew.go", Old: "n == lockWait || n == deadlock {\n", New: "n == lockWait {\n",
			Pkg: pkg, Test: "TestStore_deadlock/renewals",
		},
		{
			Name: "mysql-repeats-a-sent-call", Why: "a call whose connection broke after it was sent is sent again, as database/sql does",
			File: "store/mysql/query.go", Old: "		if errors.Is(err, sqldriver.ErrBadConn) {\n", New: "		if code(err) == 0 {\n",
			Pkg: pkg, Test: "TestStore_sent_once",
		},
		{
			Name: "mysql-calls-outlive-their-contexts", Why: "a call does not end with its context, and lasts for as long as the server takes",
			File: "store/mysql/conn.go", Old: "		if p.ctx.Err() != nil {\n", New: "		if p.ctx == nil {\n",
			Pkg: pkg, Test: "TestStore_ends_with_context",
		},
		{
			Name: "mysql-contexts-under-a-lock", Why: "an observer of a lost lease uses the store, which stands still for ever",
			File: "store/mysql/conn.go", Old: "	for _, p := range calls {\n", New: "	k.mu.Lock()\n	defer k.mu.Unlock()\n	for _, p := range calls {\n",
			Pkg: pkg, Test: "TestStore_ends_with_any_context",
		},
		{
			Name: "mysql-cut-off-is-unavailable", Why: "a call that ended with its context is reported as one that changed nothing",
			File: "store/mysql/query.go", Old: "			return ctx.Err()\n		}\n		return definite(err)\n", New: "			return sqlrow.Unavailable(ctx.Err())\n		}\n		return definite(err)\n",
			Pkg: pkg, Test: "TestStore_ends_with_context",
		},
		{
			Name: "mysql-waits-for-a-connection", Why: "a call that waits for a connection does not end with its context",
			File: "store/mysql/mysql.go", Old: "	case <-ctx.Done():\n		return ctx.Err()\n	}\n}\n\nfunc (p *pool) leave", New: "	}\n}\n\nfunc (p *pool) leave",
			Pkg: pkg, Test: "TestStore_ends_with_context",
		},
		{
			Name: "mysql-rolls-back-its-caller", Why: "a procedure that was called within a transaction undoes it",
			File: sql, Old: "  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\n  BEGIN\n    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;\n    IF (p_ttl",
			New: "  BEGIN\n    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;\n    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\n    IF (p_ttl",
			Pkg: pkg, Test: "TestProcedures_transaction",
		},
		{
			Name: "mysql-counts-after-waiters", Why: "a grant reports capacity and waiters of a later moment than the other stores",
			File: sql, Old: "v_behind = v_entries,\n        v_used = v_used - v_weight + LEAST(v_weight, p_weight);\n", New: "v_behind = v_entries;\n",
			Pkg: pkg, Test: "TestAcquire_countsBeforeWaiters",
		},
		{
			Name: "mysql-counts-the-whole-queue", Why: "each attempt costs more with each waiter",
			File: sql, Old: " LIMIT 16, 1;\n        IF v_edge IS NULL", New: " LIMIT 16000, 1;\n        IF v_edge IS NULL",
			Pkg: pkg, Test: "TestProcedures_flat",
		},
		{
			Name: "mysql-one-key-takes-all-connections", Why: "attempts on a key that many wait for delay all other keys",
			File: "store/mysql/together.go", Old: "	perKey = 2\n", New: "	perKey = 200\n",
			Pkg: pkg, Test: "TestAcquire_hotKey",
		},
		{
			Name: "mysql-attempts-alone", Why: "a thousand waiters of a process need a statement each, and their entries expire before they attempt again",
			File: "store/mysql/together.go", Old: "	if len(k.queue) == 0 || k.queue[0].alone {\n", New: "	if len(k.queue) >= 0 {\n",
			Pkg: pkg, Test: "TestAcquire_together",
		},
		{
			Name: "mysql-together-refreshes-nothing", Why: "attempts that are made together do not keep their queue entries",
			File: sql, Old: "        SET q.weight = j.w, q.`limit` = j.l, q.ends = v_now + j.t,", New: "        SET q.weight = j.w, q.`limit` = j.l, q.ends = q.ends,",
			Pkg: pkg, Test: "TestAcquire_together",
		},
		{
			Name: "mysql-together-near-the-head", Why: "a waiter near the head is answered as one that is far from it",
			File: sql, Old: "          j.t > 0 AND q.number > v_edge AND", New: "          j.t > 0 AND",
			Pkg: pkg, Test: "TestAcquire_together",
		},
		{
			Name: "mysql-together-refuses-the-holder", Why: "an attempt of the holder itself is refused",
			File: sql, Old: " AND c.slot IS NULL AND v_owner <> UNHEX(j.o), --", New: " AND c.slot IS NULL, --",
			Pkg: pkg, Test: "TestAcquire_togetherNear",
		},
		{
			Name: "mysql-together-does-not-count", Why: "entries that were added together are not counted, and releases without a procedure forget them",
			File: sql, Old: "entries = entries + COALESCE(v_joined, 0),\n", New: "entries = entries,\n",
			Pkg: pkg, Test: "TestAcquire_together",
		},
		{
			Name: "mysql-release-overtakes-its-attempt", Why: "an attempt that its caller has left adds a queue entry after the release",
			File: verbs, Old: "	s.passing.settle(ctx, id)\n", New: "",
			Pkg: pkg, Test: "TestRelease_afterTogether",
		},
		{
			Name: "mysql-renewal-counts-the-queue", Why: "each renewal costs more with each waiter",
			File: sql, Old: "        SELECT IF(q.earliest > v_now, q.entries,\n", New: "        SELECT IF(q.earliest > 4 * v_now, q.entries,\n",
			Pkg: pkg, Test: "TestProcedures_flat",
		},
		{
			Name: "mysql-free-key-waits-for-its-head", Why: "with many waiters the head attempts so late that its entry expires before, and nobody is granted a free key",
			File: sql, Old: "      IF v_fence IS NULL AND v_used + p_weight <= p_limit THEN\n", New: "      IF FALSE THEN\n",
			Pkg: pkg, Test: "TestAcquire_promotesHead",
		},
		{
			Name: "mysql-refuses-by-an-old-state", Why: "a refusal that let the head in names capacity and a blocker of before",
			File: sql, Old: "        SELECT COALESCE(SUM(weight), 0), MIN(ends) INTO v_used, v_soon", New: "        SELECT COALESCE(SUM(weight), 0), MIN(ends) INTO v_late, v_soon",
			Pkg: pkg, Test: "TestAcquire_promotesHead",
		},
		{
			Name: "mysql-lets-in-the-caller-as-a-waiter", Why: "an attempt whose owner is in the queue counts the claims of the waiters behind it",
			File: sql, Old: "COALESCE(v_number, v_tail + 1));\n        SELECT last", New: "v_tail + 1);\n        SELECT last",
			Pkg: pkg, Test: "TestAcquire_promotesAhead",
		},
		{
			Name: "mysql-dead-entries-stay", Why: "a dead waiter holds up those behind it",
			File: sql, Old: "  DELETE FROM distlock_queue WHERE lock_key = p_key AND ends <= p_now;\n", New: "",
			Pkg: pkg, Test: "TestAcquire_clearsQueue",
		},
		{
			Name: "mysql-pushed-shared-claims-unseen", Why: "of many waiters of a process, those for shared claims learn of their grants only by an attempt",
			File: "store/mysql/watch.go", Old: "(slot = '' OR pushed = 1)", New: "slot = ''",
			Pkg: pkg, Test: "TestWatch_many",
		},
		{
			Name: "mysql-renewals-read-all-claims", Why: "the time of a renewal of many claims of a key grows with the square of their number",
			File: sql, Old: "      STRAIGHT_JOIN distlock_claim c ON c.lock_key = UNHEX(j.k) AND c.slot = UNHEX(j.o)\n      SET", New: "      STRAIGHT_JOIN distlock_claim c ON c.lock_key = UNHEX(j.k) AND CONCAT(c.slot) = UNHEX(j.o)\n      SET",
			Pkg: pkg, Test: "TestProcedures_renewMany",
		},
		{
			Name: "fence-mysql-same-fence-is-absent", Why: "a holder that writes the same values again is refused on MariaDB",
			File: "internal/guard/row.go", Old: "	case found && r.Style == MySQL && *current == int64(fence):\n", New: "	case false:\n",
			Pkg: "fence", Test: "TestRow/mariadb",
		},
		{
			Name: "fence-mysql-never-stale", Why: "a late holder writes on MariaDB",
			File: "internal/guard/table.go", Old: "	case current == fence:\n", New: "	case current >= fence:\n",
			Pkg: "fence", Test: "TestTable/mariadb",
		},
		{
			Name: "mysql-forgets-the-floor", Why: "the fences of a forgotten key start below its old ones when the clock was set back",
			File: verbs, Old: "GREATEST(since, @floor)", New: "since",
			Pkg: pkg, Test: "TestSweep",
		},
		{
			Name: "mysql-converts-keys", Why: "the server converts keys and owners: two processes hold a lock, or none can renew it",
			File: "store/mysql/mysql.go", Old: "		\"character_set_client\": \"'utf8mb4'\", \"character_set_connection\": \"'utf8mb4'\",\n		\"collation_connection\": \"'utf8mb4_general_ci'\", ", New: "		",
			Pkg: pkg, Test: "TestStore_settings/utf8mb3",
		},
		{
			Name: "mysql-chains-transactions", Why: "on a server with completion_type = CHAIN a grant is never committed",
			File: "store/mysql/mysql.go", Old: "		\"completion_type\": \"'NO_CHAIN'\",\n", New: "",
			Pkg: pkg, Test: "TestStore_settings/chained_transactions",
		},
		{
			Name: "mysql-reads-a-part", Why: "on a server with sql_select_limit lists lack claims",
			File: "store/mysql/mysql.go", Old: "\"sql_select_limit\": most, ", New: "",
			Pkg: pkg, Test: "TestStore_settings/few_rows",
		},
		{
			Name: "mysql-safe-updates", Why: "on a server with sql_safe_updates no process renews two claims at a time",
			File: "store/mysql/mysql.go", Old: "\"sql_safe_updates\": \"0\", ", New: "",
			Pkg: pkg, Test: "TestStore_settings/safe_updates",
		},
		{
			Name: "mysql-check-outlives-its-call", Why: "while another process migrates, calls do not end with their contexts",
			File: "store/mysql/schema.go", Old: "	case <-ctx.Done():\n		return nil, ctx.Err()\n	}\n	if v := s.ready", New: "	}\n	if v := s.ready",
			Pkg: pkg, Test: "TestStore_check_ends",
		},
	}
}
