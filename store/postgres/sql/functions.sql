-- The functions. Each call from outside is one round trip and waits for a lock no longer than its
-- lock_timeout.
--
-- Acquire takes a transaction-level advisory lock on the number of the key before it reads the
-- clock and the claims. Renew never waits for that lock, and release does not if the claim exists.
-- A client that is idle in its transaction therefore blocks no renewal.
--
-- The search_path of the caller has no effect. Functions set their own, and functions with a single
-- expression are parsed when they are created. Setting search_path takes a noticeable part of a
-- call, so attempt, attempt_all and release, the most frequent calls, set it only if the caller has
-- not.
--
-- Every statement of a function sees the data that was committed before the statement began. This
-- holds in READ COMMITTED only, and acquire refuses the other isolation levels.
--
-- Functions that read the start of a queue turn enable_sort off. Otherwise a planner without
-- statistics reads the whole queue and sorts it. They turn jit off too: a statement that has to sort
-- seems so expensive then that the server would compile it, for milliseconds, while it has the key.
-- Statements that read the start of the queue have the condition number > 0, which holds for every
-- entry: only they can use the index queue_order. Without statistics, the planner might use that
-- index for one owner's entry too, and read the whole queue.

-- microseconds returns a duration as a number.
create or replace function @schema@.microseconds(d interval) returns bigint
language sql immutable parallel safe
return (extract(epoch from d) * 1000000)::bigint;

-- near returns t, clamped to the range that a Go program can count from now: a Duration ends after
-- 292 years. Times in the tables may lie further away or be infinite. PostgreSQL 14 cannot parse
-- that many microseconds, so the limits here and below are written in hours.
create or replace function @schema@.near(t timestamptz, now timestamptz) returns timestamptz
language sql stable parallel safe
return least(greatest(t, now - interval '2562047:47:16.854775'),
  now + interval '2562047:47:16.854775');

-- is_ttl reports whether a duration is a valid TTL. Go programs cannot count more than 292 years.
create or replace function @schema@.is_ttl(d interval) returns boolean
language sql immutable parallel safe
return d > interval '0' and d <= interval '2562047:47:16.854776';

-- is_key reports whether a text is a valid key: 512 bytes, or their hex digits.
create or replace function @schema@.is_key(key text) returns boolean
language sql immutable parallel safe
return key <> ''
  and (octet_length(key) <= 512 or starts_with(key, '\x') and octet_length(key) <= 1026);

-- is_claim reports whether the claim has a valid weight, TTL, key, owner and metadata. Null means
-- no. The server inlines is_claim into the expressions that call it and prepares those in every
-- call, so is_claim is short. Acquire checks the other arguments.
create or replace function @schema@.is_claim(key text, owner text, ttl interval, weight bigint,
  "limit" bigint, meta jsonb) returns boolean
language sql immutable parallel safe
return weight >= 1 and weight <= "limit" and "limit" <= 1073741824 and @schema@.is_ttl(ttl)
  and @schema@.is_key(key)
  and owner <> '' and octet_length(owner) <= 1024 and jsonb_typeof(meta) = 'object';

-- wrong returns the rule that an argument of acquire breaks.
create or replace function @schema@.wrong(
  key text, owner text, ttl interval, weight bigint, "limit" bigint,
  queue_ttl interval, floor bigint,
  holder text, task text, meta jsonb, value bytea, channel text, wait boolean
) returns text language sql immutable parallel safe
return case
  when @schema@.is_key(key) is not true then 'key must have 1 to 512 bytes'
  when (octet_length(owner) between 1 and 1024) is not true then 'owner must have 1 to 1024 bytes'
  when @schema@.is_ttl(ttl) is not true then 'ttl must be above 0 and at most 292 years'
  when ("limit" between 1 and 1073741824) is not true then 'limit must be 1 to 1073741824'
  when (weight between 1 and "limit") is not true then 'weight must be 1 to the limit'
  when queue_ttl <> interval '0'
    and not @schema@.is_ttl(queue_ttl) then 'queue_ttl must be null, or 0 to 292 years'
  when (floor between 0 and 9007199254740863) is not true then 'floor must be 0 to 9007199254740863'
  when holder is null then 'holder must not be null'
  when task is null then 'task must not be null'
  when (jsonb_typeof(meta) = 'object') is not true then 'meta must be a JSON object'
  when octet_length(value) > 65537 then 'value must have at most 65537 bytes'
  when (octet_length(channel) <= 63) is not true then 'channel must have at most 63 bytes'
  else 'wait must not be null'
end;

-- storable returns a text as the tables store keys, owners and holders.
create or replace function @schema@.storable(plain text) returns text
language sql immutable parallel safe
return case when starts_with(plain, '\x') then '\x' || encode(convert_to(plain, 'UTF8'), 'hex')
  else plain end;

-- lock_key returns the key of the lock with this name: see docs/layout.md.
create or replace function @schema@.lock_key(name text) returns text
language sql immutable parallel safe
return @schema@.storable(case when starts_with(name, '~') then '~' || name else name end);

-- is_hex reports whether a stored text is the hex digits of bytes. Texts written by hand may not
-- be.
create or replace function @schema@.is_hex(stored text) returns boolean
language sql immutable parallel safe
return stored ~ '^\\x([0-9a-fA-F]{2})*$';

-- readable returns a stored text for people.
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

-- lock_name returns the name of the lock with this key, for people. Keys of other kinds are shown
-- as they are.
create or replace function @schema@.lock_name(key text) returns text
language sql immutable parallel safe
return regexp_replace(@schema@.readable(key), '^~~', '~');

-- tag returns the public form of an owner.
create or replace function @schema@.tag(owner text) returns text
language sql immutable parallel safe
return left(encode(sha256(case when @schema@.is_hex(owner) then owner::bytea
  else convert_to(owner, 'UTF8') end), 'hex'), 8);

-- occupants returns the server processes whose transactions have a key.
create or replace function @schema@.occupants(number bigint) returns table (pid int)
language sql as $$
  select l.pid from pg_locks l
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1
      and l.database = (select d.oid from pg_database d where d.datname = current_database())
      and (l.classid::bigint << 32 | l.objid::bigint) = occupants.number
$$;

-- enter waits for a key. It returns false if another transaction has the key for too long: after
-- 200 ms if a client is idle in that transaction, and after 2 s if the server is at work on it. On a
-- busy server, short transactions take longer than 200 ms.
create or replace function @schema@.enter(number bigint) returns boolean
language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
begin
  for step in 1..10 loop
    begin
      perform pg_advisory_xact_lock(number);
      return true;
    exception when lock_not_available then
      perform pg_stat_clear_snapshot();
      -- The state of another user's process is hidden.
      exit when exists (select from pg_stat_activity a
        where a.pid in (select o.pid from @schema@.occupants(number) o)
          and a.state is distinct from 'active');
    end;
  end loop;
  return false;
end
$$;

