-- The functions. Each is one round trip, and none that is called from outside waits for longer than its lock_timeout.
--
-- Acquire has a key to itself before it reads the clock and the claims: it takes a lock of the transaction on the key's
-- number. Renew never waits for that lock, nor does release if the claim is there: a client that idles in its transaction keeps nobody from
-- renewing.
-- A caller's search_path changes nothing: functions have their own, and those that are one expression are read when they are made. To set it
-- takes a part of the time of a call, so ask, ask_all and release, which are called most, do so only if the caller has not.
-- Every statement of a function sees what was committed before it began, and no earlier: that is so in READ COMMITTED, and
-- the other levels are refused.

-- How long a place was asked for. It is null in those that older functions wrote.
alter table @schema@.place add column if not exists life interval;

-- microseconds is a duration as a number.
create or replace function @schema@.microseconds(d interval) returns bigint
language sql immutable parallel safe
return (extract(epoch from d) * 1000000)::bigint;

-- near is a time, or the nearest to it that a program in Go can count from now: a Duration ends after 292 years. Times that others wrote may lie
-- further off, or be infinite. PostgreSQL 14 cannot read so many microseconds: it is written in hours, here and below.
create or replace function @schema@.near(t timestamptz, now timestamptz) returns timestamptz
language sql stable parallel safe
return least(greatest(t, now - interval '2562047:47:16.854775'), now + interval '2562047:47:16.854775');

-- is_life tells whether something may live for so long: what is longer than 292 years, programs in Go cannot count.
create or replace function @schema@.is_life(d interval) returns boolean
language sql immutable parallel safe
return d > interval '0' and d <= interval '2562047:47:16.854776';

-- is_key tells whether a text may be a key: 512 bytes, or their hex digits.
create or replace function @schema@.is_key(key text) returns boolean
language sql immutable parallel safe
return key <> '' and (octet_length(key) <= 512 or starts_with(key, '\x') and octet_length(key) <= 1026);

-- is_claim tells whether a claim does no harm to others: it takes room, ends, and can be told of. Null is no.
-- It becomes a part of the expressions that call it, and those are made ready anew in every call. So it is short, and acquire looks at the rest.
create or replace function @schema@.is_claim(key text, owner text, ttl interval, weight bigint, "limit" bigint, meta jsonb) returns boolean
language sql immutable parallel safe
return weight >= 1 and weight <= "limit" and "limit" <= 1073741824 and @schema@.is_life(ttl) and @schema@.is_key(key)
  and owner <> '' and octet_length(owner) <= 1024 and jsonb_typeof(meta) = 'object';

-- wrong says which argument of acquire breaks a rule.
create or replace function @schema@.wrong(
  key text, owner text, ttl interval, weight bigint, "limit" bigint, place interval, floor bigint,
  holder text, party text, meta jsonb, value bytea, channel text, wait boolean
) returns text language sql immutable parallel safe
return case
  when @schema@.is_key(key) is not true then 'key must have 1 to 512 bytes'
  when (octet_length(owner) between 1 and 1024) is not true then 'owner must have 1 to 1024 bytes'
  when @schema@.is_life(ttl) is not true then 'ttl must be above 0 and at most 292 years'
  when ("limit" between 1 and 1073741824) is not true then 'limit must be 1 to 1073741824'
  when (weight between 1 and "limit") is not true then 'weight must be 1 to the limit'
  when place <> interval '0' and not @schema@.is_life(place) then 'place must be null, or 0 to 292 years'
  when (floor between 0 and 9007199254740863) is not true then 'floor must be 0 to 9007199254740863'
  when holder is null then 'holder must not be null'
  when party is null then 'party must not be null'
  when (jsonb_typeof(meta) = 'object') is not true then 'meta must be a JSON object'
  when octet_length(value) > 65537 then 'value must have at most 65537 bytes'
  when (octet_length(channel) <= 63) is not true then 'channel must have at most 63 bytes'
  else 'wait must not be null'
end;

-- storable is a text as keys, owners and holders are kept.
create or replace function @schema@.storable(plain text) returns text
language sql immutable parallel safe
return case when starts_with(plain, '\x') then '\x' || encode(convert_to(plain, 'UTF8'), 'hex') else plain end;

-- lock_key is the key of the lock with a name: see docs/layout.md.
create or replace function @schema@.lock_key(name text) returns text
language sql immutable parallel safe
return @schema@.storable(case when starts_with(name, '~') then '~' || name else name end);

-- is_hex tells whether a text is the hex digits of bytes, and not something that others wrote.
create or replace function @schema@.is_hex(stored text) returns boolean
language sql immutable parallel safe
return stored ~ '^\\x([0-9a-fA-F]{2})*$';

-- readable is a text for people.
create or replace function @schema@.readable(stored text) returns text
language plpgsql set search_path = pg_catalog immutable parallel safe as $$
begin
  if not @schema@.is_hex(stored) then
    return stored;
  end if;
  begin
    return convert_from(stored::bytea, 'UTF8');
  exception when others then
    return encode(stored::bytea, 'escape');
  end;
end
$$;

-- lock_name is the name of the lock with a key, for people. Keys of other kinds are shown as they are.
create or replace function @schema@.lock_name(key text) returns text
language sql immutable parallel safe
return regexp_replace(@schema@.readable(key), '^~~', '~');

-- tag is how an owner is shown.
create or replace function @schema@.tag(owner text) returns text
language sql immutable parallel safe
return left(encode(sha256(case when @schema@.is_hex(owner) then owner::bytea else convert_to(owner, 'UTF8') end), 'hex'), 8);

-- enter waits for a key. It returns false if somebody has it for too long, such as a client that idles in its transaction.
create or replace function @schema@.enter(number bigint) returns boolean
language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
begin
  perform pg_advisory_xact_lock(number);
  return true;
