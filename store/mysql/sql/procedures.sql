-- The procedures. Each call is one round trip and one transaction of its own. Within an open
-- transaction SET TRANSACTION fails, before the handler that rolls back: the transaction of the
-- caller stays as it is. A procedure locks the row of the key first, and reads the clock after that.
-- Owners are the SHA-256 of the secret, 32 bytes. Durations are microseconds.
--
-- A statement of a READ COMMITTED transaction sees the data that was committed before the statement
-- began, so a statement after the lock sees the work of the lock's last owner.
-- ;;
-- distlock_grant writes a claim. The caller has the lock of the key, and there is capacity. The
-- reason of a broken claim moves to a row of its own if the row of the key is needed.
CREATE PROCEDURE distlock_grant(
  p_key VARBINARY(512), p_owner VARBINARY(32), p_weight BIGINT, p_limit BIGINT, p_fence BIGINT,
  p_now BIGINT, p_ends BIGINT, p_pushed TINYINT, p_holder VARBINARY(1024), p_task VARBINARY(1024),
  p_meta MEDIUMBLOB, p_value MEDIUMBLOB)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_inline VARBINARY(32);
  DECLARE v_ends BIGINT;
  SELECT owner, ends INTO v_inline, v_ends FROM distlock_claim WHERE lock_key = p_key AND slot = '';
  IF v_inline = p_owner THEN -- the owner's last claim was broken
    UPDATE distlock_claim SET ends = 0 WHERE lock_key = p_key AND slot = '';
    SET v_ends = 0;
  END IF;
  DELETE FROM distlock_claim WHERE lock_key = p_key AND slot = p_owner;
  IF ROW_COUNT() > 0 THEN
    UPDATE distlock_claim SET others = others - 1 WHERE lock_key = p_key AND slot = '';
  END IF;
  IF p_weight = 1073741824 THEN
    IF v_ends > p_now THEN
      INSERT IGNORE INTO distlock_claim (lock_key, slot, owner, weight, `limit`, fence, granted, since, ends, broken)
        SELECT lock_key, owner, owner, weight, `limit`, fence, granted, since, ends, broken
        FROM (SELECT * FROM distlock_claim WHERE lock_key = p_key AND slot = '') c;
      IF ROW_COUNT() > 0 THEN
        UPDATE distlock_claim SET others = others + 1 WHERE lock_key = p_key AND slot = '';
      END IF;
    END IF;
    UPDATE distlock_claim SET last = p_fence, attempt = 0, owner = p_owner, weight = p_weight,
        `limit` = p_limit, fence = p_fence, granted = p_fence, since = p_now, ends = p_ends, kept = 0,
        pushed = p_pushed, broken = NULL, holder = p_holder, task = p_task, meta = p_meta, value = p_value
      WHERE lock_key = p_key AND slot = '';
  ELSE
    INSERT INTO distlock_claim (lock_key, slot, owner, weight, `limit`, fence, granted, since, ends,
        pushed, holder, task, meta, value)
      VALUES (p_key, p_owner, p_owner, p_weight, p_limit, p_fence, p_fence, p_now, p_ends,
        p_pushed, p_holder, p_task, p_meta, p_value);
    UPDATE distlock_claim SET last = p_fence, others = others + 1 WHERE lock_key = p_key AND slot = '';
  END IF;