-- notify sends a message to the listeners of a channel. If the notification queue of the server is
-- nearly full, it sends nothing: an error would make the caller fail.
create or replace function @schema@.notify(channel text, message text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if channel <> '' and pg_notification_queue_usage() < 0.9 then
    perform pg_notify(channel, message);
  end if;
end
$$;

-- notify_key wakes all watchers of a key ("k"), or only the observers without a claim ("o").
create or replace function @schema@.notify_key(kind text, key text) returns void
language sql as $$
  select @schema@.notify(@channel@,
    kind || left(encode(sha256(convert_to(key, 'UTF8')), 'hex'), 16))
$$;

-- clear deletes ended claims of a key, in bounded steps. It skips rows that another transaction has
-- locked: such a transaction may be a renewal in time.
create or replace function @schema@.clear(key text, now timestamptz) returns void
language sql as $$
  delete from @schema@.claim c using (
    select e.owner from @schema@.claim e where e.key = clear.key and e.ends <= clear.now
      order by e.owner limit 100 for update skip locked
  ) gone where c.key = clear.key and c.owner = gone.owner;
$$;

-- clear_queue deletes the ended entries of a key with numbers above low and up to high, as clear
-- does. It returns false if there were none.
create or replace function @schema@.clear_queue(key text, now timestamptz, low bigint, high bigint)
  returns boolean
language plpgsql as $$
#variable_conflict use_column
begin
  delete from @schema@.queue q using (
    select e.owner from @schema@.queue e where e.key = clear_queue.key
      and e.number > clear_queue.low and e.number <= clear_queue.high and e.number > 0
      and e.ends <= clear_queue.now for update skip locked
  ) gone where q.key = clear_queue.key and q.owner = gone.owner;
  return found;
end
$$;

-- usage deletes ended claims, and returns the sum of the weights of the other claims and a time
-- before which none of them ends. Claims that remain are live, or count as live. Mine says that the
-- caller has the key.
--
-- Up to 16 claims are added up in each call. The sum of more is kept with the key. Every change of
-- a claim changes the sum: in key if the transaction has the key, otherwise by a row of freed. A
-- claim of the weight 1073741824 is alone, so a sum never includes it. A wrong sum would be too
-- high, and only until soon.
create or replace function @schema@.usage(key text, now timestamptz, mine boolean,
  out used bigint, out ends timestamptz)
language plpgsql as $$
#variable_conflict use_column
declare
  kept boolean := false; -- the sum is kept
  fewer bigint;
  sooner timestamptz;
  claims bigint;
  ended boolean;
begin
  if usage.mine then
    with gone as (
      delete from @schema@.freed f where f.key = usage.key returning f.weight, f.ends
    )
    select sum(g.weight), min(g.ends) into fewer, sooner from gone g;
    select k.used - coalesce(fewer, 0), least(k.soon, sooner), k.used is not null
      into used, ends, kept from @schema@.key k where k.key = usage.key;
    if kept and ends > now then
      if fewer is not null then
        update @schema@.key k set used = usage.used, soon = usage.ends where k.key = usage.key;
      end if;
      return;
    end if;
  end if;
  select count(*), coalesce(sum(c.weight), 0), min(c.ends), bool_or(c.ends <= now)
    into claims, used, ends, ended
    from (select c.weight, c.ends from @schema@.claim c
      where c.key = usage.key and c.broken is null limit 17) c;
  if claims > 16 or ended then
    perform @schema@.clear(usage.key, now);
    -- In one statement: the claims of these rows of freed are not among the claims any more.
    with gone as (
      delete from @schema@.freed f where f.key = usage.key and usage.mine
    )
    select count(*), coalesce(sum(c.weight), 0), min(c.ends) into claims, used, ends
      from @schema@.claim c where c.key = usage.key and c.broken is null;
  end if;
  if usage.mine and (claims > 16 or kept) then
    update @schema@.key k set used = case when claims > 16 then usage.used end,
      soon = case when claims > 16 then usage.ends end where k.key = usage.key;
  end if;
end
$$;

-- promote grants the claims at the head of the queue that fit and have a number below the given one,
-- each until its queue entry expires, and notifies their owners. The owner may be dead, so if the clock was set back, the claim still
-- ends after at most the requested queue TTL. The caller has the key. It returns whether it granted
-- any.
create or replace function @schema@.promote(key text, below bigint) returns boolean
language plpgsql set search_path = pg_catalog as $$
#variable_conflict use_column
declare
  now timestamptz := clock_timestamp();
  granted boolean := false;
  total bigint; -- the sum of the weights of the claims
  kept boolean; -- the key keeps it: see usage
  head @schema@.queue;
  number bigint;
begin
  for step in 1..100 loop
    select q.* into head from @schema@.queue q where q.key = promote.key and q.ends > now
      and q.number > 0 and q.number < promote.below order by q.number limit 1;
    if not found then
      return granted;
    end if;
    if total is null then
      total := (select u.used from @schema@.usage(promote.key, now, true) u);
    end if;
    if total + head.weight > head."limit" then
      return granted;
    end if;
    update @schema@.key k
      set fence = greatest(k.fence + 128, @schema@.microseconds(now - timestamptz 'epoch'))
      where k.key = promote.key and k.fence <= 9007199254740736
      returning k.fence, k.used is not null into number, kept;
    if not found then
      return granted; -- the waiter's next attempt returns that no fences are left
    end if;
    -- The waiter may have called acquire again without the key: the claim ends when its entry ends
    -- now.
    delete from @schema@.queue q where q.key = promote.key and q.owner = head.owner
      and q.weight = head.weight and q."limit" = head."limit"
      returning q.* into head;
    if not found then
      continue; -- the waiter changed its request, or left
    end if;
    -- The owner may have a broken claim.
    delete from @schema@.claim c where c.key = promote.key and c.owner = head.owner;
    insert into @schema@.claim (key, owner, weight, "limit", fence, granted, holder, task, meta,
      value, since, ends)
      values (promote.key, head.owner, head.weight, head."limit", number, number, head.holder,
        head.task, head.meta, head.value, now,
        least(head.ends, now + head.ttl));
    if kept then -- the first of all claims ends the keeping
      update @schema@.key k set used = case when total > 0 then k.used + head.weight end,
        soon = case when total > 0 then least(k.soon, head.ends, now + head.ttl) end
        where k.key = promote.key;
    end if;
    total := total + head.weight;
    granted := true;
    perform @schema@.notify(head.channel,
      left(encode(sha256(convert_to(head.owner, 'UTF8')), 'hex'), 32) || ' ' || number || ' ' ||
      (select count(*) from (select from @schema@.queue q where q.key = promote.key
        and q.number > 0 and q.ends > now order by q.number limit 17) q));
  end loop;
  return granted;
end
$$;

-- acquire grants or refuses one claim. The answer is
--   +  granted          -  refused           =  granted again
--   i  the floor is too far ahead            f  no fences are left
--   b  another transaction has the key or the claim, and wait is false
-- Retry is in microseconds.
create or replace function @schema@.acquire(
  key text, owner text, ttl interval,
  weight bigint default 1073741824, "limit" bigint default 1073741824,
  queue_ttl interval default null, floor bigint default 0,
  holder text default '', task text default '', meta jsonb default '{}', value bytea default null,
  channel text default '', wait boolean default true,
  out answer text, out fence bigint, out used bigint, out ahead bigint, out behind bigint,
    out retry bigint, out blocker @schema@.claim_info
) language plpgsql set search_path = pg_catalog set lock_timeout = '200ms'
set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  number constant bigint := hashtextextended(acquire.key, @seed@);
  mine boolean; -- this transaction has the key's lock
  now timestamptz;
  micros bigint;
  last bigint;
  own @schema@.claim;
  entry_number bigint; -- of our queue entry
  near_end timestamptz; -- no claim ends before
  entry_end timestamptz; -- the first end of an entry before ours
  ended boolean;
  edge bigint;
  fits boolean;
  again record;
begin
  -- A channel name that is too long for the server would make the later release fail when it
  -- notifies.
  if (@schema@.is_claim(acquire.key, acquire.owner, acquire.ttl,
        acquire.weight, acquire."limit", acquire.meta)
      and (acquire.queue_ttl is null or acquire.queue_ttl = interval '0'
        or @schema@.is_ttl(acquire.queue_ttl))
      and acquire.floor between 0 and 9007199254740863 and acquire.holder is not null
        and acquire.task is not null
      and (acquire.value is null or octet_length(acquire.value) <= 65537)
        and octet_length(acquire.channel) <= 63
      and acquire.wait is not null) is not true then
    raise exception 'distlock: %', @schema@.wrong(acquire.key, acquire.owner, acquire.ttl,
        acquire.weight, acquire."limit", acquire.queue_ttl, acquire.floor, acquire.holder,
        acquire.task, acquire.meta, acquire.value, acquire.channel, acquire.wait)
      using errcode = 'invalid_parameter_value';
  end if;
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'distlock: the transaction is %', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state',
        hint = 'Call it in a READ COMMITTED transaction.';
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
    -- The transaction that has the key may be granting it to us. Then it has locked our queue
    -- entry, and after the wait the new claim is visible.
    perform from @schema@.queue q where q.key = acquire.key and q.owner = acquire.owner for update;
  end if;
  now := clock_timestamp();
  micros := @schema@.microseconds(now - timestamptz 'epoch');
  select k.fence into last from @schema@.key k where k.key = acquire.key;
  if not found then -- sweep may have dropped the key
    select k.fence into last from @schema@.key k where k.key = '';
  end if;
  if acquire.floor > greatest(micros, last) + 3600000000 then
    answer := 'i';
    return;
  end if;

  select c.* into own from @schema@.claim c
    where c.key = acquire.key and c.owner = acquire.owner and c.broken is null and c.ends > now;
  if found then
    if not acquire.wait then
      perform from @schema@.claim c where c.key = acquire.key and c.owner = acquire.owner
        for update skip locked;
      if not found then
        answer := 'b';
        return;
      end if;
    end if;
    if acquire.weight < own.weight then
      -- A call of the owner that has not the key may be lowering it too. It is freed once.
      select c.weight into own.weight from @schema@.claim c
        where c.key = acquire.key and c.owner = acquire.owner for update;
    end if;
    update @schema@.claim c
      -- A record keeps the end that it was kept with.
      set ends = case when c.kept then c.ends else clock_timestamp() + acquire.ttl end,
        weight = least(c.weight, acquire.weight), fence = greatest(c.fence, acquire.floor)
      where c.key = acquire.key and c.owner = acquire.owner and c.broken is null
        and c.ends > clock_timestamp()
      returning c.fence into fence;
    if found then
      if fence > own.fence and mine then
        update @schema@.key k set fence = greatest(k.fence, acquire.fence)
          where k.key = acquire.key;
      elsif fence > own.fence then
        raise exception 'distlock: another transaction has the key'
          using errcode = 'lock_not_available';
      end if;
      answer := '=';
      -- The entry would be granted after the release.
      delete from @schema@.queue q where q.key = acquire.key and q.owner = acquire.owner;
      if own.weight < 1073741824 and (acquire.weight < own.weight
        or not own.kept and now + acquire.ttl < own.ends) then
        insert into @schema@.freed values (acquire.key,
          own.weight - least(own.weight, acquire.weight), now + acquire.ttl);
      end if;
      used := (select u.used from @schema@.usage(acquire.key, now, mine) u);
      behind := (select count(*) from (select from @schema@.queue q where q.key = acquire.key
        and q.number > 0 and q.ends > now order by q.number limit 17) q);
      if acquire.weight < own.weight and behind > 0 then
        if mine then
          perform @schema@.promote(acquire.key, 9223372036854775807);
        else
          perform @schema@.notify_key('k', acquire.key);
        end if;
      end if;
      return;
    end if;
  end if;

  select u.used, u.ends into used, near_end from @schema@.usage(acquire.key, now, mine) u;
  select q.number, q.ends <= now into entry_number, ended from @schema@.queue q
    where q.key = acquire.key and q.owner = acquire.owner;
  if ended then -- the owner has lost its position
    delete from @schema@.queue q where q.key = acquire.key and q.owner = acquire.owner;
    entry_number := null;
  end if;
  -- Only the first entries are counted. Ended entries that clear_queue leaves count as live.
  loop
    select count(*) filter (where q.before), min(q.ends) filter (where q.before),
        bool_or(q.ends <= now), max(q.number)
      into ahead, entry_end, ended, edge
      from (select q.number, q.ends,
          q.owner <> acquire.owner and (entry_number is null or q.number < entry_number) as before
        from @schema@.queue q where q.key = acquire.key and q.number > 0
        order by q.number limit 17) q;
    exit when ended is not true;
    exit when not @schema@.clear_queue(acquire.key, now, 0, edge);
  end loop;
  fits := used + acquire.weight <= acquire."limit";
  if mine and fits and ahead > 0 then
    -- If the clock was set back, an entry ahead of us ends after at most its requested TTL: its
    -- owner may be dead.
    update @schema@.queue q set ends = now + q.ttl from (
      select l.owner from @schema@.queue l where l.key = acquire.key and l.number <= edge and l.number > 0
        and l.ends > now + l.ttl for update skip locked
    ) late where q.key = acquire.key and q.owner = late.owner;
    -- The claim before ended by itself, or its release could not grant the key to the head. The
    -- head may attempt late. Our own claim gets the data of this attempt below.
    if @schema@.promote(acquire.key, coalesce(entry_number, 9223372036854775807)) then
      select a.* into again from @schema@.acquire(acquire.key, acquire.owner, acquire.ttl,
        acquire.weight, acquire."limit", acquire.queue_ttl, acquire.floor, acquire.holder,
        acquire.task, acquire.meta, acquire.value, acquire.channel, acquire.wait) a;
      answer := again.answer; fence := again.fence; used := again.used; ahead := again.ahead;
      behind := again.behind; retry := again.retry; blocker := again.blocker;
      return;
    end if;
  end if;
  if mine and fits and ahead = 0 then
    fence := greatest(last + 128, micros, acquire.floor);
    if fence > 9007199254740864 then
      answer := 'f';
      return;
    end if;
    insert into @schema@.key as k (key, fence) values (acquire.key, acquire.fence)
      on conflict on constraint key_pkey do update set fence = excluded.fence,
        -- The first of all claims ends the keeping of the sum.
        used = case when acquire.used > 0 then k.used + acquire.weight end,
        soon = case when acquire.used > 0 and k.used is not null
          then least(k.soon, now + acquire.ttl) end;
    delete from @schema@.queue q where q.key = acquire.key and q.owner = acquire.owner;
    -- The owner may have a broken claim.
    delete from @schema@.claim c where c.key = acquire.key and c.owner = acquire.owner;
    insert into @schema@.claim (key, owner, weight, "limit", fence, granted, holder, task, meta,
      value, since, ends)
      values (acquire.key, acquire.owner, acquire.weight, acquire."limit", acquire.fence,
        acquire.fence, acquire.holder, acquire.task,
        acquire.meta, acquire.value, now, now + acquire.ttl);
    answer := '+';
    used := used + acquire.weight;
    behind := (select count(*) from (select from @schema@.queue q where q.key = acquire.key
      and q.number > 0 and q.ends > now order by q.number limit 17) q);
    if behind > 0 then
      perform @schema@.promote(acquire.key, 9223372036854775807);
    end if;
    return;
  end if;

  answer := '-';
  if acquire.queue_ttl > interval '0' then
    insert into @schema@.queue as q (key, owner, weight, "limit", holder, task, meta, value,
      channel, since, ends, ttl)
      values (acquire.key, acquire.owner, acquire.weight, acquire."limit", acquire.holder,
        acquire.task, acquire.meta, acquire.value,
        acquire.channel, now, now + acquire.queue_ttl, acquire.queue_ttl)
      on conflict on constraint queue_pkey do update set weight = excluded.weight,
        "limit" = excluded."limit", holder = excluded.holder,
        task = excluded.task, meta = excluded.meta, value = excluded.value,
          channel = excluded.channel, ends = excluded.ends, ttl = excluded.ttl
      returning q.number into entry_number;
  end if;
  -- The count is 0 without an entry.
  loop
    select count(*), bool_or(q.ends <= now), max(q.number) into behind, ended, edge
      from (select q.ends, q.number from @schema@.queue q
        where q.key = acquire.key and q.number > entry_number and q.number > 0
        order by q.number limit 17) q;
    exit when ended is not true;
    exit when not @schema@.clear_queue(acquire.key, now, entry_number, edge);
  end loop;
  -- With 17 entries ahead, the end of one blocker changes nothing.
  if ahead < 17 then
    retry := @schema@.microseconds(@schema@.near(
      least(case when not fits then near_end end, entry_end), now) - now);
    retry := greatest(retry, 1000); -- an ended claim that is still there is about to be deleted
  end if;
  if not fits then
    select c.key, c.owner, c.weight, c."limit", c.fence, c.holder, c.task, c.meta, c.value,
      @schema@.microseconds(now - @schema@.near(c.since, now)),
      greatest(@schema@.microseconds(@schema@.near(c.ends, now) - now), 1), false, c.kept
      into blocker from @schema@.claim c
      where c.key = acquire.key and c.broken is null and c.ends > now limit 1;
  elsif ahead > 0 then
    select t.* into blocker from @schema@.queue_of(acquire.key, acquire.key, now) t limit 1;
  else
    -- An open transaction has the key, and its changes are not visible yet.
    retry := 0;
    blocker := row(acquire.key, '', 1073741824, 1073741824, 0, 'an open transaction' ||
      coalesce((select ': server process ' || string_agg(o.pid::text, ', ')
        from @schema@.occupants(number) o), ''),
      '', '{}', null, 0, 0, false, false);
  end if;
end
$$;

-- attempt is acquire for programs that call it often. It returns the fence as text, or the row of
-- acquire as JSON. Most calls find a key without claims and queue entries, and one text costs less
-- to return than many columns.
create or replace function @schema@.attempt(
  key text, owner text, ttl interval, weight bigint, "limit" bigint,
  queue_ttl interval, floor bigint,
  holder text, task text, meta jsonb, value bytea, channel text, wait boolean
) returns text language plpgsql as $$
#variable_conflict use_column
declare
  now timestamptz;
  micros bigint;
  last bigint;
begin
  if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) 'pg_catalog' then
    return @schema@.attempt_anywhere(attempt.key, attempt.owner, attempt.ttl, attempt.weight,
      attempt."limit", attempt.queue_ttl, attempt.floor, attempt.holder, attempt.task, attempt.meta,
      attempt.value, attempt.channel, attempt.wait);
  end if;
  -- Acquire reports invalid arguments.
  if @schema@.is_claim(attempt.key, attempt.owner, attempt.ttl,
      attempt.weight, attempt."limit", attempt.meta)
    and pg_try_advisory_xact_lock(hashtextextended(attempt.key, @seed@))
    and current_setting('transaction_isolation') = 'read committed' then
    now := clock_timestamp();
    micros := @schema@.microseconds(now - timestamptz 'epoch');
    update @schema@.key k
      set fence = greatest(k.fence + 128, micros, attempt.floor), used = null, soon = null
      where k.key = attempt.key
        and greatest(k.fence + 128, micros, attempt.floor) <= 9007199254740864
        and attempt.floor <= greatest(k.fence, micros) + 3600000000
        and not exists (select from @schema@.claim c where c.key = attempt.key)
        and not exists (select from @schema@.queue q where q.key = attempt.key)
      returning k.fence into last;
    -- Acquire handles a key that was dropped before the clock was set back.
    if last is null and attempt.floor <= micros
      and not exists (select from @schema@.key k where k.key in (attempt.key, '')
        and (k.key <> '' or k.fence + 128 > micros)) then
      insert into @schema@.key as k (key, fence) select attempt.key, micros
        where not exists (select from @schema@.claim c where c.key = attempt.key)
          and not exists (select from @schema@.queue q where q.key = attempt.key)
        returning k.fence into last;
    end if;
    if last is not null then
      insert into @schema@.claim (key, owner, weight, "limit", fence, granted, holder, task, meta,
        value, since, ends)
        values (attempt.key, attempt.owner, attempt.weight, attempt."limit", last, last,
          attempt.holder, attempt.task, attempt.meta, attempt.value, now, now + attempt.ttl);
      return last;
    end if;
  end if;
  return (select row_to_json(a) from @schema@.acquire(attempt.key, attempt.owner, attempt.ttl,
    attempt.weight, attempt."limit", attempt.queue_ttl, attempt.floor,
    attempt.holder, attempt.task, attempt.meta, attempt.value, attempt.channel, attempt.wait) a);