exception when lock_not_available then
  return false;
end
$$;

-- tell wakes whoever listens on a channel. A queue that is nearly full is left alone, since it would make the caller fail.
create or replace function @schema@.tell(channel text, message text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if channel <> '' and pg_notification_queue_usage() < 0.9 then
    perform pg_notify(channel, message);
  end if;
end
$$;

-- tell_key wakes all who watch a key ("k"), or only those who watch it without a claim ("o").
create or replace function @schema@.tell_key(kind text, key text) returns void
language sql as $$
  select @schema@.tell(@channel@, kind || left(encode(sha256(convert_to(key, 'UTF8')), 'hex'), 16))
$$;

-- promote grants those at the head of the line who have room, for the rest of their places, and tells them. If the clock was set back, that is
-- no longer than they asked for: they may have died. The caller has the key.
create or replace function @schema@.promote(key text) returns void
language plpgsql set search_path = pg_catalog as $$
#variable_conflict use_column
declare
  now timestamptz := clock_timestamp();
  used bigint;
  over boolean;
  head @schema@.place;
  number bigint;
begin
  for step in 1..100 loop
    select p.* into head from @schema@.place p where p.key = promote.key and p.ends > now order by p.number limit 1;
    if not found then
      return;
    end if;
    if used is null then
      select coalesce(sum(c.weight), 0), bool_or(c.ends <= now) into used, over from @schema@.claim c where c.key = promote.key and c.broken is null;
      if over then -- what is still there after this lives, or counts as if it did
        perform @schema@.clear(promote.key, now);
        select coalesce(sum(c.weight), 0) into used from @schema@.claim c where c.key = promote.key and c.broken is null;
      end if;
    end if;
    if used + head.weight > head."limit" then
      return;
    end if;
    update @schema@.key k set fence = greatest(k.fence + 128, @schema@.microseconds(now - timestamptz 'epoch'))
      where k.key = promote.key and k.fence <= 9007199254740736 returning k.fence into number;
    if not found then
      return; -- it shall ask, and be told that no fences are left
    end if;
    -- It may have asked again meanwhile without the key: the claim lives as long as the place does now.
    delete from @schema@.place p where p.key = promote.key and p.owner = head.owner and p.weight = head.weight and p."limit" = head."limit"
      returning p.* into head;
    if not found then
      continue; -- it asked for something else, or is gone
    end if;
    delete from @schema@.claim c where c.key = promote.key and c.owner = head.owner; -- it was broken
    insert into @schema@.claim (key, owner, weight, "limit", fence, granted, holder, party, meta, value, since, ends)
      values (promote.key, head.owner, head.weight, head."limit", number, number, head.holder, head.party, head.meta, head.value, now,
        least(head.ends, now + head.life));
    used := used + head.weight;
    perform @schema@.tell(head.channel, left(encode(sha256(convert_to(head.owner, 'UTF8')), 'hex'), 32) || ' ' || number || ' ' ||
      (select count(*) from @schema@.place p where p.key = promote.key and p.ends > now));
  end loop;
end
$$;

-- acquire grants or refuses one claim. The answer is
--   +  granted          -  refused           =  granted again
--   i  the floor is too far ahead            f  no fences are left
--   b  others have the key or the claim now, and wait is false
-- Retry is in microseconds.
create or replace function @schema@.acquire(
  key text, owner text, ttl interval,
  weight bigint default 1073741824, "limit" bigint default 1073741824,
  place interval default null, floor bigint default 0,
  holder text default '', party text default '', meta jsonb default '{}', value bytea default null,
  channel text default '', wait boolean default true,
  out answer text, out fence bigint, out used bigint, out ahead bigint, out behind bigint, out retry bigint, out blocker @schema@.told
) language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
#variable_conflict use_column
declare
  number constant bigint := hashtextextended(acquire.key, @seed@);
  mine boolean; -- the key is ours alone
  now timestamptz;
  micros bigint;
  last bigint;
  own @schema@.claim;
  spot bigint; -- our place in line
  room boolean;
begin
  -- The name of a channel that is longer than the server takes would make the release fail that tells it.
  if (@schema@.is_claim(acquire.key, acquire.owner, acquire.ttl, acquire.weight, acquire."limit", acquire.meta)
      and (acquire.place is null or acquire.place = interval '0' or @schema@.is_life(acquire.place))
      and acquire.floor between 0 and 9007199254740863 and acquire.holder is not null and acquire.party is not null
      and (acquire.value is null or octet_length(acquire.value) <= 65537) and octet_length(acquire.channel) <= 63
      and acquire.wait is not null) is not true then
    raise exception 'distlock: %', @schema@.wrong(acquire.key, acquire.owner, acquire.ttl, acquire.weight, acquire."limit", acquire.place,
        acquire.floor, acquire.holder, acquire.party, acquire.meta, acquire.value, acquire.channel, acquire.wait)
      using errcode = 'invalid_parameter_value';
  end if;
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'distlock: the transaction is %', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state', hint = 'Call it in a READ COMMITTED transaction.';
  end if;
  mine := pg_try_advisory_xact_lock(number);
  if not mine then
    if not acquire.wait then
      answer := 'b';
      return;
    end if;
    mine := @schema@.enter(number);
  end if;
  if not mine then
    -- Whoever has the key may be granting it to us, and has its hands on our place then. When that is over, the claim is seen.
    perform from @schema@.place p where p.key = acquire.key and p.owner = acquire.owner for update;
  end if;
  now := clock_timestamp();
  micros := @schema@.microseconds(now - timestamptz 'epoch');
  select k.fence into last from @schema@.key k where k.key = acquire.key;
  if not found then -- it may have been forgotten: see sweep
    select k.fence into last from @schema@.key k where k.key = '';
  end if;
  if acquire.floor > greatest(micros, last) + 3600000000 then
    answer := 'i';
    return;
  end if;

  perform @schema@.clear(acquire.key, now);
  select c.* into own from @schema@.claim c
    where c.key = acquire.key and c.owner = acquire.owner and c.broken is null and c.ends > now;
  if found then
    if not acquire.wait then
      perform from @schema@.claim c where c.key = acquire.key and c.owner = acquire.owner for update skip locked;
      if not found then
        answer := 'b';
        return;
      end if;
    end if;
    update @schema@.claim c
      set ends = case when c.kept then c.ends else clock_timestamp() + acquire.ttl end, -- a record lives for as long as it was kept for
        weight = least(c.weight, acquire.weight), fence = greatest(c.fence, acquire.floor)
      where c.key = acquire.key and c.owner = acquire.owner and c.broken is null and c.ends > clock_timestamp()
      returning c.fence into fence;
    if found then
      if fence > own.fence and mine then
        update @schema@.key k set fence = greatest(k.fence, acquire.fence) where k.key = acquire.key;
      elsif fence > own.fence then
        raise exception 'distlock: others have the key' using errcode = 'lock_not_available';
      end if;
      answer := '=';
      delete from @schema@.place p where p.key = acquire.key and p.owner = acquire.owner; -- or it would be granted again after the release
      select sum(c.weight) into used from @schema@.claim c where c.key = acquire.key and c.broken is null;
      select count(*) into behind from @schema@.place p where p.key = acquire.key;
      if acquire.weight < own.weight and behind > 0 then
        if mine then
          perform @schema@.promote(acquire.key);
        else
          perform @schema@.tell_key('k', acquire.key);
        end if;
      end if;
      return;
    end if;
  end if;

  -- What clear has left lives, or counts as if it did.
  select coalesce(sum(c.weight), 0) into used from @schema@.claim c where c.key = acquire.key and c.broken is null;
  select p.number into spot from @schema@.place p where p.key = acquire.key and p.owner = acquire.owner;
  select count(*) into ahead from @schema@.place p
    where p.key = acquire.key and p.owner <> acquire.owner and (spot is null or p.number < spot);
  room := used + acquire.weight <= acquire."limit";
  if mine and room and ahead > 0 then
    -- If the clock was set back, those ahead have no more than they asked for: they may have died.
    update @schema@.place p set ends = now + p.life from (
      select l.owner from @schema@.place l where l.key = acquire.key and l.ends > now + l.life for update skip locked
    ) late where p.key = acquire.key and p.owner = late.owner;
  end if;
  if mine and room and ahead = 0 then
    fence := greatest(last + 128, micros, acquire.floor);
    if fence > 9007199254740864 then
      answer := 'f';
      return;
    end if;
    insert into @schema@.key as k (key, fence) values (acquire.key, acquire.fence)
      on conflict on constraint key_pkey do update set fence = excluded.fence;
    delete from @schema@.place p where p.key = acquire.key and p.owner = acquire.owner;
    delete from @schema@.claim c where c.key = acquire.key and c.owner = acquire.owner; -- it was broken
    insert into @schema@.claim (key, owner, weight, "limit", fence, granted, holder, party, meta, value, since, ends)
      values (acquire.key, acquire.owner, acquire.weight, acquire."limit", acquire.fence, acquire.fence, acquire.holder, acquire.party,
        acquire.meta, acquire.value, now, now + acquire.ttl);
    answer := '+';
    used := used + acquire.weight;
    select count(*) into behind from @schema@.place p where p.key = acquire.key;
    if behind > 0 then
      perform @schema@.promote(acquire.key);
    end if;
    return;
  end if;

  answer := '-';
  if acquire.place > interval '0' then
    insert into @schema@.place as p (key, owner, weight, "limit", holder, party, meta, value, channel, since, ends, life)
      values (acquire.key, acquire.owner, acquire.weight, acquire."limit", acquire.holder, acquire.party, acquire.meta, acquire.value,
        acquire.channel, now, now + acquire.place, acquire.place)
      on conflict on constraint place_pkey do update set weight = excluded.weight, "limit" = excluded."limit", holder = excluded.holder,
        party = excluded.party, meta = excluded.meta, value = excluded.value, channel = excluded.channel, ends = excluded.ends, life = excluded.life
      returning p.number into spot;
  end if;
  select count(*) into behind from @schema@.place p where p.key = acquire.key and p.number > spot; -- 0 without a place
  retry := @schema@.microseconds(@schema@.near(least(
      (select min(c.ends) from @schema@.claim c where c.key = acquire.key and c.broken is null and not room),
      (select min(p.ends) from @schema@.place p where p.key = acquire.key and (spot is null or p.number < spot))), now) - now);
  retry := greatest(retry, 1000); -- what is over and still there is on its way out
  if not room then
    select t.* into blocker from @schema@.claims_of(acquire.key, acquire.key, now) t limit 1;
  elsif ahead > 0 then
    select t.* into blocker from @schema@.places_of(acquire.key, acquire.key, now) t limit 1;
  else
    -- Somebody's transaction has the key, and what it does there cannot be seen yet.
    retry := 0;
    blocker := row(acquire.key, '', 1073741824, 1073741824, 0, 'a transaction that is open' ||
      coalesce((select ': process ' || string_agg(l.pid::text, ', ') || ' of the server' from pg_locks l
        where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.database = (select d.oid from pg_database d where d.datname = current_database())
          and (l.classid::bigint << 32 | l.objid::bigint) = number), ''),
      '', '{}', null, 0, 0, false, false);
  end if;
end
$$;

-- ask is acquire for programs that ask often: the answer is the fence, or the row of acquire as JSON. Most calls find a key on which nothing
-- stands, and one text costs less to return than many columns.
create or replace function @schema@.ask(
  key text, owner text, ttl interval, weight bigint, "limit" bigint, place interval, floor bigint,
  holder text, party text, meta jsonb, value bytea, channel text, wait boolean
) returns text language plpgsql as $$
#variable_conflict use_column
declare
  now timestamptz;
  micros bigint;
  last bigint;
begin
  if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) 'pg_catalog' then
    return @schema@.ask_anywhere(ask.key, ask.owner, ask.ttl, ask.weight, ask."limit", ask.place, ask.floor, ask.holder, ask.party, ask.meta,
      ask.value, ask.channel, ask.wait);
  end if;
  -- What is wrong is left to acquire, which says so.
  if @schema@.is_claim(ask.key, ask.owner, ask.ttl, ask.weight, ask."limit", ask.meta)
    and pg_try_advisory_xact_lock(hashtextextended(ask.key, @seed@)) and current_setting('transaction_isolation') = 'read committed' then
    now := clock_timestamp();
    micros := @schema@.microseconds(now - timestamptz 'epoch');
    update @schema@.key k set fence = greatest(k.fence + 128, micros, ask.floor)
      where k.key = ask.key and greatest(k.fence + 128, micros, ask.floor) <= 9007199254740864
        and ask.floor <= greatest(k.fence, micros) + 3600000000
        and not exists (select from @schema@.claim c where c.key = ask.key)
        and not exists (select from @schema@.place p where p.key = ask.key)
      returning k.fence into last;
    -- A key that was forgotten, and a clock that was set back since, are left to acquire.
    if last is null and ask.floor <= micros
      and not exists (select from @schema@.key k where k.key in (ask.key, '') and (k.key <> '' or k.fence + 128 > micros)) then
      insert into @schema@.key as k (key, fence) select ask.key, micros
        where not exists (select from @schema@.claim c where c.key = ask.key)
          and not exists (select from @schema@.place p where p.key = ask.key)
        returning k.fence into last;
    end if;
    if last is not null then
      insert into @schema@.claim (key, owner, weight, "limit", fence, granted, holder, party, meta, value, since, ends)
        values (ask.key, ask.owner, ask.weight, ask."limit", last, last, ask.holder, ask.party, ask.meta, ask.value, now, now + ask.ttl);
      return last;
    end if;
  end if;
  return (select row_to_json(a) from @schema@.acquire(ask.key, ask.owner, ask.ttl, ask.weight, ask."limit", ask.place, ask.floor,
    ask.holder, ask.party, ask.meta, ask.value, ask.channel, ask.wait) a);