END
-- ;;
-- distlock_clear deletes the queue entries of a key that have ended. The caller has the lock of the
-- key.
CREATE PROCEDURE distlock_clear(p_key VARBINARY(512), p_now BIGINT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_entries, v_earliest BIGINT;
  DELETE FROM distlock_queue WHERE lock_key = p_key AND ends <= p_now;
  SELECT COUNT(*), COALESCE(MIN(ends), 0) INTO v_entries, v_earliest FROM distlock_queue WHERE lock_key = p_key;
  UPDATE distlock_claim SET entries = v_entries, earliest = v_earliest WHERE lock_key = p_key AND slot = '';
END
-- ;;
-- distlock_promote grants the claims at the head of the queue that fit and have a number below
-- p_below, each until its queue entry expires. The owner may be dead, so if the clock was set back,
-- the claim still ends after at most the requested queue TTL. The caller has the lock of the key.
CREATE PROCEDURE distlock_promote(p_key VARBINARY(512), p_now BIGINT, p_below BIGINT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_last, v_used, v_number, v_weight, v_limit, v_ends, v_ttl, v_fence BIGINT;
  DECLARE v_owner VARBINARY(32);
  DECLARE v_holder, v_task VARBINARY(1024);
  DECLARE v_meta, v_value MEDIUMBLOB;
  DECLARE v_steps INT DEFAULT 100;
  heads: WHILE v_steps > 0 DO
    SET v_steps = v_steps - 1, v_number = NULL;
    SELECT number, owner, weight, `limit`, ends, ttl, holder, task, meta, value
      INTO v_number, v_owner, v_weight, v_limit, v_ends, v_ttl, v_holder, v_task, v_meta, v_value
      FROM distlock_queue FORCE INDEX (PRIMARY)
      WHERE lock_key = p_key AND number < p_below AND ends > p_now ORDER BY number LIMIT 1;
    IF v_number IS NULL THEN
      LEAVE heads;
    END IF;
    SELECT COALESCE(SUM(weight), 0) INTO v_used FROM distlock_claim
      WHERE lock_key = p_key AND broken IS NULL AND ends > p_now FOR UPDATE;
    SELECT last INTO v_last FROM distlock_claim WHERE lock_key = p_key AND slot = '';
    SET v_fence = GREATEST(v_last + 128, p_now);
    IF v_used + v_weight > v_limit OR v_fence > 9007199254740864 THEN
      LEAVE heads; -- the waiter's next attempt returns that no fences are left
    END IF;
    DELETE FROM distlock_queue WHERE lock_key = p_key AND number = v_number;
    UPDATE distlock_claim SET entries = entries - 1 WHERE lock_key = p_key AND slot = '';
    CALL distlock_grant(p_key, v_owner, v_weight, v_limit, v_fence, p_now,
      LEAST(v_ends, p_now + v_ttl), 1, v_holder, v_task, v_meta, v_value);
    IF v_weight = 1073741824 THEN
      LEAVE heads; -- there is no capacity for another claim
    END IF;
  END WHILE;
END
-- ;;
-- distlock_acquire grants or refuses one claim. The answer is
--   +  granted          -  refused           =  granted again
--   i  the floor is too far ahead            f  no fences are left
-- The call first grants claims to the waiters before the owner, if they fit. Used and behind do not
-- include what a grant changes after that: claims of waiters behind it that fit too. Ahead and
-- behind are counted to 17, so a call costs the same with any number of waiters. With 17 ahead there
-- is no retry. Retry, held and left are microseconds. The columns after retry are the blocker.
CREATE PROCEDURE distlock_acquire(
  p_key VARBINARY(512), p_owner VARBINARY(32), p_ttl BIGINT, p_weight BIGINT, p_limit BIGINT,
  p_queue_ttl BIGINT, p_floor BIGINT, p_holder VARBINARY(1024), p_task VARBINARY(1024),
  p_meta MEDIUMBLOB, p_value MEDIUMBLOB)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_last, v_entries, v_earliest, v_tail, v_others, v_used, v_soon, v_dead BIGINT;
  DECLARE v_fence, v_weight, v_number, v_ahead, v_first, v_late, v_edge, v_behind, v_retry BIGINT;
  DECLARE b_weight, b_limit, b_fence, b_held, b_left, b_kept, b_waiting BIGINT;
  DECLARE v_answer VARCHAR(1) DEFAULT '-';
  DECLARE v_broken TINYINT;
  DECLARE v_slot, b_owner VARBINARY(32);
  DECLARE b_holder, b_task VARBINARY(1024);
  DECLARE b_meta, b_value MEDIUMBLOB;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    IF (LENGTH(p_key) BETWEEN 1 AND 512 AND LENGTH(p_owner) = 32 AND p_ttl > 0
        AND p_limit BETWEEN 1 AND 1073741824 AND p_weight BETWEEN 1 AND p_limit
        AND p_queue_ttl >= 0 AND p_floor BETWEEN 0 AND 9007199254740863
        AND p_holder IS NOT NULL AND p_task IS NOT NULL
        AND COALESCE(LENGTH(p_value), 0) <= 65537) IS NOT TRUE THEN
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'distlock: an argument of distlock_acquire is not valid';
    END IF;
    START TRANSACTION;
    SELECT last, entries, earliest, tail, others, owner, weight, fence, ends, broken IS NOT NULL
      INTO v_last, v_entries, v_earliest, v_tail, v_others, b_owner, b_weight, b_fence, b_left, v_broken
      FROM distlock_claim WHERE lock_key = p_key AND slot = '' FOR UPDATE;
    IF v_last IS NULL THEN
      INSERT INTO distlock_claim (lock_key, slot, last)
        VALUES (p_key, '', COALESCE((SELECT CAST(value AS SIGNED) FROM distlock_meta WHERE name = 'fence'), 0))
        ON DUPLICATE KEY UPDATE distlock_claim.last = distlock_claim.last;
      SELECT last, entries, earliest, tail, others, owner, weight, fence, ends, broken IS NOT NULL
        INTO v_last, v_entries, v_earliest, v_tail, v_others, b_owner, b_weight, b_fence, b_left, v_broken
        FROM distlock_claim WHERE lock_key = p_key AND slot = '' FOR UPDATE;
    END IF;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

    IF v_entries > 0 AND v_earliest <= v_now THEN
      CALL distlock_clear(p_key, v_now);
      SELECT entries, earliest INTO v_entries, v_earliest FROM distlock_claim WHERE lock_key = p_key AND slot = '';
    END IF;
    IF v_others = 0 THEN -- at most the row of the key has a claim
      SET v_used = 0, v_dead = b_left > 0 AND b_left <= v_now;
      IF NOT v_broken AND b_left > v_now THEN
        SET v_used = b_weight, v_soon = b_left;
        IF b_owner = p_owner THEN
          SET v_fence = b_fence, v_weight = b_weight, v_slot = '';
        END IF;
      END IF;
    ELSE
      -- The lock covers the rows of all claims: a renewal in progress has one of them.
      SELECT COALESCE(SUM(IF(broken IS NULL AND ends > v_now, weight, 0)), 0),
          MIN(IF(broken IS NULL AND ends > v_now, ends, NULL)), COALESCE(SUM(ends <= v_now), 0),
          MAX(IF(owner = p_owner AND broken IS NULL AND ends > v_now, fence, NULL)),
          MAX(IF(owner = p_owner AND broken IS NULL AND ends > v_now, weight, NULL)),
          MAX(IF(owner = p_owner AND broken IS NULL AND ends > v_now, slot, NULL))
        INTO v_used, v_soon, v_dead, v_fence, v_weight, v_slot
        FROM distlock_claim WHERE lock_key = p_key AND ends > 0 FOR UPDATE;
    END IF;
    SET b_owner = NULL, b_weight = NULL, b_fence = NULL, b_left = NULL;
    IF v_dead > 0 THEN
      DELETE FROM distlock_claim WHERE lock_key = p_key AND slot > '' AND ends <= v_now;
      UPDATE distlock_claim SET others = others - ROW_COUNT(), ends = IF(ends <= v_now, 0, ends)
        WHERE lock_key = p_key AND slot = '';
    END IF;
    IF v_entries > 0 THEN
      SELECT number INTO v_number FROM distlock_queue WHERE lock_key = p_key AND owner = p_owner;
      IF v_fence IS NULL AND v_used + p_weight <= p_limit THEN
        -- The last claim ended by itself, and the head may attempt late.
        CALL distlock_promote(p_key, v_now, COALESCE(v_number, v_tail + 1));
        SELECT last, entries, others INTO v_last, v_entries, v_others
          FROM distlock_claim WHERE lock_key = p_key AND slot = '';
        SELECT COALESCE(SUM(weight), 0), MIN(ends) INTO v_used, v_soon FROM distlock_claim
          WHERE lock_key = p_key AND broken IS NULL AND ends > v_now FOR UPDATE;
      END IF;
    END IF;
    SET v_ahead = v_entries;
    IF v_entries > 0 THEN
      IF v_fence IS NULL THEN
        SELECT number INTO v_edge FROM distlock_queue FORCE INDEX (PRIMARY)
          WHERE lock_key = p_key ORDER BY number LIMIT 16, 1;
        IF v_edge IS NULL OR v_number <= v_edge THEN
          SELECT COUNT(*), MIN(ends), MAX(ends - ttl) INTO v_ahead, v_first, v_late FROM distlock_queue
            WHERE lock_key = p_key AND number < COALESCE(v_number, v_tail + 1);
        ELSE
          SET v_ahead = 17;
          SELECT ends - ttl INTO v_late FROM distlock_queue FORCE INDEX (PRIMARY)
            WHERE lock_key = p_key ORDER BY number LIMIT 1;
        END IF;
        IF v_late > v_now THEN -- an entry that outlives its TTL is older than the clock
          UPDATE distlock_queue SET ends = v_now + ttl
            WHERE lock_key = p_key AND number <= COALESCE(v_edge, v_tail) AND ends > v_now + ttl;
          SELECT MIN(ends) INTO v_first FROM distlock_queue
            WHERE lock_key = p_key AND number < COALESCE(v_number, v_tail + 1);
          SET v_earliest = v_now; -- the next attempt finds the first end
          UPDATE distlock_claim SET earliest = v_earliest WHERE lock_key = p_key AND slot = '';
        END IF;
      END IF;
    END IF;

    IF p_floor > GREATEST(v_last, v_now) + 3600000000 THEN
      SET v_answer = 'i';
      ROLLBACK;
    ELSEIF v_fence IS NOT NULL THEN
      SET v_answer = '=', v_fence = GREATEST(v_fence, p_floor), v_ahead = 0, v_behind = v_entries,
        v_used = v_used - v_weight + LEAST(v_weight, p_weight);
      UPDATE distlock_claim SET ends = IF(kept, ends, v_now + p_ttl), weight = LEAST(weight, p_weight),
          fence = v_fence, pushed = 0
        WHERE lock_key = p_key AND slot = v_slot;
      IF v_fence > v_last THEN
        UPDATE distlock_claim SET last = v_fence WHERE lock_key = p_key AND slot = '';
      END IF;
      IF p_weight < v_weight THEN
        UPDATE distlock_claim SET news = news + 1 WHERE lock_key = p_key AND slot = '';
        CALL distlock_promote(p_key, v_now, 9223372036854775807);
      END IF;
      COMMIT;
    ELSEIF v_used + p_weight <= p_limit AND v_ahead = 0 THEN
      SET v_fence = GREATEST(v_last + 128, v_now, p_floor);
      IF v_fence > 9007199254740864 THEN
        SET v_answer = 'f';
        ROLLBACK;
      ELSE
        SET v_answer = '+', v_used = v_used + p_weight, v_behind = v_entries;
        CALL distlock_grant(p_key, p_owner, p_weight, p_limit, v_fence, v_now, v_now + p_ttl, 0,
          p_holder, p_task, p_meta, p_value);
        IF v_number IS NOT NULL THEN
          DELETE FROM distlock_queue WHERE lock_key = p_key AND number = v_number;
          UPDATE distlock_claim SET entries = entries - 1 WHERE lock_key = p_key AND slot = '';
          SET v_behind = v_behind - 1;
        END IF;
        IF v_behind > 0 AND p_weight < 1073741824 THEN
          CALL distlock_promote(p_key, v_now, 9223372036854775807);
        END IF;
        COMMIT;
      END IF;
    ELSE
      IF v_ahead < 17 THEN
        SET v_behind = IF(v_number IS NULL, 0, v_entries - v_ahead - 1);
      ELSE
        SELECT 17 INTO v_behind FROM distlock_queue FORCE INDEX (PRIMARY)
          WHERE lock_key = p_key AND number > v_number ORDER BY number LIMIT 16, 1;
        IF v_behind IS NULL THEN
          SELECT COUNT(*) INTO v_behind FROM distlock_queue WHERE lock_key = p_key AND number > v_number;
        END IF;
      END IF;
      IF v_used + p_weight > p_limit THEN
        SET v_first = LEAST(COALESCE(v_first, v_soon), v_soon);
        SELECT 0, owner, weight, `limit`, fence, v_now - since, ends - v_now, kept, holder, task, meta, value
          INTO b_waiting, b_owner, b_weight, b_limit, b_fence, b_held, b_left, b_kept, b_holder, b_task, b_meta, b_value
          FROM distlock_claim WHERE lock_key = p_key AND (v_others > 0 OR slot = '')
            AND broken IS NULL AND ends > v_now ORDER BY granted LIMIT 1;
      ELSE
        SELECT 1, owner, weight, `limit`, 0, v_now - since, ends - v_now, 0, holder, task, meta, value
          INTO b_waiting, b_owner, b_weight, b_limit, b_fence, b_held, b_left, b_kept, b_holder, b_task, b_meta, b_value
          FROM distlock_queue FORCE INDEX (PRIMARY) WHERE lock_key = p_key ORDER BY number LIMIT 1;
      END IF;
      SET v_retry = IF(v_ahead < 17, v_first - v_now, NULL);
      IF p_queue_ttl > 0 THEN
        IF v_number IS NULL THEN
          INSERT INTO distlock_queue VALUES (p_key, v_tail + 1, p_owner, p_weight, p_limit, v_now,
            v_now + p_queue_ttl, p_queue_ttl, p_holder, p_task, p_meta, p_value);
          UPDATE distlock_claim SET tail = tail + 1, entries = entries + 1,
              earliest = IF(v_entries = 0, v_now + p_queue_ttl, LEAST(earliest, v_now + p_queue_ttl))
            WHERE lock_key = p_key AND slot = '';
        ELSE
          UPDATE distlock_queue SET weight = p_weight, `limit` = p_limit, ends = v_now + p_queue_ttl,
              ttl = p_queue_ttl, holder = p_holder, task = p_task, meta = p_meta, value = p_value
            WHERE lock_key = p_key AND number = v_number;
          IF v_now + p_queue_ttl < v_earliest THEN
            UPDATE distlock_claim SET earliest = v_now + p_queue_ttl WHERE lock_key = p_key AND slot = '';
          END IF;
        END IF;
      END IF;
      COMMIT;
    END IF;
    SELECT v_answer AS answer, v_fence AS fence, v_used AS used, v_ahead AS ahead, v_behind AS behind,
      v_retry AS retry, b_waiting AS waiting, b_owner AS owner, b_weight AS weight, b_limit AS `limit`,
      b_fence AS blocker_fence, b_held AS held, b_left AS `left`, b_kept AS kept, b_holder AS holder,
      b_task AS task, b_meta AS meta, b_value AS value;
  END;
END
-- ;;
-- distlock_attempt_all makes many attempts on a key that claims block, as distlock_acquire would. It
-- refreshes queue entries that have 17 others or more before and behind them, adds an entry behind
-- 17 others or more, or only refuses. p_list is a JSON array of [index, owner, queue TTL, weight,
-- limit, holder, task, meta, value], bytes in hex, with each owner once, and p_least the shortest
-- queue TTL above 0. The answer is the indexes of the owners that had an entry, the indexes of
-- those that had none, and the answer of distlock_acquire to the latter. To the former it is the
-- same, with 17 behind. It made no other attempt, and no row means that it made none.
CREATE PROCEDURE distlock_attempt_all(p_key VARBINARY(512), p_least BIGINT, p_list LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_entries, v_earliest, v_tail, v_others, v_used, v_soon, v_late, v_edge, v_back BIGINT;
  DECLARE v_ahead, v_first, v_joined BIGINT;
  DECLARE v_broken TINYINT;
  DECLARE v_owner VARBINARY(32);
  DECLARE v_had, v_new TEXT;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION;
    SELECT entries, earliest, tail, others, owner, weight, ends, broken IS NOT NULL
      INTO v_entries, v_earliest, v_tail, v_others, v_owner, v_used, v_soon, v_broken
      FROM distlock_claim WHERE lock_key = p_key AND slot = '' FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    IF v_entries > 0 AND v_earliest <= v_now THEN
      CALL distlock_clear(p_key, v_now);
      SELECT earliest INTO v_earliest FROM distlock_claim WHERE lock_key = p_key AND slot = '';
    END IF;
    IF v_others > 0 THEN
      SELECT COALESCE(SUM(weight), 0), MIN(ends) INTO v_used, v_soon FROM distlock_claim
        WHERE lock_key = p_key AND broken IS NULL AND ends > v_now FOR UPDATE;
    ELSEIF v_broken OR v_soon <= v_now THEN
      SET v_used = 0;
    END IF;
    SELECT ends - ttl INTO v_late FROM distlock_queue FORCE INDEX (PRIMARY)
      WHERE lock_key = p_key ORDER BY number LIMIT 1;
    IF v_used > 0 AND COALESCE(v_late, 0) <= v_now THEN -- else distlock_acquire repairs entries: the clock was set back
      SELECT number INTO v_edge FROM distlock_queue FORCE INDEX (PRIMARY)
        WHERE lock_key = p_key ORDER BY number LIMIT 16, 1;
      SELECT number INTO v_back FROM distlock_queue FORCE INDEX (PRIMARY)
        WHERE lock_key = p_key ORDER BY number DESC LIMIT 16, 1;
      SET v_ahead = 17;
      IF v_edge IS NULL THEN
        SELECT COUNT(*), MIN(ends) INTO v_ahead, v_first FROM distlock_queue WHERE lock_key = p_key;
      END IF;
      SELECT GROUP_CONCAT(IF(q.number IS NULL, NULL, j.i)), GROUP_CONCAT(IF(q.number IS NULL, j.i, NULL)),
          SUM(q.number IS NULL AND j.t > 0)
        INTO v_had, v_new, v_joined
        FROM JSON_TABLE(p_list, '$[*]' COLUMNS (
          i INT PATH '$[0]', o VARCHAR(64) PATH '$[1]', t BIGINT PATH '$[2]', w BIGINT PATH '$[3]', l BIGINT PATH '$[4]')) j
        LEFT JOIN distlock_queue q FORCE INDEX (lock_key) ON q.lock_key = p_key AND q.owner = UNHEX(j.o)
        LEFT JOIN distlock_claim c ON c.lock_key = p_key AND c.slot = UNHEX(j.o)
        WHERE v_used + j.w > j.l AND IF(q.number IS NULL,
          (j.t = 0 OR v_edge IS NOT NULL) AND c.slot IS NULL AND v_owner <> UNHEX(j.o), -- it has no claim
          j.t > 0 AND q.number > v_edge AND q.number < v_back);
    END IF;
    IF v_had IS NOT NULL THEN
      UPDATE JSON_TABLE(p_list, '$[*]' COLUMNS (
          i INT PATH '$[0]', o VARCHAR(64) PATH '$[1]', t BIGINT PATH '$[2]', w BIGINT PATH '$[3]', l BIGINT PATH '$[4]',
          h VARCHAR(2048) PATH '$[5]', k VARCHAR(2048) PATH '$[6]', m VARCHAR(2048) PATH '$[7]', v VARCHAR(2048) PATH '$[8]')) j
        STRAIGHT_JOIN distlock_queue q FORCE INDEX (lock_key) ON q.lock_key = p_key AND q.owner = UNHEX(j.o)
        SET q.weight = j.w, q.`limit` = j.l, q.ends = v_now + j.t, q.ttl = j.t, q.holder = UNHEX(j.h), q.task = UNHEX(j.k),
          q.meta = UNHEX(NULLIF(j.m, '')), q.value = UNHEX(NULLIF(j.v, ''))
        WHERE FIND_IN_SET(j.i, v_had);
    END IF;
    IF v_joined > 0 THEN
      INSERT INTO distlock_queue SELECT p_key, v_tail + ROW_NUMBER() OVER (ORDER BY j.i), UNHEX(j.o), j.w, j.l, v_now,
          v_now + j.t, j.t, UNHEX(j.h), UNHEX(j.k), UNHEX(NULLIF(j.m, '')), UNHEX(NULLIF(j.v, ''))
        FROM JSON_TABLE(p_list, '$[*]' COLUMNS (
          i INT PATH '$[0]', o VARCHAR(64) PATH '$[1]', t BIGINT PATH '$[2]', w BIGINT PATH '$[3]', l BIGINT PATH '$[4]',
          h VARCHAR(2048) PATH '$[5]', k VARCHAR(2048) PATH '$[6]', m VARCHAR(2048) PATH '$[7]', v VARCHAR(2048) PATH '$[8]')) j
        WHERE j.t > 0 AND FIND_IN_SET(j.i, v_new);
    END IF;
    IF v_joined > 0 OR v_had IS NOT NULL AND v_now + p_least < v_earliest THEN
      UPDATE distlock_claim SET tail = tail + COALESCE(v_joined, 0), entries = entries + COALESCE(v_joined, 0),
          earliest = LEAST(earliest, v_now + p_least)
        WHERE lock_key = p_key AND slot = '';
    END IF;
    SELECT v_had AS had, v_new AS new, '-' AS answer, NULL AS granted, v_used AS used, v_ahead AS ahead, 0 AS behind,
        IF(v_ahead < 17, LEAST(COALESCE(v_first, v_soon), v_soon) - v_now, NULL) AS retry,
        0 AS waiting, owner, weight, `limit`, fence, v_now - since AS held, ends - v_now AS `left`, kept, holder, task, meta, value
      FROM distlock_claim WHERE (v_had IS NOT NULL OR v_new IS NOT NULL) AND lock_key = p_key AND (v_others > 0 OR slot = '')
        AND broken IS NULL AND ends > v_now ORDER BY granted LIMIT 1;
    COMMIT;
  END;
END
-- ;;
-- distlock_release ends a live claim or removes a queue entry. It returns 0 if the owner has
-- neither.
CREATE PROCEDURE distlock_release(p_key VARBINARY(512), p_owner VARBINARY(32))
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_entries BIGINT;
  DECLARE v_released INT DEFAULT 0;
  DECLARE v_slot VARBINARY(32);

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION;
    SELECT entries INTO v_entries FROM distlock_claim WHERE lock_key = p_key AND slot = '' FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    SELECT slot INTO v_slot FROM distlock_claim WHERE lock_key = p_key AND slot IN ('', p_owner)
      AND owner = p_owner AND broken IS NULL AND ends > v_now FOR UPDATE;
    IF v_slot IS NOT NULL THEN
      SET v_released = 1;
      IF v_slot = '' THEN
        UPDATE distlock_claim SET ends = 0, meta = NULL, value = NULL, news = news + 1
          WHERE lock_key = p_key AND slot = '';
      ELSE
        DELETE FROM distlock_claim WHERE lock_key = p_key AND slot = p_owner;
        UPDATE distlock_claim SET others = others - 1, news = news + 1 WHERE lock_key = p_key AND slot = '';
      END IF;
    ELSEIF v_entries > 0 THEN
      DELETE FROM distlock_queue WHERE lock_key = p_key AND owner = p_owner AND ends > v_now;
      IF ROW_COUNT() > 0 THEN
        SET v_released = 1;
        UPDATE distlock_claim SET entries = entries - 1 WHERE lock_key = p_key AND slot = '';
      END IF;
    END IF;
    IF v_released AND v_entries > 0 THEN
      CALL distlock_promote(p_key, v_now, 9223372036854775807);
    END IF;
    COMMIT;
    SELECT v_released AS released;
  END;
END
-- ;;
-- distlock_renew gives a live claim a new TTL. The answer is + (renewed), n (not held) or b (broken,
-- with the reason). With p_set the claim gets a new value, and with p_keep it becomes a record. A
-- late renewal of a record changes nothing.
CREATE PROCEDURE distlock_renew(
  p_key VARBINARY(512), p_owner VARBINARY(32), p_ttl BIGINT, p_set TINYINT, p_value MEDIUMBLOB, p_keep TINYINT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_entries BIGINT;
  DECLARE v_answer VARCHAR(1) DEFAULT 'n';
  DECLARE v_slot VARBINARY(32);
  DECLARE v_broken MEDIUMBLOB;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    IF (p_ttl > 0) IS NOT TRUE THEN
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'distlock: p_ttl must be above 0';
    END IF;
    START TRANSACTION;
    SELECT entries INTO v_entries FROM distlock_claim WHERE lock_key = p_key AND slot = '' FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    SELECT slot, broken INTO v_slot, v_broken FROM distlock_claim WHERE lock_key = p_key
      AND slot IN ('', p_owner) AND owner = p_owner AND ends > v_now FOR UPDATE;
    IF v_broken IS NOT NULL THEN
      SET v_answer = 'b';
    ELSEIF v_slot IS NOT NULL THEN
      SET v_answer = '+';
      UPDATE distlock_claim SET ends = v_now + p_ttl, value = IF(p_set, p_value, value), kept = kept OR p_keep
        WHERE lock_key = p_key AND slot = v_slot AND (kept = 0 OR p_keep);
      IF p_keep THEN
        UPDATE distlock_claim SET news = news + 1, records = records + 1 WHERE lock_key = p_key AND slot = '';
      END IF;
      IF v_entries > 0 THEN -- they are counted only if one may have ended
        SELECT IF(q.earliest > v_now, q.entries,
            (SELECT COUNT(*) FROM distlock_queue e WHERE e.lock_key = q.lock_key AND e.ends > v_now))
          INTO v_entries FROM distlock_claim q WHERE q.lock_key = p_key AND q.slot = '';
      END IF;
    END IF;
    COMMIT;
    SELECT v_answer AS answer, v_entries AS behind, v_broken AS reason;
  END;
END
-- ;;
-- distlock_renew_all renews many claims. p_list is a JSON array of [index, key, owner, TTL], sorted
-- by key and owner, with key and owner in hex. It returns an answer of distlock_renew for each
-- index. Two joins, because the claim is in the row of the key or in its own: each finds its row by
-- the whole primary key.
CREATE PROCEDURE distlock_renew_all(p_list LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_locked BIGINT;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION;
    SELECT COUNT(*) INTO v_locked FROM JSON_TABLE(p_list, '$[*]' COLUMNS (
        k VARCHAR(1024) PATH '$[1]', o VARCHAR(64) PATH '$[2]')) j
      STRAIGHT_JOIN distlock_claim q ON q.lock_key = UNHEX(j.k) AND q.slot = ''
      LEFT JOIN distlock_claim c ON c.lock_key = UNHEX(j.k) AND c.slot = UNHEX(j.o) FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    UPDATE JSON_TABLE(p_list, '$[*]' COLUMNS (
        k VARCHAR(1024) PATH '$[1]', o VARCHAR(64) PATH '$[2]', t BIGINT PATH '$[3]')) j
      STRAIGHT_JOIN distlock_claim c ON c.lock_key = UNHEX(j.k) AND c.slot = ''
      SET c.ends = v_now + j.t
      WHERE c.owner = UNHEX(j.o) AND c.ends > v_now AND c.broken IS NULL AND c.kept = 0;
    UPDATE JSON_TABLE(p_list, '$[*]' COLUMNS (
        k VARCHAR(1024) PATH '$[1]', o VARCHAR(64) PATH '$[2]', t BIGINT PATH '$[3]')) j
      STRAIGHT_JOIN distlock_claim c ON c.lock_key = UNHEX(j.k) AND c.slot = UNHEX(j.o)
      SET c.ends = v_now + j.t
      WHERE c.ends > v_now AND c.broken IS NULL AND c.kept = 0;
    SELECT j.i AS number,
        CASE WHEN q.owner = UNHEX(j.o) AND q.ends > v_now THEN IF(q.broken IS NULL, '+', 'b')
          WHEN c.ends > v_now THEN IF(c.broken IS NULL, '+', 'b') ELSE 'n' END AS answer,
        IF(q.entries = 0 OR q.earliest > v_now, q.entries,
          (SELECT COUNT(*) FROM distlock_queue e WHERE e.lock_key = q.lock_key AND e.ends > v_now)) AS behind,
        IF(q.owner = UNHEX(j.o) AND q.ends > v_now, q.broken, IF(c.ends > v_now, c.broken, NULL)) AS reason
      FROM JSON_TABLE(p_list, '$[*]' COLUMNS (
        i INT PATH '$[0]', k VARCHAR(1024) PATH '$[1]', o VARCHAR(64) PATH '$[2]')) j
      LEFT JOIN distlock_claim q ON q.lock_key = UNHEX(j.k) AND q.slot = ''
      LEFT JOIN distlock_claim c ON c.lock_key = UNHEX(j.k) AND c.slot = UNHEX(j.o);
    COMMIT;
  END;
END
-- ;;
-- distlock_break ends the claims on a key whose fence is at most p_up_to, or all of them if p_up_to
-- is 0, and returns them. The reason stays for as long as the claim would have lived, at most an
-- hour.
CREATE PROCEDURE distlock_break(p_key VARBINARY(512), p_up_to BIGINT, p_reason MEDIUMBLOB)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_entries BIGINT;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    IF (p_reason IS NOT NULL AND p_up_to >= 0) IS NOT TRUE THEN
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'distlock: p_up_to must be 0 or above, and p_reason not null';
    END IF;
    START TRANSACTION;
    SELECT entries INTO v_entries FROM distlock_claim WHERE lock_key = p_key AND slot = '' FOR UPDATE;
    IF v_entries IS NULL THEN
      SET p_up_to = -1; -- there was no row to lock: a claim that is granted meanwhile stays
    END IF;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    SELECT lock_key, 0 AS waiting, owner, weight, `limit`, fence, v_now - since AS held,
        ends - v_now AS `left`, kept, holder, task, meta, value
      FROM distlock_claim WHERE lock_key = p_key AND broken IS NULL AND ends > v_now
        AND (p_up_to = 0 OR fence <= p_up_to) ORDER BY granted FOR UPDATE;
    UPDATE distlock_claim SET broken = p_reason, ends = LEAST(ends, v_now + 3600000000)
      WHERE lock_key = p_key AND broken IS NULL AND ends > v_now
        AND (p_up_to = 0 OR fence <= p_up_to);
    IF ROW_COUNT() > 0 THEN
      UPDATE distlock_claim SET news = news + 1 WHERE lock_key = p_key AND slot = '';
      IF v_entries > 0 THEN
        CALL distlock_promote(p_key, v_now, 9223372036854775807);
      END IF;
    END IF;
    COMMIT;
  END;
END
-- ;;
-- distlock_sweep deletes the ended rows of the next p_step keys after p_after. If the clock has
-- passed the last fence of an idle key by ten minutes, it deletes the key too. The row fence of
-- distlock_meta keeps the highest fence of all deleted keys, because the clock may be set back. It
-- is committed before a key is deleted. distlock_sweep returns the key at which it stopped, or null
-- if no key is left. It skips keys that a transaction has locked.
CREATE PROCEDURE distlock_sweep(p_after VARBINARY(512), p_step INT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_last, v_seen, v_floor BIGINT;
  DECLARE v_key, v_stop VARBINARY(512);
  DECLARE v_more INT DEFAULT 1;
  DECLARE v_keys CURSOR FOR SELECT q.lock_key FROM distlock_claim q
    WHERE q.lock_key > p_after AND q.lock_key <= v_stop AND q.slot = ''
      AND (q.last + 600000000 < v_now OR q.ends > 0 AND q.ends <= v_now
        OR q.entries > 0 AND q.earliest <= v_now
        OR q.others > 0 AND EXISTS (SELECT 1 FROM distlock_claim c
          WHERE c.lock_key = q.lock_key AND c.slot > '' AND c.ends <= v_now));
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_more = 0;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    SELECT MAX(lock_key), COUNT(*) INTO v_stop, v_seen FROM (SELECT lock_key FROM distlock_claim
      WHERE lock_key > p_after AND slot = '' ORDER BY lock_key LIMIT p_step) k;
    SELECT MAX(last) INTO v_floor FROM distlock_claim
      WHERE lock_key > p_after AND lock_key <= v_stop AND slot = '' AND last + 600000000 < v_now;
    IF v_floor > 0 THEN
      START TRANSACTION;
      UPDATE distlock_meta SET value = v_floor WHERE name = 'fence' AND CAST(value AS SIGNED) < v_floor;
      COMMIT;
    END IF;
    OPEN v_keys;
    SET v_more = 1;
    keys_: LOOP
      FETCH v_keys INTO v_key;
      IF v_more = 0 THEN
        LEAVE keys_;
      END IF;
      SET v_last = NULL;
      SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
      START TRANSACTION;
      SELECT last INTO v_last FROM distlock_claim WHERE lock_key = v_key AND slot = '' FOR UPDATE SKIP LOCKED;
      IF v_last IS NOT NULL THEN
        DELETE FROM distlock_queue WHERE lock_key = v_key AND ends <= v_now;
        DELETE FROM distlock_claim WHERE lock_key = v_key AND slot > '' AND ends <= v_now;
        UPDATE distlock_claim SET others = others - ROW_COUNT(), ends = IF(ends <= v_now, 0, ends)
          WHERE lock_key = v_key AND slot = '';
        UPDATE distlock_claim q SET
            q.entries = (SELECT COUNT(*) FROM distlock_queue e WHERE e.lock_key = v_key),
            q.earliest = COALESCE((SELECT MIN(e.ends) FROM distlock_queue e WHERE e.lock_key = v_key), 0)
          WHERE q.lock_key = v_key AND q.slot = '' AND q.entries > 0;
        DELETE FROM distlock_claim WHERE lock_key = v_key AND slot = '' AND last + 600000000 < v_now
          AND last <= v_floor AND ends = 0 AND others = 0 AND entries = 0;
      END IF;
      COMMIT;
      SET v_more = 1;
    END LOOP;
    CLOSE v_keys;
    SELECT IF(v_seen < p_step, NULL, v_stop) AS stopped;
  END;
END
-- ;;
-- distlock_acquire_lock acquires a lock by name, for this many seconds. The answer is + if the holder
-- now has the lock, = if it had the lock already and now has it for longer, and - if another holder
-- has it. The holder is only a text: use a name that nobody else uses, such as host and process.
CREATE PROCEDURE distlock_acquire_lock(p_name VARBINARY(255), p_holder VARBINARY(255), p_seconds DOUBLE)
SQL SECURITY INVOKER
BEGIN
  CALL distlock_acquire(IF(LEFT(p_name, 1) = '~', CONCAT('~', p_name), p_name),
    UNHEX(SHA2(CONCAT('sql/', p_holder), 256)), CEIL(p_seconds * 1000000), 1073741824, 1073741824, 0, 0,
    p_holder, '', NULL, NULL);
END
-- ;;
-- distlock_release_lock releases a lock. It returns 1 if the holder had it.
CREATE PROCEDURE distlock_release_lock(p_name VARBINARY(255), p_holder VARBINARY(255))
SQL SECURITY INVOKER
BEGIN
  CALL distlock_release(IF(LEFT(p_name, 1) = '~', CONCAT('~', p_name), p_name),
    UNHEX(SHA2(CONCAT('sql/', p_holder), 256)));
END