end
$$;

-- attempt_anywhere is attempt for a caller with another search_path.
create or replace function @schema@.attempt_anywhere(
  key text, owner text, ttl interval, weight bigint, "limit" bigint,
  queue_ttl interval, floor bigint,
  holder text, task text, meta jsonb, value bytea, channel text, wait boolean
) returns text language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
#variable_conflict use_variable
begin
  return @schema@.attempt(key, owner, ttl, weight, "limit", queue_ttl, floor, holder, task, meta,
    value, channel, wait);
end
$$;

-- keep_far gives queue entries of one key a new end: those that a far attempt would keep unchanged.
-- It returns their positions in the arrays. At least 17 live entries are before each of them, and
-- 17 behind. The caller has the key, and another attempt with the same weight and limit was refused
-- before: neither a claim nor the head of the queue need be looked at for each entry.
create or replace function @schema@.keep_far(key text, weight bigint, "limit" bigint,
  queue_ttl interval, channel text, owners text[], holders text[], tasks text[], metas jsonb[],
  "values" bytea[], wanted bigint[]) returns setof bigint
language plpgsql set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  now constant timestamptz := clock_timestamp();
  low bigint; -- the number of the 17th entry
  high bigint; -- that of the 17th entry from the end
begin
  low := (select case when count(*) = 17 and min(q.ends) > now then max(q.number) end
    from (select q.number, q.ends from @schema@.queue q
      where q.key = keep_far.key and q.number > 0 order by q.number limit 17) q);
  high := (select case when count(*) = 17 and min(q.ends) > now then min(q.number) end
    from (select q.number, q.ends from @schema@.queue q
      where q.key = keep_far.key and q.number > 0 order by q.number desc limit 17) q);
  if low is null or high is null then
    return;
  end if;
  return query update @schema@.queue q set ends = now + keep_far.queue_ttl
    from (
      select w as number, (select e.ctid from @schema@.queue e
        where e.key = keep_far.key and e.owner = keep_far.owners[w]
          and e.number > low and e.number < high and e.ends > now and e.weight = keep_far.weight and e."limit" = keep_far."limit"
          and e.ttl = keep_far.queue_ttl and e.channel = keep_far.channel
          and e.holder = keep_far.holders[w] and e.task = keep_far.tasks[w]
          and e.meta = keep_far.metas[w] and e.value is not distinct from keep_far."values"[w]
          and not exists (select from @schema@.claim c where c.key = e.key and c.owner = e.owner)
        ) as row
      from unnest(keep_far.wanted) w offset 0
    ) f
    where q.ctid = f.row
    returning f.number;