end
$$;

-- ask_anywhere is ask for a caller with another search_path.
create or replace function @schema@.ask_anywhere(
  key text, owner text, ttl interval, weight bigint, "limit" bigint, place interval, floor bigint,
  holder text, party text, meta jsonb, value bytea, channel text, wait boolean
) returns text language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
#variable_conflict use_variable
begin
  return @schema@.ask(key, owner, ttl, weight, "limit", place, floor, holder, party, meta, value, channel, wait);
end
$$;

-- ask_all is ask for many claims, with an answer for each, in order. Those on keys on which nothing stands are granted by one statement.
-- The settings of ask_all_anywhere, and subqueries that give one row, keep the planner from reading whole tables for each: it plans once, and may find
-- them empty then.
create or replace function @schema@.ask_all(
  keys text[], owners text[], ttls interval[], weights bigint[], limits bigint[], places interval[], floors bigint[],
  holders text[], parties text[], metas jsonb[], "values" bytea[], channels text[], waits boolean[]
) returns setof text language plpgsql as $$
#variable_conflict use_column
declare
  now timestamptz;
  micros bigint;
  ours boolean[]; -- which keys we have to ourselves
  numbers bigint[]; -- those of the claims that are granted, in order
  fences bigint[];
  at int := 1; -- which of them is next
  granted text;
