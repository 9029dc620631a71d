-- The first layout. @schema@ is the quoted name of the schema, @channel@ the name of its channel as a literal, @seed@ a number that
-- tells its keys from those of other schemas. docs/layout.md describes the tables, docs/postgres.md the functions.
--
-- A name is text and must be storable: no zero byte, valid UTF-8. A text that is not, or that begins with \x, is kept as \x and the
-- hex digits of its bytes. That goes for keys, owners, holders, parties, and names and values of metadata.

create table @schema@.meta (
  name  text primary key,
  value text not null
);

-- What is known of a key beside its claims. Only the holder of the key's lock (see enter) writes here.
create table @schema@.key (
  key   text collate "C" primary key,
  fence bigint not null -- the highest that was given out
) with (fillfactor = 50); -- so that a new fence finds room on the same page, and no index changes

create table @schema@.claim (
  key     text collate "C",
  owner   text collate "C",
  weight  bigint not null,
  "limit" bigint not null,
  fence   bigint not null,
  granted bigint not null, -- the fence at the grant: the order of claims
  holder  text not null,
  party   text not null,
  meta    jsonb not null,
  value   bytea, -- null: none
  kept    boolean not null default false,
  since   timestamptz not null,
  ends    timestamptz not null,
  broken  text, -- not null: it was ended, for this reason
  primary key (key, owner)
) with (fillfactor = 70); -- so that a renewal finds room on the same page

create table @schema@.place (
  key     text collate "C",
  owner   text collate "C",
  number  bigint generated always as identity, -- the order of the line
  weight  bigint not null,
  "limit" bigint not null,
  holder  text not null,
  party   text not null,
  meta    jsonb not null,
  value   bytea,
  channel text not null, -- where its process listens; '': nowhere
  since   timestamptz not null,
  ends    timestamptz not null,
  primary key (key, owner)
);

-- Keys that somebody watches without a claim.
create table @schema@.onlooker (
  key  text collate "C" primary key,
  ends timestamptz not null
);

-- How far the sweep has come.
create table @schema@.sweeper (after text collate "C" not null);

-- What is told of a claim or a place. Held and left are microseconds.
create type @schema@.told as (
  key text, owner text, weight bigint, "limit" bigint, fence bigint, holder text, party text, meta jsonb, value bytea,
  held bigint, "left" bigint, waiting boolean, kept boolean
);