end
$$;

-- attempt_all is attempt for many claims, with one answer for each, in order. One statement grants
-- the claims on keys without claims and queue entries. After an attempt was refused, one statement
-- answers all others on its key that only keep a queue entry far from the head: with thousands of
-- waiters, these are most attempts. The settings of attempt_all_anywhere, and
-- subqueries that return one row, keep the planner from reading whole tables for each claim: it
-- plans once, and the tables may be empty at that time.
create or replace function @schema@.attempt_all(
  keys text[], owners text[], ttls interval[], weights bigint[], limits bigint[],
  queue_ttls interval[], floors bigint[],
  holders text[], tasks text[], metas jsonb[], "values" bytea[], channels text[], waits boolean[]
) returns setof text language plpgsql as $$
#variable_conflict use_column
declare
  now timestamptz;
  micros bigint;
  ours boolean[]; -- the keys whose locks this transaction has
  numbers bigint[]; -- the positions of the granted claims, in order
  fences bigint[];
  at int := 1; -- the next of them
  granted text;
  answer text;
  answers text[]; -- those of far attempts, by position
  seen text[]; -- keys with a refused attempt
  others bigint[]; -- the positions of later attempts on such a key
  nth bigint;
begin
  if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) 'pg_catalog'
    or pg_catalog.current_setting('lock_timeout') operator(pg_catalog.<>) '200ms'
    -- A caller that sets this one sets all of them.
    or pg_catalog.current_setting('enable_mergejoin') operator(pg_catalog.<>) 'off' then
    return query select * from @schema@.attempt_all_anywhere(attempt_all.keys, attempt_all.owners,
      attempt_all.ttls, attempt_all.weights, attempt_all.limits, attempt_all.queue_ttls,
      attempt_all.floors, attempt_all.holders, attempt_all.tasks, attempt_all.metas,
        attempt_all."values", attempt_all.channels, attempt_all.waits);
    return;
  end if;
  if current_setting('transaction_isolation') = 'read committed' then
    ours := array(select pg_try_advisory_xact_lock(hashtextextended(k, @seed@))
      from unnest(attempt_all.keys) k);
    now := clock_timestamp();
    micros := @schema@.microseconds(now - timestamptz 'epoch');
    with free as materialized (
      -- Of two claims on one key, the later one is handled below, where it sees the first. So are
      -- invalid claims.
      -- row is null if the key is new or was dropped.
      select w.*, (select k.ctid from @schema@.key k where k.key = w.key collate "C") as row
      from unnest(attempt_all.keys, attempt_all.owners, attempt_all.ttls, attempt_all.weights,
        attempt_all.limits, attempt_all.floors, attempt_all.holders, attempt_all.tasks,
          attempt_all.metas, attempt_all."values", ours)
        with ordinality as w(key, owner, ttl, weight, "limit", floor, holder, task, meta, value,
          ours, number)
      where w.ours and array_position(attempt_all.keys, w.key) = w.number
        and @schema@.is_claim(w.key, w.owner, w.ttl, w.weight, w."limit", w.meta)
        and (select true from @schema@.claim c where c.key = w.key collate "C" limit 1) is null
        and (select true from @schema@.queue q where q.key = w.key collate "C" limit 1) is null
    ), used as materialized (
      update @schema@.key k
      set fence = greatest(k.fence + 128, micros, f.floor), used = null, soon = null from free f
      where k.ctid = f.row and greatest(k.fence + 128, micros, f.floor) <= 9007199254740864
        and f.floor <= greatest(k.fence, micros) + 3600000000
      returning k.fence, f.*
    ), unused as materialized (
      select micros as fence, f.* from free f where f.row is null and f.floor <= micros
        -- Not if the clock was set back: see attempt.
        and (select true from @schema@.key k where k.key = '' and k.fence + 128 > micros) is null
    ), noted as (
      insert into @schema@.key (key, fence) select u.key, u.fence from unused u
    ), granted as materialized (
      select * from used union all select * from unused
    ), claimed as (
      insert into @schema@.claim (key, owner, weight, "limit", fence, granted, holder, task, meta,
        value, since, ends)
      select g.key, g.owner, g.weight, g."limit", g.fence, g.fence, g.holder, g.task, g.meta,
        g.value, now, now + g.ttl from granted g
    )
    select array_agg(g.number order by g.number), array_agg(g.fence order by g.number)
      into numbers, fences from granted g;
    if cardinality(numbers) = cardinality(attempt_all.keys) then
      foreach granted in array fences loop
        return next granted;
      end loop;
      return;
    end if;
  end if;
  for i in 1..cardinality(attempt_all.keys) loop
    if numbers[at] = i then
      return next fences[at];
      at := at + 1;
      continue;
    elsif answers[i] is not null then
      return next answers[i];
      continue;
    end if;
    answer := @schema@.attempt(attempt_all.keys[i], attempt_all.owners[i], attempt_all.ttls[i],
      attempt_all.weights[i], attempt_all.limits[i], attempt_all.queue_ttls[i],
      attempt_all.floors[i], attempt_all.holders[i], attempt_all.tasks[i], attempt_all.metas[i],
      attempt_all."values"[i], attempt_all.channels[i], attempt_all.waits[i]);
    return next answer;
    continue when ours[i] is not true or attempt_all.queue_ttls[i] is null
      or attempt_all.keys[i] = any(seen)
      or array_position(attempt_all.keys, attempt_all.keys[i], i + 1) is null
      or not starts_with(answer, '{"answer":"-"');
    seen := seen || attempt_all.keys[i];
    others := array(select n from generate_series(i + 1, cardinality(attempt_all.keys)) n
      where attempt_all.keys[n] = attempt_all.keys[i] and attempt_all.ttls[n] = attempt_all.ttls[i]
        and attempt_all.weights[n] = attempt_all.weights[i]
        and attempt_all.limits[n] = attempt_all.limits[i]
        and attempt_all.queue_ttls[n] = attempt_all.queue_ttls[i]
        and attempt_all.floors[n] = attempt_all.floors[i]
        and attempt_all.channels[n] = attempt_all.channels[i]);
    -- They differ from this answer only by the position in the queue.
    answer := answer::jsonb || '{"ahead": 17, "behind": 17, "retry": null}';
    for nth in select @schema@.keep_far(attempt_all.keys[i], attempt_all.weights[i],
      attempt_all.limits[i], attempt_all.queue_ttls[i], attempt_all.channels[i],
      attempt_all.owners, attempt_all.holders, attempt_all.tasks, attempt_all.metas,
      attempt_all."values", others) loop
      answers[nth] := answer;
    end loop;
  end loop;