begin
  if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) 'pg_catalog'
    or pg_catalog.current_setting('lock_timeout') operator(pg_catalog.<>) '200ms'
    or pg_catalog.current_setting('enable_mergejoin') operator(pg_catalog.<>) 'off' then -- whoever sets this one sets them all
    return query select * from @schema@.ask_all_anywhere(ask_all.keys, ask_all.owners, ask_all.ttls, ask_all.weights, ask_all.limits, ask_all.places,
      ask_all.floors, ask_all.holders, ask_all.parties, ask_all.metas, ask_all."values", ask_all.channels, ask_all.waits);
    return;
  end if;
  if current_setting('transaction_isolation') = 'read committed' then
    ours := array(select pg_try_advisory_xact_lock(hashtextextended(k, @seed@)) from unnest(ask_all.keys) k);
    now := clock_timestamp();
    micros := @schema@.microseconds(now - timestamptz 'epoch');
    with free as materialized (
      -- Of two claims on one key the later is left for afterwards, and sees the first. So is what is wrong.
      select w.*, (select k.ctid from @schema@.key k where k.key = w.key collate "C") as row -- null: the key was never used, or long ago
      from unnest(ask_all.keys, ask_all.owners, ask_all.ttls, ask_all.weights, ask_all.limits, ask_all.floors, ask_all.holders, ask_all.parties,
          ask_all.metas, ask_all."values", ours)
        with ordinality as w(key, owner, ttl, weight, "limit", floor, holder, party, meta, value, ours, number)
      where w.ours and array_position(ask_all.keys, w.key) = w.number
        and @schema@.is_claim(w.key, w.owner, w.ttl, w.weight, w."limit", w.meta)
        and (select true from @schema@.claim c where c.key = w.key collate "C" limit 1) is null
        and (select true from @schema@.place p where p.key = w.key collate "C" limit 1) is null
    ), used as materialized (
      update @schema@.key k set fence = greatest(k.fence + 128, micros, f.floor) from free f
      where k.ctid = f.row and greatest(k.fence + 128, micros, f.floor) <= 9007199254740864
        and f.floor <= greatest(k.fence, micros) + 3600000000
      returning k.fence, f.*
    ), unused as materialized (
      select micros as fence, f.* from free f where f.row is null and f.floor <= micros
        and (select true from @schema@.key k where k.key = '' and k.fence + 128 > micros) is null -- the clock was set back: see ask
    ), noted as (
      insert into @schema@.key (key, fence) select u.key, u.fence from unused u
    ), granted as materialized (
      select * from used union all select * from unused
    ), claimed as (
      insert into @schema@.claim (key, owner, weight, "limit", fence, granted, holder, party, meta, value, since, ends)
      select g.key, g.owner, g.weight, g."limit", g.fence, g.fence, g.holder, g.party, g.meta, g.value, now, now + g.ttl from granted g
    )
    select array_agg(g.number order by g.number), array_agg(g.fence order by g.number) into numbers, fences from granted g;
    if cardinality(numbers) = cardinality(ask_all.keys) then
      foreach granted in array fences loop
        return next granted;
      end loop;
      return;
    end if;
  end if;
  for i in 1..cardinality(ask_all.keys) loop
    if numbers[at] = i then
      return next fences[at];
      at := at + 1;
    else
      return next @schema@.ask(ask_all.keys[i], ask_all.owners[i], ask_all.ttls[i], ask_all.weights[i], ask_all.limits[i], ask_all.places[i],
        ask_all.floors[i], ask_all.holders[i], ask_all.parties[i], ask_all.metas[i], ask_all."values"[i], ask_all.channels[i], ask_all.waits[i]);
    end if;
  end loop;
