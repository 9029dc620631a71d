-- The tables. Every time is in microseconds since 1970, by the server's clock in UTC. Keys, owners,
-- holders and tasks are bytes. docs/layout.md describes the tables, docs/mysql.md the procedures.
-- ;;
CREATE TABLE IF NOT EXISTS distlock_meta (
  name  VARBINARY(64) PRIMARY KEY,
  value VARBINARY(255) NOT NULL
) ENGINE=InnoDB;
-- ;;
-- The row of a key with the empty slot is the lock of the key: a procedure locks it first, and
-- reads the clock and the claims after that. The row also has the key's counters, and the claim of
-- an exclusive holder. So an exclusive claim costs one write of one row. Claims of lower weight have
-- rows of their own, and their slot is their owner.
CREATE TABLE IF NOT EXISTS distlock_claim (
  lock_key VARBINARY(512) NOT NULL,
  slot     VARBINARY(32) NOT NULL,
  last     BIGINT NOT NULL DEFAULT 0,  -- the highest fencing token granted so far
  news     BIGINT NOT NULL DEFAULT 0,  -- counts the events that may let an owner in
  records  BIGINT NOT NULL DEFAULT 0,  -- counts the claims that became records
  others   BIGINT NOT NULL DEFAULT 0,  -- number of rows of the key with another slot
  entries  BIGINT NOT NULL DEFAULT 0,  -- number of rows of the key in the queue
  earliest BIGINT NOT NULL DEFAULT 0,  -- no queue entry ends before this
  tail     BIGINT NOT NULL DEFAULT 0,  -- number of the newest queue entry
  attempt  BIGINT NOT NULL DEFAULT 0,  -- the call that granted the claim; 0: a procedure
  owner    VARBINARY(32) NOT NULL DEFAULT '', -- SHA-256 of the owner
  weight   BIGINT NOT NULL DEFAULT 0,
  `limit`  BIGINT NOT NULL DEFAULT 0,
  fence    BIGINT NOT NULL DEFAULT 0,
  granted  BIGINT NOT NULL DEFAULT 0,  -- the fence at the time of the grant: the order of the claims
  since    BIGINT NOT NULL DEFAULT 0,
  ends     BIGINT NOT NULL DEFAULT 0,  -- 0: no claim; the columns are those of the last one
  kept     TINYINT NOT NULL DEFAULT 0,
  pushed   TINYINT NOT NULL DEFAULT 0, -- granted to a waiter that has not called since
  broken   MEDIUMBLOB,                 -- not null: the claim was ended by force, for this reason
  holder   VARBINARY(1024) NOT NULL DEFAULT '',
  task     VARBINARY(1024) NOT NULL DEFAULT '',
  meta     MEDIUMBLOB,                 -- a JSON object; null: none
  value    MEDIUMBLOB,                 -- null: none
  PRIMARY KEY (lock_key, slot)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;
-- ;;
CREATE TABLE IF NOT EXISTS distlock_queue (
  lock_key VARBINARY(512) NOT NULL,
  number   BIGINT NOT NULL, -- the order of the queue
  owner    VARBINARY(32) NOT NULL,
  weight   BIGINT NOT NULL,
  `limit`  BIGINT NOT NULL,
  since    BIGINT NOT NULL,
  ends     BIGINT NOT NULL,
  ttl      BIGINT NOT NULL, -- the requested queue TTL
  holder   VARBINARY(1024) NOT NULL,
  task     VARBINARY(1024) NOT NULL,
  meta     MEDIUMBLOB,
  value    MEDIUMBLOB,
  PRIMARY KEY (lock_key, number),
  UNIQUE KEY (lock_key, owner)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;