end
$$;

-- attempt_all_anywhere is attempt_all for a caller with other settings.
create or replace function @schema@.attempt_all_anywhere(
  keys text[], owners text[], ttls interval[], weights bigint[], limits bigint[],
  queue_ttls interval[], floors bigint[],
  holders text[], tasks text[], metas jsonb[], "values" bytea[], channels text[], waits boolean[]
) returns setof text language plpgsql
set search_path = pg_catalog set lock_timeout = '200ms'
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_variable
begin
  return query select * from @schema@.attempt_all(keys, owners, ttls, weights, limits, queue_ttls,
    floors, holders, tasks, metas, "values", channels, waits);
end
$$;

-- claims_of returns the live claims of a range of keys, oldest first.
create or replace function @schema@.claims_of(low text, high text, now timestamptz)
  returns setof @schema@.claim_info
language sql stable as $$
  select c.key, c.owner, c.weight, c."limit", c.fence, c.holder, c.task, c.meta, c.value,
    @schema@.microseconds(claims_of.now - @schema@.near(c.since, claims_of.now)),
    greatest(@schema@.microseconds(@schema@.near(c.ends, claims_of.now) - claims_of.now), 1),
    false, c.kept
  from @schema@.claim c
  where c.key between claims_of.low and claims_of.high and c.broken is null
    and c.ends > claims_of.now
  order by c.key, c.granted