end
$$;

-- ask_all_anywhere is ask_all for a caller with other settings.
create or replace function @schema@.ask_all_anywhere(
  keys text[], owners text[], ttls interval[], weights bigint[], limits bigint[], places interval[], floors bigint[],
  holders text[], parties text[], metas jsonb[], "values" bytea[], channels text[], waits boolean[]
) returns setof text language plpgsql
set search_path = pg_catalog set lock_timeout = '200ms' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_variable
begin
  return query select * from @schema@.ask_all(keys, owners, ttls, weights, limits, places, floors, holders, parties, metas, "values", channels, waits);
end
$$;

-- clear drops what has ended on a key, in bounded steps. It leaves what another transaction has its hands on: that may be
-- a renewal which came in time.
create or replace function @schema@.clear(key text, now timestamptz) returns void
language sql as $$
  delete from @schema@.claim c using (
    select e.owner from @schema@.claim e where e.key = clear.key and e.ends <= clear.now order by e.owner limit 100 for update skip locked
  ) gone where c.key = clear.key and c.owner = gone.owner;
  delete from @schema@.place p using (
    select e.owner from @schema@.place e where e.key = clear.key and e.ends <= clear.now order by e.owner limit 100 for update skip locked
  ) gone where p.key = clear.key and p.owner = gone.owner;
$$;

-- claims_of tells the live claims of the keys from one to another, oldest first.
create or replace function @schema@.claims_of(low text, high text, now timestamptz) returns setof @schema@.told
language sql stable as $$
  select c.key, c.owner, c.weight, c."limit", c.fence, c.holder, c.party, c.meta, c.value,
    @schema@.microseconds(claims_of.now - @schema@.near(c.since, claims_of.now)),
    greatest(@schema@.microseconds(@schema@.near(c.ends, claims_of.now) - claims_of.now), 1), false, c.kept
  from @schema@.claim c
  where c.key between claims_of.low and claims_of.high and c.broken is null and c.ends > claims_of.now
  order by c.key, c.granted
$$;

-- places_of tells the lines of the keys from one to another.
create or replace function @schema@.places_of(low text, high text, now timestamptz) returns setof @schema@.told
language sql stable as $$
  select p.key, p.owner, p.weight, p."limit", 0::bigint, p.holder, p.party, p.meta, p.value,
    @schema@.microseconds(places_of.now - @schema@.near(p.since, places_of.now)),
    greatest(@schema@.microseconds(@schema@.near(p.ends, places_of.now) - places_of.now), 1), true, false
  from @schema@.place p
  where p.key between places_of.low and places_of.high and p.ends > places_of.now
  order by p.key, p.number
$$;

-- show tells the live claims on a key, oldest first, then its line.
create or replace function @schema@.show(key text) returns setof @schema@.told
language sql stable set search_path = pg_catalog set lock_timeout = '200ms' as $$
  select * from @schema@.claims_of(key, key, clock_timestamp())
  union all
  select * from @schema@.places_of(key, key, clock_timestamp())
$$;

-- list tells what stands on the keys after one that begin with a prefix, those of a key together, for so many keys. No rows: there are no more.
create or replace function @schema@.list(prefix text, after text default '', keys int default 100) returns setof @schema@.told
language sql stable set search_path = pg_catalog set lock_timeout = '200ms' as $$
  -- Each key of a page has something to tell, so what has ended is left out here too, and by the same clock.
  with moment as materialized (
    select clock_timestamp() as now
  ), page as (
    select key from (
      (select distinct c.key from @schema@.claim c where c.key > list.after and c.key >= list.prefix and starts_with(c.key, list.prefix)
        and c.broken is null and c.ends > (select now from moment) order by c.key limit list.keys)
      union
      (select distinct p.key from @schema@.place p where p.key > list.after and p.key >= list.prefix and starts_with(p.key, list.prefix)
        and p.ends > (select now from moment) order by p.key limit list.keys)
    ) either order by key limit list.keys
  )
  select t.* from moment, page, lateral (
    select * from @schema@.claims_of(page.key, page.key, moment.now)
    union all
    select * from @schema@.places_of(page.key, page.key, moment.now)
  ) t order by page.key collate "C", t.waiting
