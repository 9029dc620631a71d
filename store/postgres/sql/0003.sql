-- The tables. @schema@ is the quoted name of the schema, @channel@ the name of its channel as a
-- literal, and @seed@ a number that separates its keys from the keys of other schemas.
-- docs/layout.md describes the tables, docs/postgres.md the functions.
--
-- Keys, owners, holders, tasks, and the names and values of metadata are text. PostgreSQL stores
-- only valid UTF-8 without zero bytes. A text that PostgreSQL cannot store, or that begins with \x,
-- is stored as \x and the hex digits of its bytes.

create table @schema@.meta (
  name  text primary key,
  value text not null
);

-- The last fence of each key, and the sum of its claims if they are many. A transaction writes here
-- only while it has the key's advisory lock (see enter).
create table @schema@.key (
  key   text collate "C" primary key,
  fence bigint not null, -- the highest fencing token granted so far
  used  bigint, -- the sum of the weights of all claims, before those in freed; null: not known
  soon  timestamptz -- no claim ends before; null if used is null
) with (fillfactor = 50); -- leaves space for a new fence on the same page, so no index changes

create table @schema@.claim (
  key     text collate "C",
  owner   text collate "C",
  weight  bigint not null,
  "limit" bigint not null,
  fence   bigint not null,
  granted bigint not null, -- the fence at the time of the grant: the order of the claims
  holder  text not null,
  task    text not null,
  meta    jsonb not null,
  value   bytea, -- null: none
  kept    boolean not null default false,
  since   timestamptz not null,
  ends    timestamptz not null,
  broken  text, -- not null: the claim was ended by force, for this reason
  primary key (key, owner)
) with (fillfactor = 70); -- leaves space for a renewal on the same page

create table @schema@.queue (
  key     text collate "C",
  owner   text collate "C",
  number  bigint generated always as identity, -- the order of the queue
  weight  bigint not null,
  "limit" bigint not null,
  holder  text not null,
  task    text not null,
  meta    jsonb not null,
  value   bytea,
  channel text not null, -- where its process listens; '': nowhere
  since   timestamptz not null,
  ends    timestamptz not null,
  ttl     interval, -- the requested queue_ttl; null: unknown
  primary key (key, owner)
) with (fillfactor = 50); -- leaves space for the next attempt on the same page

-- The queue in its order. Only statements with the condition number > 0 use it: see functions.sql.
-- No index has the column ends: a new end stays on the same page.
create index queue_order on @schema@.queue (key, number) where number > 0;

-- Changes of claims by transactions without the key's advisory lock. The next transaction that has
-- the lock brings used and soon of the key up to date (see usage).
create table @schema@.freed (
  key    text collate "C" not null,
  weight bigint not null, -- of the claim that ended, or by which a weight was lowered
  ends   timestamptz -- the new end of a claim that ends sooner; null: none
);
create index freed_key on @schema@.freed (key);

-- Keys that a process watches without a claim or a queue entry.
create table @schema@.observer (
  key  text collate "C" primary key,
  ends timestamptz not null
);

-- The key at which the last sweep stopped.
create table @schema@.sweeper (after text collate "C" not null);

-- A claim or a queue entry, as functions return it. Held and left are microseconds.
create type @schema@.claim_info as (
  key text, owner text, weight bigint, "limit" bigint, fence bigint, holder text, task text, meta jsonb, value bytea,
  held bigint, "left" bigint, waiting boolean, kept boolean
);