$$;

-- queue_of returns the queues of a range of keys.
create or replace function @schema@.queue_of(low text, high text, now timestamptz)
  returns setof @schema@.claim_info
language sql stable as $$
  select q.key, q.owner, q.weight, q."limit", 0::bigint, q.holder, q.task, q.meta, q.value,
    @schema@.microseconds(queue_of.now - @schema@.near(q.since, queue_of.now)),
    greatest(@schema@.microseconds(@schema@.near(q.ends, queue_of.now) - queue_of.now), 1),
    true, false
  from @schema@.queue q
  where q.key between queue_of.low and queue_of.high and q.ends > queue_of.now
  order by q.key, q.number
$$;

-- show returns the live claims on a key, oldest first, and then its queue.
create or replace function @schema@.show(key text) returns setof @schema@.claim_info
language sql stable set search_path = pg_catalog set lock_timeout = '200ms' as $$
  select * from @schema@.claims_of(key, key, clock_timestamp())
  union all
  select * from @schema@.queue_of(key, key, clock_timestamp())
$$;

-- list returns the claims and queue entries of the keys that begin with a prefix and come after a
-- key, grouped by key, for at most this many keys. No rows: there are no more keys.
create or replace function @schema@.list(prefix text, after text default '', keys int default 100)
  returns setof @schema@.claim_info
language sql stable set search_path = pg_catalog set lock_timeout = '200ms' as $$
  -- Every key of a page must have rows in the result, so ended claims are left out here too, by the
  -- same clock.
  with moment as materialized (
    select clock_timestamp() as now
  ), page as (
    select key from (
      (select distinct c.key from @schema@.claim c
        where c.key > list.after and c.key >= list.prefix and starts_with(c.key, list.prefix)
        and c.broken is null and c.ends > (select now from moment) order by c.key limit list.keys)
      union
      (select distinct q.key from @schema@.queue q
        where q.key > list.after and q.key >= list.prefix and starts_with(q.key, list.prefix)
        and q.ends > (select now from moment) order by q.key limit list.keys)
    ) either order by key limit list.keys
  )
  select t.* from moment, page, lateral (
    select * from @schema@.claims_of(page.key, page.key, moment.now)
    union all
    select * from @schema@.queue_of(page.key, page.key, moment.now)
  ) t order by page.key collate "C", t.waiting
$$;

-- renew gives a live claim a new TTL. The answer is + (done), n (not held) or b (broken, with the
-- reason). A null value leaves the value unchanged. A record changes only if keep is true again.
create or replace function @schema@.renew(
  key text, owner text, ttl interval, value bytea default null, keep boolean default false,
  out answer text, out behind bigint, out reason text
) language plpgsql set search_path = pg_catalog set lock_timeout = '200ms'
set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  until timestamptz;
begin
  if (@schema@.is_ttl(renew.ttl) and renew.keep is not null
    and (renew.value is null or octet_length(renew.value) <= 65537)) is not true then
    raise exception 'distlock: %', case
        when @schema@.is_ttl(renew.ttl) is not true then 'ttl must be above 0 and at most 292 years'
        when renew.keep is null then 'keep must not be null'
        else 'value must have at most 65537 bytes' end
      using errcode = 'invalid_parameter_value';
  end if;
  update @schema@.claim c
    set ends = case when c.kept and not renew.keep then c.ends
        else clock_timestamp() + renew.ttl end,
      value = case when c.kept and not renew.keep then c.value
        else coalesce(renew.value, c.value) end,
      kept = c.kept or renew.keep
    where c.key = renew.key and c.owner = renew.owner and c.broken is null
      and c.ends > clock_timestamp()
    returning c.ends into until;
  if not found then
    select c.broken into reason from @schema@.claim c
      where c.key = renew.key and c.owner = renew.owner and c.broken is not null
        and c.ends > clock_timestamp();
    answer := case when found then 'b' else 'n' end;
    return;
  end if;
  answer := '+';
  insert into @schema@.freed select k.key, 0, until from @schema@.key k
    where k.key = renew.key and k.soon > until;
  behind := (select count(*) from (select from @schema@.queue q where q.key = renew.key
    and q.number > 0 and q.ends > clock_timestamp() order by q.number limit 17) q);
  if renew.keep then
    perform @schema@.notify_key('k', renew.key);
  end if;
end
$$;

-- renew_all renews many claims and returns one answer for each, in order: an answer of renew, or w
-- if another transaction has locked the claim (renew may wait for it) or if the ttl is invalid
-- (renew reports it).
create or replace function @schema@.renew_all(keys text[], owners text[], ttls interval[])
returns table (answer text, behind bigint, reason text)
language sql set search_path = pg_catalog set lock_timeout = '200ms'
set enable_bitmapscan = off as $$
  with wanted as materialized (
    select w.* from unnest(renew_all.keys, renew_all.owners, renew_all.ttls)
      with ordinality as w(key, owner, ttl, number)
  ), ours as materialized (
    -- Row by row through the index: the planner assumes short arrays and a small table.
    select l.key, l.owner, w.ttl, w.number from wanted w, lateral (
      select c.key, c.owner from @schema@.claim c
      where c.key = w.key collate "C" and c.owner = w.owner collate "C" and c.broken is null
        and c.ends > clock_timestamp() and @schema@.is_ttl(w.ttl)
      for update skip locked
    ) l
  ), renewed as materialized (
    update @schema@.claim c
    set ends = case when c.kept then c.ends else clock_timestamp() + o.ttl end from ours o
    where c.key = o.key and c.owner = o.owner
    returning o.number, c.key, c.ends
  ), sooner as (
    insert into @schema@.freed select r.key, 0, r.ends from renewed r
    where r.ends < (select k.soon from @schema@.key k where k.key = r.key)
  )
  -- A subquery is always hashed, whatever the planner assumes about its size. A join may not be.
  select case when w.number in (select r.number from renewed r) then '+'
      else coalesce((select case when c.broken is null then 'w' else 'b' end from @schema@.claim c
        where c.key = w.key collate "C" and c.owner = w.owner collate "C"
          and c.ends > clock_timestamp()), 'n') end,
    (select count(*) from (select from @schema@.queue q where q.key = w.key collate "C"
      and q.number > 0 and q.ends > clock_timestamp() order by q.number limit 17) q),
    (select c.broken from @schema@.claim c
      where c.key = w.key collate "C" and c.owner = w.owner collate "C"
        and c.ends > clock_timestamp() and c.broken is not null)
  from wanted w order by w.number