$$;

-- renew gives a live claim a new life. The answer is + (done), n (not held) or b (broken, with the reason). A value
-- of null leaves the value as it is. A record is changed only by what keeps it again.
create or replace function @schema@.renew(
  key text, owner text, ttl interval, value bytea default null, keep boolean default false,
  out answer text, out behind bigint, out reason text
) language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
#variable_conflict use_column
begin
  if (@schema@.is_life(renew.ttl) and renew.keep is not null and (renew.value is null or octet_length(renew.value) <= 65537)) is not true then
    raise exception 'distlock: %', case
        when @schema@.is_life(renew.ttl) is not true then 'ttl must be above 0 and at most 292 years'
        when renew.keep is null then 'keep must not be null'
        else 'value must have at most 65537 bytes' end
      using errcode = 'invalid_parameter_value';
  end if;
  update @schema@.claim c
    set ends = case when c.kept and not renew.keep then c.ends else clock_timestamp() + renew.ttl end,
      value = case when c.kept and not renew.keep then c.value else coalesce(renew.value, c.value) end, kept = c.kept or renew.keep
    where c.key = renew.key and c.owner = renew.owner and c.broken is null and c.ends > clock_timestamp();
  if not found then
    select c.broken into reason from @schema@.claim c
      where c.key = renew.key and c.owner = renew.owner and c.broken is not null and c.ends > clock_timestamp();
    answer := case when found then 'b' else 'n' end;
    return;
  end if;
  answer := '+';
  select count(*) into behind from @schema@.place p where p.key = renew.key and p.ends > clock_timestamp();
  if renew.keep then
    perform @schema@.tell_key('k', renew.key);
  end if;
end
$$;

-- renew_all renews many claims, and gives an answer for each, in order: those of renew, or w: another transaction has its
-- hands on the claim, and renew may wait for it; or its ttl is wrong, and renew says so.
create or replace function @schema@.renew_all(keys text[], owners text[], ttls interval[])
returns table (answer text, behind bigint, reason text)
language sql set search_path = pg_catalog set lock_timeout = '200ms' as $$
  with wanted as materialized (
    select w.* from unnest(renew_all.keys, renew_all.owners, renew_all.ttls) with ordinality as w(key, owner, ttl, number)
  ), ours as materialized (
    -- Row by row through the index: the planner takes the arrays for short and the table for small.
    select l.key, l.owner, w.ttl, w.number from wanted w, lateral (
      select c.key, c.owner from @schema@.claim c
      where c.key = w.key collate "C" and c.owner = w.owner collate "C" and c.broken is null and c.ends > clock_timestamp() and @schema@.is_life(w.ttl)
      for update skip locked
    ) l
  ), renewed as materialized (
    update @schema@.claim c set ends = case when c.kept then c.ends else clock_timestamp() + o.ttl end from ours o
    where c.key = o.key and c.owner = o.owner
    returning o.number
  )
  -- The subquery is a hash whatever the planner thinks of its size, which a join need not be.
  select case when w.number in (select r.number from renewed r) then '+'
      else coalesce((select case when c.broken is null then 'w' else 'b' end from @schema@.claim c
        where c.key = w.key collate "C" and c.owner = w.owner collate "C" and c.ends > clock_timestamp()), 'n') end,
    (select count(*) from @schema@.place p where p.key = w.key collate "C" and p.ends > clock_timestamp()),
    (select c.broken from @schema@.claim c
      where c.key = w.key collate "C" and c.owner = w.owner collate "C" and c.ends > clock_timestamp() and c.broken is not null)
  from wanted w order by w.number
$$;

-- release ends a live claim, or gives up a place. It is false if the owner has neither, and null if others have the key and wait is false, or
-- have their hands on the claim and wait is null: then nothing was changed.
--
-- With the key to ourselves we see everybody who waits, and those who come later see what we did. If another has the key,
-- it may be about to wait, and cannot be seen: then all who watch the key are told, since it watches before it asks.
create or replace function @schema@.release(key text, owner text, wait boolean) returns boolean
language plpgsql as $$
#variable_conflict use_column
declare
  number bigint;
  ours boolean;
  awaited boolean;
  held boolean;
begin
  if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) 'pg_catalog'
    or pg_catalog.current_setting('lock_timeout') operator(pg_catalog.<>) '200ms' then
    return @schema@.release_anywhere(release.key, release.owner, release.wait);
  end if;
  number := hashtextextended(release.key, @seed@);
  if release.wait is null then
    perform from @schema@.claim c where c.key = release.key and c.owner = release.owner for update skip locked;
    if not found and exists (select from @schema@.claim c where c.key = release.key and c.owner = release.owner) then
      return null;
    end if;
  end if;
  loop
    ours := pg_try_advisory_xact_lock(number);
    delete from @schema@.claim c where c.key = release.key and c.owner = release.owner and c.broken is null and c.ends > clock_timestamp()
      returning exists (select from @schema@.place p where p.key = release.key union all select from @schema@.onlooker o where o.key = release.key)
      into awaited;
    held := found;
    exit when held or ours;
    -- Whoever has the key may be granting it to this owner, which is seen when that is over. Until then its place proves nothing either.
    if release.wait is not true then
      return null;
    end if;
    perform pg_advisory_xact_lock(number);
  end loop;
  if not held then
    delete from @schema@.place p where p.key = release.key and p.owner = release.owner and p.ends > clock_timestamp();
    if not found then
      return false;
    end if;
    awaited := true;
  end if;
  if not ours then
    perform @schema@.tell_key('k', release.key);
  elsif awaited then
    if held and exists (select from @schema@.onlooker o where o.key = release.key and o.ends > clock_timestamp()) then
      perform @schema@.tell_key('o', release.key);
    end if;
    perform @schema@.promote(release.key);
  end if;
  return true;
