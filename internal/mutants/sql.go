package main

import "strings"

// sqlMistakes returns mistakes that authors of a store in SQL make, in the store in tables of
// MariaDB. The rules of drivertest must catch each of them. They need a server.
func sqlMistakes() []mutant {
	const sql, tables, pkg = "store/mysql/sql/procedures.sql", "store/mysql/sql/tables.sql", "store/mysql"
	const verbs, query, renew, list = "store/mysql/verbs.go", "store/mysql/query.go", "store/mysql/renew.go", "store/mysql/list.go"
	const now = "    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));\n"
	const lock = "    SELECT entries INTO v_entries FROM distlock_claim WHERE lock_key = p_key AND slot = '' FOR UPDATE;\n"
	const unlocked = "    SELECT entries INTO v_entries FROM distlock_claim WHERE lock_key = p_key AND slot = '';\n"
	const absent = "    IF v_entries IS NULL THEN\n" +
		"      SET p_up_to = -1; -- there was no row to lock: a claim that is granted meanwhile stays\n    END IF;\n"
	const claim = "    SELECT slot, broken INTO v_slot, v_broken FROM distlock_claim WHERE lock_key = p_key\n" +
		"      AND slot IN ('', p_owner) AND owner = p_owner AND ends > v_now"
	const broken = "    SELECT lock_key, 0 AS waiting, owner, weight, `limit`, fence, v_now - since AS held,\n" +
		"        ends - v_now AS `left`, kept, holder, task, meta, value\n" +
		"      FROM distlock_claim WHERE lock_key = p_key AND broken IS NULL AND ends > v_now\n" +
		"        AND (p_up_to = 0 OR fence <= p_up_to) ORDER BY granted"
	const update = "      UPDATE distlock_claim SET ends = v_now + p_ttl, value = IF(p_set, p_value, value), kept = kept OR p_keep\n"
	const entry = "          UPDATE distlock_queue SET weight = p_weight, `limit` = p_limit, ends = v_now + p_queue_ttl,\n"
	many := []string{"-args", "-many=1000"}
	rows := []mutant{
		// Locks and clocks.
		{
			Name: "sql-renews-without-the-lock", Why: "a renewal finds the claim live, and is committed after another grant",
			File: sql, Old: lock + now + claim + " FOR UPDATE;\n", New: unlocked + now + claim + ";\n",
			Test: "renewed at the end", Args: many,
		},
		{
			Name: "sql-breaks-without-the-lock", Why: "a claim that was granted meanwhile is ended, and nobody reports it",
			File: sql, Old: lock + absent + now + broken + " FOR UPDATE;\n", New: unlocked + absent + now + broken + ";\n",
			Test: "break and acquire", Args: many,
		},
		{
			Name: "sql-acquires-without-the-lock", Why: "two attempts see the same free capacity",
			File: sql, Old: "    IF v_last IS NULL THEN\n      INSERT INTO distlock_claim (lock_key, slot, last)", New: "    COMMIT;\n    IF v_last IS NULL THEN\n      INSERT INTO distlock_claim (lock_key, slot, last)",
			Test: "race for slots",
		},
		{
			Name: "sql-releases-without-commit", Why: "the answer of a release comes before its commit",
			File: sql, Old: "    COMMIT;\n    SELECT v_released AS released;\n", New: "    SELECT v_released AS released;\n",
			Test: "exclusive",
		},
		{
			Name: "sql-takes-a-free-key-twice", Why: "the direct grant does not look for another holder",
			File: verbs, Old: "slot = '' AND ends = 0 AND others = 0 AND entries = 0 AND last", New: "slot = '' AND others = 0 AND entries = 0 AND last",
			Test: "exclusive",
		},
		// Lives.
		{
			Name: "sql-cuts-to-milliseconds", Why: "a TTL is stored in whole milliseconds, and loses up to one",
			File: "store/mysql/text.go", Old: "	us := int64(d / time.Microsecond)\n", New: "	us := int64(d / time.Millisecond * 1000)\n",
			Test: "odd milliseconds",
		},
		{
			Name: "sql-cuts-to-seconds", Why: "a TTL is stored in whole seconds",
			File: "store/mysql/text.go", Old: "	us := int64(d / time.Microsecond)\n", New: "	us := max(600000, int64(d/time.Second*1000000))\n",
			Test: "odd TTL",
		},
		{
			Name: "sql-sweeps-early", Why: "the sweeper ends claims 100 ms before their end",
			File: sql, Old: now + "    SELECT MAX(lock_key), COUNT(*) INTO v_stop", New: "    SET v_now = 100000 + TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));\n    SELECT MAX(lock_key), COUNT(*) INTO v_stop",
			Test: "swept",
		},
		{
			Name: "sql-sweeps-live-claims", Why: "the sweeper forgets the condition for the claim in the row of the key",
			File: sql, Old: "ends = IF(ends <= v_now, 0, ends)\n          WHERE lock_key = v_key", New: "ends = 0\n          WHERE lock_key = v_key",
			Test: "swept",
		},
		{
			Name: "sql-leaves-ended-claims", Why: "claims that ended by themselves stay for ever",
			File: sql, Old: "        DELETE FROM distlock_claim WHERE lock_key = v_key AND slot > '' AND ends <= v_now;\n", New: "        UPDATE distlock_claim SET ends = ends - 1 WHERE lock_key = v_key AND slot > '' AND ends <= 0;\n",
			Test: "leak",
		},
		{
			Name: "sql-renewal-adds", Why: "a renewal adds the TTL to the end instead of to the time",
			File: sql, Old: update, New: "      UPDATE distlock_claim SET ends = ends + p_ttl, value = IF(p_set, p_value, value), kept = kept OR p_keep\n",
			Test: "keep",
		},
		{
			Name: "sql-renewal-does-not-shorten", Why: "a claim cannot get an earlier end",
			File: sql, Old: update, New: "      UPDATE distlock_claim SET ends = GREATEST(ends, v_now + p_ttl), value = IF(p_set, p_value, value), kept = kept OR p_keep\n",
			Test: "shorten",
		},
		{
			Name: "sql-renews-the-dead", Why: "a renewal brings back a claim that has ended",
			File: sql, Old: claim, New: "    SELECT slot, broken INTO v_slot, v_broken FROM distlock_claim WHERE lock_key = p_key\n      AND slot IN ('', p_owner) AND owner = p_owner",
			Test: "ended",
		},
		{
			Name: "sql-renews-by-key", Why: "a renewal does not compare the owner",
			File: sql, Old: claim, New: "    SELECT slot, broken INTO v_slot, v_broken FROM distlock_claim WHERE lock_key = p_key\n      AND slot IN ('', p_owner) AND ends > v_now",
			Test: "stale",
		},
		{
			Name: "sql-releases-by-key", Why: "a release does not compare the owner",
			File: verbs, Old: "AND owner = ? AND entries = 0 AND broken", New: "AND owner <> CONCAT(?, 'x') AND entries = 0 AND broken",
			Test: "stale",
		},
		{
			Name: "sql-releases-the-dead", Why: "a release of a claim that has ended is reported as done",
			File: sql, Old: "      AND owner = p_owner AND broken IS NULL AND ends > v_now FOR UPDATE;\n", New: "      AND owner = p_owner AND broken IS NULL FOR UPDATE;\n",
			Test: "ended",
		},
		{
			Name: "sql-late-renewal-ends-a-record", Why: "a renewal that was on its way gives a record the short TTL of a claim",
			File: sql, Old: "AND slot = v_slot AND (kept = 0 OR p_keep);\n", New: "AND slot = v_slot;\n",
			Test: "record",
		},
		{
			Name: "sql-record-is-a-claim", Why: "Keep is not stored",
			File: sql, Old: "kept = kept OR p_keep\n", New: "kept = 0\n",
			Test: "keep",
		},
		// Repeated attempts.
		{
			Name: "sql-repeat-keeps-the-old-end", Why: "a repeated attempt does not restart the TTL",
			File: sql, Old: "SET ends = IF(kept, ends, v_now + p_ttl), weight", New: "SET weight",
			Test: "again",
		},
		{
			Name: "sql-repeat-takes-a-new-fence", Why: "a repeated attempt of an owner gets another fence",
			File: sql, Old: "SET v_answer = '=', v_fence = GREATEST(v_fence, p_floor),", New: "SET v_answer = '=', v_fence = GREATEST(v_last + 128, p_floor),",
			Test: "again",
		},
		{
			Name: "sql-repeat-is-fresh", Why: "a repeated attempt is reported as a new grant",
			File: sql, Old: "SET v_answer = '=', v_fence", New: "SET v_answer = '+', v_fence",
			Test: "fresh",
		},
		{
			Name: "sql-downgrade-is-forgotten", Why: "a repeated attempt with a lower weight changes nothing",
			File: sql, Old: "weight = LEAST(weight, p_weight),\n", New: "weight = weight,\n",
			Test: "downgrade",
		},
		// Capacity and fences.
		{
			Name: "sql-one-too-many", Why: "a semaphore has one slot more than its limit",
			File: sql, Old: "ELSEIF v_used + p_weight <= p_limit AND v_ahead = 0 THEN", New: "ELSEIF v_used + p_weight <= p_limit + 1 AND v_ahead = 0 THEN",
			Test: "count",
		},
		{
			Name: "sql-broken-claims-count", Why: "a claim that was broken still takes capacity",
			File: sql, Old: "SELECT COALESCE(SUM(IF(broken IS NULL AND ends > v_now, weight, 0)), 0),\n", New: "SELECT COALESCE(SUM(IF(ends > v_now, weight, 0)), 0),\n",
			Test: "break up to",
		},
		{
			Name: "sql-dead-claims-count", Why: "a claim that has ended still takes capacity",
			File: sql, Old: "SELECT COALESCE(SUM(IF(broken IS NULL AND ends > v_now, weight, 0)), 0),\n", New: "SELECT COALESCE(SUM(IF(broken IS NULL, weight, 0)), 0),\n",
			Test: "slots at once",
		},
		{
			Name: "sql-fence-by-one", Why: "fences of two grants are closer than Span",
			File: sql, Old: "SET v_fence = GREATEST(v_last + 128, v_now, p_floor);\n", New: "SET v_fence = GREATEST(v_last + 1, p_floor);\n",
			Test: "shared fence",
		},
		{
			Name: "sql-fence-is-the-clock", Why: "the fence follows the clock alone, and goes back with it",
			File: sql, Old: "SET v_fence = GREATEST(v_last + 128, v_now, p_floor);\n", New: "SET v_fence = GREATEST(v_now, p_floor);\n",
			Test: "floor",
		},
		{
			Name: "sql-floor-is-ignored", Why: "a grant has a fence below the floor of its request",
			File: sql, Old: "SET v_fence = GREATEST(v_last + 128, v_now, p_floor);\n", New: "SET v_fence = GREATEST(v_last + 128, v_now);\n",
			Test: "floor",
		},
		{
			Name: "sql-floor-of-any-height", Why: "one request with a wrong floor uses up the fences of a key",
			File: sql, Old: "IF p_floor > GREATEST(v_last, v_now) + 3600000000 THEN", New: "IF FALSE THEN",
			Test: "floor too far",
		},
		{
			Name: "sql-fences-above-the-last", Why: "grants go on when no fences are left",
			File: sql, Old: "      IF v_fence > 9007199254740864 THEN\n        SET v_answer = 'f';\n", New: "      IF FALSE THEN\n        SET v_answer = 'f';\n",
			Test: "no fences left",
		},
		{
			Name: "sql-direct-fences-above-the-last", Why: "direct grants go on when no fences are left",
			File: verbs, Old: "entries = 0 AND last < 9007199254740608\"\n", New: "entries = 0\"\n",
			Test: "no fences left",
		},
		// The queue.
		{
			Name: "sql-overtakes", Why: "an attempt takes capacity that a waiter before it needs",
			File: sql, Old: "<= p_limit AND v_ahead = 0 THEN", New: "<= p_limit THEN",
			Test: "no overtaking",
		},
		{
			Name: "sql-last-come-first-served", Why: "the queue is read in the wrong order",
			File: sql, Old: "AND number < p_below AND ends > p_now ORDER BY number LIMIT 1;\n", New: "AND number < p_below AND ends > p_now ORDER BY number DESC LIMIT 1;\n",
			Test: "queue",
		},
		{
			Name: "sql-refresh-goes-to-the-end", Why: "a waiter that attempts again loses its position",
			File: sql, Old: entry, New: "          UPDATE distlock_claim SET tail = tail + 1 WHERE lock_key = p_key AND slot = '';\n" +
				"          UPDATE distlock_queue SET number = v_tail + 1 WHERE lock_key = p_key AND number = v_number;\n          SET v_number = v_tail + 1;\n" + entry,
			Test: "queue",
		},
		{
			Name: "sql-refresh-does-not-prolong", Why: "a waiter that attempts again expires at its first end",
			File: sql, Old: entry, New: "          UPDATE distlock_queue SET weight = p_weight, `limit` = p_limit,\n",
			Test: "refreshed entry",
		},
		{
			Name: "sql-look-changes-the-entry", Why: "an attempt without a QueueTTL changes what the entry stands for",
			File: sql, Old: "      IF p_queue_ttl > 0 THEN\n", New: "      UPDATE distlock_queue SET weight = p_weight, `limit` = p_limit WHERE lock_key = p_key AND number = v_number;\n      IF p_queue_ttl > 0 THEN\n",
			Test: "entry as it was",
		},
		{
			Name: "sql-entry-keeps-its-first-weight", Why: "an entry stands for the first attempt and not for the last",
			File: sql, Old: entry, New: "          UPDATE distlock_queue SET ends = v_now + p_queue_ttl,\n",
			Test: "entry of last attempt",
		},
		{
			Name: "sql-granted-waiter-stays-in-the-queue", Why: "a waiter that was granted still has its entry",
			File: sql, Old: "          DELETE FROM distlock_queue WHERE lock_key = p_key AND number = v_number;\n          UPDATE", New: "          UPDATE",
			Test: "expired entry",
		},
		{
			Name: "sql-promotes-past-capacity", Why: "a release lets in a waiter that does not fit",
			File: sql, Old: "IF v_used + v_weight > v_limit OR v_fence", New: "IF v_fence",
			Test: "readers",
		},
		{
			Name: "sql-retries-early", Why: "the reported time until the next attempt is 50 ms too short",
			File: sql, Old: "SET v_retry = IF(v_ahead < 17, v_first - v_now, NULL);\n", New: "SET v_retry = IF(v_ahead < 17, v_first - v_now - 50000, NULL);\n",
			Test: "when to retry",
		},
		// Names, values, sizes.
		{
			Name: "sql-ignores-case", Why: "the key column has a collation: A and a are one key",
			File: tables, Old: "CREATE TABLE IF NOT EXISTS distlock_claim (\n  lock_key VARBINARY(512) NOT NULL,", New: "CREATE TABLE IF NOT EXISTS distlock_claim (\n  lock_key VARCHAR(512) CHARACTER SET latin1 NOT NULL,",
			Test: "opaque names",
		},
		{
			Name: "sql-pads-with-spaces", Why: "the key column ignores spaces at the end",
			File: tables, Old: "CREATE TABLE IF NOT EXISTS distlock_claim (\n  lock_key VARBINARY(512) NOT NULL,", New: "CREATE TABLE IF NOT EXISTS distlock_claim (\n  lock_key VARCHAR(512) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,",
			Test: "opaque names",
		},
		{
			Name: "sql-short-columns", Why: "a column is shorter than the longest text of the contract",
			File: tables, Old: "  holder   VARBINARY(1024) NOT NULL DEFAULT '',\n", New: "  holder   VARBINARY(255) NOT NULL DEFAULT '',\n",
			Test: "longest texts",
		},
		{
			Name: "sql-small-values", Why: "a value of the largest size does not fit",
			File: tables, Old: "  value    MEDIUMBLOB,                 -- null: none\n", New: "  value    TINYBLOB,\n",
			Test: "value",
		},
		{
			Name: "sql-renewal-drops-the-value", Why: "a renewal without a value deletes the old one",
			File: sql, Old: "value = IF(p_set, p_value, value), kept", New: "value = p_value, kept",
			Test: "value",
		},
		{
			Name: "sql-lists-one-page", Why: "List shows the first 100 keys only",
			File: list, Old: "	return last, row.Number() == listStep, row.Err\n", New: "	return last, row.Number() < 0, row.Err\n",
			Test: "many keys", Args: many,
		},
		{
			Name: "sql-list-loses-a-key-between-pages", Why: "List skips a key at the seam of two pages",
			File: list, Old: "			from = append(last, 0)\n", New: "			from = append(last, 1)\n",
			Test: "many keys", Args: many,
		},
		{
			Name: "sql-shows-the-dead", Why: "Show returns claims that have ended",
			File: list, Old: " AND broken IS NULL AND ends > @now\"+\n", New: " AND broken IS NULL\"+\n",
			Test: "ended is not shown",
		},
		{
			Name: "sql-renews-the-first-50", Why: "the rest of a batch is reported as renewed, and ends",
			File: renew, Old: "slices.Chunk(together, renewStep)", New: "slices.Chunk(together[:min(50, len(together))], renewStep)",
			Test: "many renewals", Args: many,
		},
		{
			Name: "sql-renews-a-claim-once", Why: "of two renewals of one claim in a batch only one has an answer",
			File: renew, Old: "	text := []byte(\"CALL distlock_renew_all('[\")\n", New: "	items = slices.CompactFunc(items, func(a, b item) bool { return bytes.Equal(a.owner, b.owner) })\n	text := []byte(\"CALL distlock_renew_all('[\")\n",
			Test: "renew all, one twice",
		},
		{
			Name: "sql-batch-renews-the-dead", Why: "a batch brings back claims that have ended",
			File: sql, Old: "      WHERE c.owner = UNHEX(j.o) AND c.ends > v_now AND c.broken IS NULL AND c.kept = 0;\n", New: "      WHERE c.owner = UNHEX(j.o) AND c.broken IS NULL AND c.kept = 0;\n",
			Test: "ended",
		},
		// Breaks and errors.
		{
			Name: "sql-breaks-later-claims", Why: "Break ends a claim above the given fence",
			File: sql, Old: "broken IS NULL AND ends > v_now\n        AND (p_up_to = 0 OR fence <= p_up_to);\n", New: "broken IS NULL AND ends > v_now;\n",
			Test: "break up to",
		},
		{
			Name: "sql-reason-is-cut", Why: "the holder does not learn the whole reason of a break",
			File: renew, Old: "		return 0, &driver.BrokenError{Reason: reason}\n", New: "		return 0, &driver.BrokenError{Reason: reason[:min(8, len(reason))]}\n",
			Test: "break",
		},
	}
	for i := range rows {
		r := &rows[i]
		r.Pkg, r.Test = pkg, "TestStore/"+strings.ReplaceAll(r.Test, " ", "_")
	}
	return rows
}