$$;

-- release ends a live claim or removes a queue entry. It returns false if the owner has neither. It
-- returns null if another transaction has the key and wait is false, or has locked the claim and
-- wait is null. Then nothing was changed.
--
-- With the key's lock, release sees every waiter, and later waiters see the release. Another
-- transaction that has the key may be about to add a waiter that is not visible yet. Then release
-- notifies all watchers of the key: a waiter watches before its attempt.
create or replace function @schema@.release(key text, owner text, wait boolean) returns boolean
language plpgsql as $$
#variable_conflict use_column
declare
  number bigint;
  ours boolean;
  awaited boolean;
  held boolean;
  freed bigint; -- the weight of the claim
begin
  if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) 'pg_catalog'
    or pg_catalog.current_setting('lock_timeout') operator(pg_catalog.<>) '200ms' then
    return @schema@.release_anywhere(release.key, release.owner, release.wait);
  end if;
  number := hashtextextended(release.key, @seed@);
  if release.wait is null then
    perform from @schema@.claim c where c.key = release.key and c.owner = release.owner
      for update skip locked;
    if not found and exists (select from @schema@.claim c
      where c.key = release.key and c.owner = release.owner) then
      return null;
    end if;
  end if;
  loop
    ours := pg_try_advisory_xact_lock(number);
    delete from @schema@.claim c where c.key = release.key and c.owner = release.owner
      and c.broken is null and c.ends > clock_timestamp()
      returning exists (
        select from @schema@.queue q where q.key = release.key
        union all select from @schema@.observer o where o.key = release.key), c.weight
      into awaited, freed;
    held := found;
    exit when held or ours;
    -- The transaction that has the key may be granting it to this owner. The claim is visible when
    -- that transaction has ended. Until then the queue entry proves nothing either.
    if release.wait is not true then
      return null;
    end if;
    perform pg_advisory_xact_lock(number);
  end loop;
  if not held then
    delete from @schema@.queue q where q.key = release.key and q.owner = release.owner
      and q.ends > clock_timestamp();
    if not found then
      return false;
    end if;
    awaited := true;
  elsif freed < 1073741824 and ours then
    update @schema@.key k set used = k.used - freed
      where k.key = release.key and k.used is not null;
  elsif freed < 1073741824 then
    insert into @schema@.freed values (release.key, freed, null);
  end if;
  if not ours then
    perform @schema@.notify_key('k', release.key);
  elsif awaited then
    if held and exists (select from @schema@.observer o
      where o.key = release.key and o.ends > clock_timestamp()) then
      perform @schema@.notify_key('o', release.key);
    end if;
    perform @schema@.promote(release.key, 9223372036854775807);
  end if;
  return true;
end
$$;

-- release_anywhere is release for a caller with other settings.
create or replace function @schema@.release_anywhere(key text, owner text, wait boolean)
  returns boolean
language plpgsql set search_path = pg_catalog set lock_timeout = '200ms'
set enable_sort = off set jit = off as $$
#variable_conflict use_variable
begin
  return @schema@.release(key, owner, wait);
end
$$;

-- release without the argument wait waits.
create or replace function @schema@.release(key text, owner text) returns boolean
language plpgsql as $$
#variable_conflict use_variable
begin
  return @schema@.release(key, owner, true);
end
$$;

-- release_all releases many claims and returns one answer for each, in order. One statement ends
-- the claims on keys without waiters.
create or replace function @schema@.release_all(keys text[], owners text[], waits boolean[])
  returns setof boolean language plpgsql
set search_path = pg_catalog set lock_timeout = '200ms'
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  ours boolean[] := array(select pg_try_advisory_xact_lock(hashtextextended(k, @seed@))
    from unnest(release_all.keys) k);
  numbers bigint[]; -- the positions of the ended claims, in order
  at int := 1; -- the next of them
begin
  with ended as (
    delete from @schema@.claim c using (
      select w.number, (select c.ctid from @schema@.claim c
        where c.key = w.key collate "C" and c.owner = w.owner collate "C") as row
      from unnest(release_all.keys, release_all.owners, ours)
        with ordinality as w(key, owner, ours, number)
      where w.ours
        and (select true from @schema@.queue q where q.key = w.key collate "C" limit 1) is null
        and (select true from @schema@.observer o where o.key = w.key collate "C" limit 1) is null
      offset 0
    ) w
    where c.ctid = w.row and c.broken is null and c.ends > clock_timestamp()
      and (c.weight = 1073741824
        or (select k.used from @schema@.key k where k.key = c.key) is null)
    returning w.number
  )
  select array_agg(e.number order by e.number) into numbers from ended e;
  for i in 1..cardinality(release_all.keys) loop
    if numbers[at] = i then
      return next true;
      at := at + 1;
    else
      return next @schema@.release(release_all.keys[i], release_all.owners[i],
        release_all.waits[i]);
    end if;
  end loop;
end
$$;

-- release_all without waits waits. If one wait times out, nothing is released.
create or replace function @schema@.release_all(keys text[], owners text[]) returns setof boolean
language sql set search_path = pg_catalog as $$
  select @schema@.release_all(keys, owners, array_fill(true, array[cardinality(keys)]))
$$;

-- break ends the claims on a key whose fence is at most up_to, or all of them if up_to is 0, and
-- returns them.
create or replace function @schema@.break(key text, reason text, up_to bigint)
returns setof @schema@.claim_info
language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
#variable_conflict use_column
declare
  now timestamptz;
begin
  if break.reason is null then -- a null in the column broken means not broken
    raise exception 'distlock: reason must not be null' using errcode = 'invalid_parameter_value';
  elsif (break.up_to >= 0) is not true then
    raise exception 'distlock: up_to must be 0 or above' using errcode = 'invalid_parameter_value';
  end if;
  perform pg_advisory_xact_lock(hashtextextended(break.key, @seed@));
  perform from @schema@.claim c where c.key = break.key order by c.owner for update;
  now := clock_timestamp();
  return query select * from @schema@.claims_of(break.key, break.key, now) c
    where break.up_to = 0 or c.fence <= break.up_to;
  -- The reason stays for an hour at most: a record may live for ever.
  update @schema@.claim c set broken = break.reason, ends = least(c.ends, now + interval '1 hour')
    where c.key = break.key and c.broken is null and c.ends > now
      and (break.up_to = 0 or c.fence <= break.up_to);
  if found then
    update @schema@.key k set used = null, soon = null
      where k.key = break.key and k.used is not null;
    perform @schema@.notify_key('o', break.key);
    perform @schema@.promote(break.key, 9223372036854775807);
  end if;
end
$$;