end
$$;

-- release_anywhere is release for a caller with other settings.
create or replace function @schema@.release_anywhere(key text, owner text, wait boolean) returns boolean
language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
#variable_conflict use_variable
begin
  return @schema@.release(key, owner, wait);
end
$$;

-- release without wait does.
create or replace function @schema@.release(key text, owner text) returns boolean
language plpgsql as $$
#variable_conflict use_variable
begin
  return @schema@.release(key, owner, true);
end
$$;

-- release_all releases many, and gives an answer for each, in order. Claims that nobody waits for are ended by one statement.
create or replace function @schema@.release_all(keys text[], owners text[], waits boolean[]) returns setof boolean language plpgsql
set search_path = pg_catalog set lock_timeout = '200ms' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  ours boolean[] := array(select pg_try_advisory_xact_lock(hashtextextended(k, @seed@)) from unnest(release_all.keys) k);
  numbers bigint[]; -- those of the claims that are ended, in order
  at int := 1; -- which of them is next
begin
  with ended as (
    delete from @schema@.claim c using (
      select w.number, (select c.ctid from @schema@.claim c where c.key = w.key collate "C" and c.owner = w.owner collate "C") as row
      from unnest(release_all.keys, release_all.owners, ours) with ordinality as w(key, owner, ours, number)
      where w.ours and (select true from @schema@.place p where p.key = w.key collate "C" limit 1) is null
        and (select true from @schema@.onlooker o where o.key = w.key collate "C" limit 1) is null
      offset 0
    ) w
    where c.ctid = w.row and c.broken is null and c.ends > clock_timestamp()
    returning w.number
  )
  select array_agg(e.number order by e.number) into numbers from ended e;
  for i in 1..cardinality(release_all.keys) loop
    if numbers[at] = i then
      return next true;
      at := at + 1;
    else
      return next @schema@.release(release_all.keys[i], release_all.owners[i], release_all.waits[i]);
    end if;
  end loop;
end
$$;

-- release_all without waits does wait. One for which it waits in vain undoes all.
create or replace function @schema@.release_all(keys text[], owners text[]) returns setof boolean
language sql set search_path = pg_catalog as $$
  select @schema@.release_all(keys, owners, array_fill(true, array[cardinality(keys)]))
$$;

-- break ends the claims on a key whose fence is at most up_to, or all of them if up_to is 0, and returns them.
create or replace function @schema@.break(key text, reason text, up_to bigint) returns setof @schema@.told
language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
#variable_conflict use_column
declare
  now timestamptz;
begin
  if break.reason is null then -- broken would stay null, which is not broken
    raise exception 'distlock: reason must not be null' using errcode = 'invalid_parameter_value';
  elsif (break.up_to >= 0) is not true then
    raise exception 'distlock: up_to must be 0 or above' using errcode = 'invalid_parameter_value';
  end if;
  perform pg_advisory_xact_lock(hashtextextended(break.key, @seed@));
  perform from @schema@.claim c where c.key = break.key order by c.owner for update;
  now := clock_timestamp();
  return query select * from @schema@.claims_of(break.key, break.key, now) c where break.up_to = 0 or c.fence <= break.up_to;
  update @schema@.claim c set broken = break.reason
    where c.key = break.key and c.broken is null and c.ends > now and (break.up_to = 0 or c.fence <= break.up_to);
  if found then
    perform @schema@.tell_key('o', break.key);
    perform @schema@.promote(break.key);
  end if;
end
$$;

-- break without up_to ends all claims on a key.
create or replace function @schema@.break(key text, reason text) returns setof @schema@.told
language sql set search_path = pg_catalog as $$
  select * from @schema@.break(key, reason, 0)
$$;

-- watch notes that somebody watches a key without a claim.
create or replace function @schema@.watch(key text, life interval) returns void
language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
#variable_conflict use_column
begin
  if (@schema@.is_key(watch.key) and @schema@.is_life(watch.life)) is not true then
    raise exception 'distlock: %', case when @schema@.is_key(watch.key) then 'life must be above 0 and at most 292 years' else 'key must have 1 to 512 bytes' end
      using errcode = 'invalid_parameter_value';
  end if;
  insert into @schema@.onlooker as o (key, ends) values (watch.key, clock_timestamp() + watch.life)
    on conflict (key) do update set ends = greatest(o.ends, excluded.ends);
end
$$;

-- sweep looks at some keys. Where the clock has passed the last fence by ten minutes it drops what has ended, and the key if nothing is left
-- of it. The row of the empty key, which no claim can have, keeps the highest fence of all keys that were dropped: the clock may be
-- set back to before it. It returns how many were dropped, and does nothing while another sweeps. Others are refused what it drops until its transaction ends: it
-- is to have one of its own.
create or replace function @schema@.sweep(step int default 200) returns bigint
language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
#variable_conflict use_column
declare
  past bigint := @schema@.microseconds(clock_timestamp() - timestamptz 'epoch') - 600000000;
  page text[];
  looked bigint;
  last text;
  dropped bigint := 0;
  high bigint;
  n bigint;
begin
  if (sweep.step between 1 and 1000) is not true then -- it has a lock on each until its transaction ends, and the server has room for some thousands
    raise exception 'distlock: step must be 1 to 1000' using errcode = 'invalid_parameter_value';
  end if;
  select s.after into last from @schema@.sweeper s for update skip locked;
  if not found then
    return 0;
  end if;
  select array_agg(k.key) filter (where k.fence < past), count(*), max(k.key) into page, looked, last
    from (select k.key, k.fence from @schema@.key k where k.key > last order by k.key limit sweep.step) k;
  -- From the last key it goes on with the first.
  update @schema@.sweeper set after = case when looked < sweep.step then '' else last end;
  delete from @schema@.onlooker o using (
    select e.key from @schema@.onlooker e where e.ends <= clock_timestamp() for update skip locked
  ) gone where o.key = gone.key;
  if page is null then
    return 0;
  end if;
  delete from @schema@.claim c using (
    select e.key, e.owner from @schema@.claim e where e.key = any (page) and e.ends <= clock_timestamp() for update skip locked
  ) gone where c.key = gone.key and c.owner = gone.owner;
  get diagnostics n = row_count;
  dropped := dropped + n;
  delete from @schema@.place p using (
    select e.key, e.owner from @schema@.place e where e.key = any (page) and e.ends <= clock_timestamp() for update skip locked
  ) gone where p.key = gone.key and p.owner = gone.owner;
  get diagnostics n = row_count;
  dropped := dropped + n;
  -- A key that is used meanwhile has a new fence, and is not taken for idle.
  with idle as materialized (
    select k.key from @schema@.key k
    where k.key = any (page) and k.fence < past
      and not exists (select from @schema@.claim c where c.key = k.key)
      and not exists (select from @schema@.place p where p.key = k.key)
  ), free as materialized (
    select i.key from idle i where pg_try_advisory_xact_lock(hashtextextended(i.key, @seed@))
  ), gone as (
    delete from @schema@.key k using free f where k.key = f.key and k.fence < past returning k.fence
  )
  select count(*), max(g.fence) into n, high from gone g;
  if n > 0 then
    insert into @schema@.key as k (key, fence) values ('', high) on conflict on constraint key_pkey do update set fence = greatest(k.fence, excluded.fence);
  end if;
  return dropped + n;
end
$$;

-- wrong_lock says what is wrong with the name of a lock, or its holder, or nothing. Both are shown to people.
create or replace function @schema@.wrong_lock(name text, holder text) returns text
language sql immutable parallel safe
return case
  when (octet_length(name) between 1 and 255) is not true then 'name must have 1 to 255 bytes'
  when (octet_length(holder) between 1 and 255) is not true then 'holder must have 1 to 255 bytes'
end;

-- acquire_lock takes a lock by name: true if the holder has it now, for so many seconds. The same holder again extends it. The TTL is that
-- of programs that say none.
-- A holder is who says so: use a name that no other has, such as a host and a process.
-- It does not sweep: what a sweep drops, the caller's transaction would keep from everybody until it ends.
create or replace function @schema@.acquire_lock(name text, holder text, ttl_seconds double precision default 30, metadata jsonb default '{}')
returns boolean language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
declare
  why constant text := coalesce(@schema@.wrong_lock(name, holder), case
    when (ttl_seconds > 0 and ttl_seconds <= 9223372036) is not true then 'ttl_seconds must be above 0 and at most 9223372036, which is 292 years'
    when (jsonb_typeof(metadata) = 'object') is not true then 'metadata must be a JSON object'
    when octet_length(metadata::text) > 4096 then 'metadata must have at most 4096 bytes' end);
  answer text;
begin
  if why is not null then
    raise exception 'distlock: %', why using errcode = 'invalid_parameter_value';
  end if;
  answer := @schema@.ask(@schema@.lock_key(name), 'sql/' || holder, greatest(ttl_seconds * interval '1 second', interval '1 microsecond'),
    1073741824, 1073741824, null, 0, @schema@.storable(holder), '', metadata, null, '', true);
  return not starts_with(answer, '{') or answer::jsonb ->> 'answer' in ('+', '=');
end
$$;

-- release_lock gives a lock back: true if the holder had it.
create or replace function @schema@.release_lock(name text, holder text) returns boolean
language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
begin
  if @schema@.wrong_lock(name, holder) is not null then
    raise exception 'distlock: %', @schema@.wrong_lock(name, holder) using errcode = 'invalid_parameter_value';
  end if;
  return @schema@.release(@schema@.lock_key(name), 'sql/' || holder, true);
end
$$;

-- The locks that are held, for people. The owner is shown as its tag. The key is for functions: it also tells the lock ~sem/a from the semaphore a.
create or replace view @schema@.locks as
  select @schema@.lock_name(c.key) as name, @schema@.readable(c.holder) as holder, c.fence, c.weight, c."limit", @schema@.tag(c.owner) as owner,
    @schema@.readable(c.party) as party, c.meta as metadata, c.kept, c.since as acquired_at, c.ends as expires_at,
    (select count(*) from @schema@.place p where p.key = c.key and p.ends > clock_timestamp()) as waiting, c.key
  from @schema@.claim c where c.broken is null and c.ends > clock_timestamp();

-- Those who wait, for people. Position 1 is next.
create or replace view @schema@.waiters as
  select @schema@.lock_name(p.key) as name, row_number() over (partition by p.key order by p.number) as position, @schema@.readable(p.holder) as holder,
    p.weight, p."limit", @schema@.tag(p.owner) as owner, @schema@.readable(p.party) as party, p.meta as metadata, p.since as waiting_since, p.ends as expires_at, p.key
  from @schema@.place p where p.ends > clock_timestamp();