-- break without up_to ends all claims on a key.
create or replace function @schema@.break(key text, reason text) returns setof @schema@.claim_info
language sql set search_path = pg_catalog as $$
  select * from @schema@.break(key, reason, 0)
$$;

-- watch records that a process watches a key without a claim.
create or replace function @schema@.watch(key text, ttl interval) returns void
language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
#variable_conflict use_column
begin
  if (@schema@.is_key(watch.key) and @schema@.is_ttl(watch.ttl)) is not true then
    raise exception 'distlock: %', case
      when @schema@.is_key(watch.key) then 'ttl must be above 0 and at most 292 years'
      else 'key must have 1 to 512 bytes' end
      using errcode = 'invalid_parameter_value';
  end if;
  insert into @schema@.observer as o (key, ends) values (watch.key, clock_timestamp() + watch.ttl)
    on conflict (key) do update set ends = greatest(o.ends, excluded.ends);
end
$$;

-- sweep checks some keys. If the clock has passed the last fence of a key by ten minutes, sweep
-- deletes the ended rows of the key, and the key itself if nothing else is left. The row of the
-- empty key, which no claim can have, keeps the highest fence of all deleted keys, because the
-- clock may be set back. Sweep returns the number of deleted rows, and does nothing while another
-- sweep runs. Until the transaction ends, attempts on the deleted keys are refused, so sweep needs
-- a transaction of its own.
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
  -- Each key is locked until the transaction ends, and the server has memory for some thousand
  -- locks.
  if (sweep.step between 1 and 1000) is not true then
    raise exception 'distlock: step must be 1 to 1000' using errcode = 'invalid_parameter_value';
  end if;
  select s.after into last from @schema@.sweeper s for update skip locked;
  if not found then
    return 0;
  end if;
  select array_agg(k.key) filter (where k.fence < past), count(*), max(k.key)
    into page, looked, last
    from (select k.key, k.fence from @schema@.key k where k.key > last
      order by k.key limit sweep.step) k;
  -- After the last key, sweep continues with the first.
  update @schema@.sweeper set after = case when looked < sweep.step then '' else last end;
  delete from @schema@.observer o using (
    select e.key from @schema@.observer e where e.ends <= clock_timestamp() for update skip locked
  ) gone where o.key = gone.key;
  if page is null then
    return 0;
  end if;
  delete from @schema@.claim c using (
    select e.key, e.owner from @schema@.claim e where e.key = any (page)
      and e.ends <= clock_timestamp() for update skip locked
  ) gone where c.key = gone.key and c.owner = gone.owner;
  get diagnostics n = row_count;
  dropped := dropped + n;
  delete from @schema@.queue q using (
    select e.key, e.owner from @schema@.queue e where e.key = any (page)
      and e.ends <= clock_timestamp() for update skip locked
  ) gone where q.key = gone.key and q.owner = gone.owner;
  get diagnostics n = row_count;
  dropped := dropped + n;
  -- A key that was used in the meantime has a new fence and does not count as idle.
  with idle as materialized (
    select k.key from @schema@.key k
    where k.key = any (page) and k.fence < past
      and not exists (select from @schema@.claim c where c.key = k.key)
      and not exists (select from @schema@.queue q where q.key = k.key)
  ), free as materialized (
    select i.key from idle i where pg_try_advisory_xact_lock(hashtextextended(i.key, @seed@))
  ), counted as (
    delete from @schema@.freed c using free f where c.key = f.key
  ), gone as (
    delete from @schema@.key k using free f where k.key = f.key and k.fence < past returning k.fence
  )
  select count(*), max(g.fence) into n, high from gone g;
  if n > 0 then
    insert into @schema@.key as k (key, fence) values ('', high)
      on conflict on constraint key_pkey do update set fence = greatest(k.fence, excluded.fence);
  end if;
  return dropped + n;
end
$$;

-- wrong_lock returns the rule that the name or the holder of a lock breaks, or null. People see
-- both.
create or replace function @schema@.wrong_lock(name text, holder text) returns text
language sql immutable parallel safe
return case
  when (octet_length(name) between 1 and 255) is not true then 'name must have 1 to 255 bytes'
  when (octet_length(holder) between 1 and 255) is not true then 'holder must have 1 to 255 bytes'
end;

-- acquire_lock acquires a lock by name. It returns true if the holder now has the lock, for this
-- many seconds. A second call of the same holder extends the lock. The default TTL is the default
-- of all programs. The holder is only a text: use a name that nobody else uses, such as host and
-- process. acquire_lock does not sweep, because the caller's transaction would block the deleted
-- keys until it ends.
create or replace function @schema@.acquire_lock(name text, holder text,
  ttl_seconds double precision default 30, metadata jsonb default '{}')
returns boolean language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
declare
  why constant text := coalesce(@schema@.wrong_lock(name, holder), case
    when (ttl_seconds > 0 and ttl_seconds <= 9223372036) is not true
      then 'ttl_seconds must be above 0 and at most 9223372036, which is 292 years'
    when (jsonb_typeof(metadata) = 'object') is not true then 'metadata must be a JSON object'
    when octet_length(metadata::text) > 4096 then 'metadata must have at most 4096 bytes' end);
  answer text;
begin
  if why is not null then
    raise exception 'distlock: %', why using errcode = 'invalid_parameter_value';
  end if;
  answer := @schema@.attempt(@schema@.lock_key(name), 'sql/' || holder,
    greatest(ttl_seconds * interval '1 second', interval '1 microsecond'),
    1073741824, 1073741824, null, 0, @schema@.storable(holder), '', metadata, null, '', true);
  return not starts_with(answer, '{') or answer::jsonb ->> 'answer' in ('+', '=');
end
$$;

-- release_lock releases a lock. It returns true if the holder had it.
create or replace function @schema@.release_lock(name text, holder text) returns boolean
language plpgsql set search_path = pg_catalog set lock_timeout = '200ms' as $$
begin
  if @schema@.wrong_lock(name, holder) is not null then
    raise exception 'distlock: %', @schema@.wrong_lock(name, holder)
      using errcode = 'invalid_parameter_value';
  end if;
  return @schema@.release(@schema@.lock_key(name), 'sql/' || holder, true);
end
$$;

-- The held locks, for people. The owner is shown as its tag. The key is for functions, and
-- separates the lock ~sem/a from the semaphore a.
create or replace view @schema@.locks as
  select @schema@.lock_name(c.key) as name, @schema@.readable(c.holder) as holder, c.fence,
    c.weight, c."limit", @schema@.tag(c.owner) as owner,
    @schema@.readable(c.task) as task, c.meta as metadata, c.kept,
    c.since as acquired_at, c.ends as expires_at,
    (select count(*) from @schema@.queue q
      where q.key = c.key and q.ends > clock_timestamp()) as waiting,
    c.key
  from @schema@.claim c where c.broken is null and c.ends > clock_timestamp();

-- The waiters, for people. Position 1 is next.
create or replace view @schema@.waiters as
  select @schema@.lock_name(q.key) as name,
    row_number() over (partition by q.key order by q.number) as position,
    @schema@.readable(q.holder) as holder, q.weight, q."limit", @schema@.tag(q.owner) as owner,
    @schema@.readable(q.task) as task, q.meta as metadata, q.since as waiting_since, q.ends as expires_at, q.key
  from @schema@.queue q where q.ends > clock_timestamp();
