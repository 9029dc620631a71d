-- The functions that all scripts share. They need floor, call, and now in microseconds. Scripts
-- read before they write, so that an error of the first write leaves nothing half done.

local WHOLE, SPAN, LAST = 1073741824, 128, 9007199254740864 -- LAST is the highest fence of a grant
local MARK = 'distlock:shared' -- the value of the name while shared claims live
local STEP = 100 -- how many ended claims or queue entries one call removes
local KEEP = 60000 -- ms by which data outlives the claim or entry that it belongs to

-- The set has three kinds of members. Their ranges of scores are disjoint:
--   q<owner>  the queue, in order: below 0
--   s<owner>  shared claims, by their ends in ms: 0 to ENTRIES
--   e<owner>  queue entries, by their ends in ms: from ENTRIES
local ENTRIES = 100000000000000
local FIRST = 9007199254740992 -- subtracted from a time in us

local nowms = now / 1000

-- The keys of a name, and the state that was read from them. open sets all of them.
local name, hash, set
local held -- the value of the name, or false
local alone -- the value of the name is MARK, and the shared claims are lost
local latest -- the owner of the exclusive claim that was granted last
local last -- the highest fence that was granted
local used -- the sum of the weights of the shared claims
local waiting -- how many entries the queue has
-- long is 1 if hash or set may live for more than ten minutes, or the exclusive claim is a record.
local long
local soon -- a time in ms before which no queue entry ends
local lives -- a time in ms until which the hash lives, and the set if it exists
local tail -- the order of the last queue entry
-- observers is a letter for the command that notifies observers, and until when they observe, in ms;
-- or ''.
local observers
local was -- last and the seven others as text, as the hash has them

local function digits(n) return string.format('%.0f', n) end

local function open(i)
  name, hash, set = KEYS[i], KEYS[i + 1], KEYS[i + 2]
  local got = call('HMGET', hash, 'last', 'owner')
  held = call('GET', name)
  was, latest = got[1] or '', got[2]
  local a, b, c, d, e, f, g, h = string.match(was, '^(%d+) (%d+) (%d+) (%d) (%d+) (%d+) (%d+) (.*)$')
  last = tonumber(a or was) or 0
  used, waiting, long = tonumber(b or 0), tonumber(c or 0), tonumber(d or 0)
  soon, lives, tail, observers = tonumber(e or 0), tonumber(f or 0), tonumber(g or 0), h or ''
  alone = held == MARK and used == 0
end

-- exclusive reports whether one holder has the whole name: a claim of ours or another client. A
-- MARK without shared claims is waited out like another client: its holders may still trust their
-- claims.
local function exclusive() return held and (held ~= MARK or alone) end

-- taken returns how much of the key is taken.
local function taken() return exclusive() and WHOLE or used end

-- memory returns how long the hash must live for its last fence, in ms. Acquire and release let it
-- live up to ten seconds less.
local function memory() return 600000 + math.max(0, math.ceil((last - now) / 1000)) end

-- keep lets the hash outlive data that lives for so many ms.
local function keep(life)
  if life + KEEP > memory() then long = 1 end
  life = math.max(life + KEEP, memory())
  if call('PTTL', hash) < life then call('PEXPIRE', hash, digits(life)) end
end

-- keepSet does the same for the set.
local function keepSet(ends)
  ends = math.max(ends + KEEP, lives)
  if call('PTTL', set) < ends - nowms then call('PEXPIREAT', set, digits(ends)) end
end

-- recorded reports whether the exclusive claim is a record, which no fast path may renew.
local function recorded()
  if not held or latest ~= held then return false end
  return string.find(call('HGET', hash, 'claim') or '', '^%d+ %d+ %d+ %d+ %d+ 1 ') ~= nil
end

-- fit gives hash and set the life that their contents and the last fence need. It is called when
-- one of them may live too long, because data with a long life may have been removed.
local function fit()
  local shared = call('ZREVRANGEBYSCORE', set, '(' .. digits(ENTRIES), '0', 'WITHSCORES', 'LIMIT', 0, 1)[2] or 0
  local entry = (call('ZREVRANGEBYSCORE', set, '+inf', digits(ENTRIES), 'WITHSCORES', 'LIMIT', 0, 1)[2] or 0) - ENTRIES
  local longest = math.max(shared, entry) - nowms
  if longest > 0 then call('PEXPIRE', set, digits(longest + KEEP)) end
  if exclusive() then longest = math.max(longest, call('PTTL', name)) end
  if observers ~= '' then longest = math.max(longest, string.sub(observers, 2) - nowms) end
  call('PEXPIRE', hash, digits(math.max(longest + KEEP, memory())))
  lives = 0
  long = (longest + KEEP > memory() or recorded()) and 1 or 0
end

-- close writes the changed state.
local function close()
  if long > 0 then fit() end
  local text = last > 0 and digits(last) or ''
  if used > 0 or waiting > 0 or long > 0 or observers ~= '' then
    text = digits(last) .. ' ' .. digits(used) .. ' ' .. digits(waiting) .. ' ' .. long .. ' ' ..
      digits(soon) .. ' ' .. digits(lives) .. ' ' .. digits(tail) .. ' ' .. observers
  end
  if text == was then return end
  if text == '' then call('HDEL', hash, 'last') else call('HSET', hash, 'last', text) end
end

-- A record is a claim or a queue entry as text:
-- "weight limit fence since order kept length-of-who length-of-channel\n" who channel value
-- Order is the fence of the grant, which a Floor does not raise. In a queue entry, order is the end
-- of the entry in ms, and fence is its requested life in ms.
local function pack(c)
  return digits(c.weight) .. ' ' .. digits(c.limit) .. ' ' .. digits(c.fence) .. ' ' ..
    digits(c.since) .. ' ' .. digits(c.order) .. ' ' .. c.kept .. ' ' .. #c.who .. ' ' .. #c.channel .. '\n' .. c.who .. c.channel .. c.value
end

local function parse(owner, text)
  local weight, limit, fence, since, order, kept, who, channel, at =
    string.match(text or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+)\n()')
  if not at then return nil end
  who, channel = tonumber(who), tonumber(channel)
  return {
    owner = owner, weight = tonumber(weight), limit = tonumber(limit), fence = tonumber(fence),
    since = tonumber(since), order = tonumber(order), kept = kept,
    who = string.sub(text, at, at + who - 1),
    channel = string.sub(text, at + who, at + who + channel - 1),
    value = string.sub(text, at + who + channel),
  }
end

-- data returns the record of a shared claim ("s") or a queue entry ("e").
local function data(kind, owner) return parse(owner, call('HGET', hash, kind .. owner)) end

-- mark sets or deletes MARK, so that other clients see the name as taken while shared claims live.
local function mark()
  if exclusive() then return end
  local longest = call('ZREVRANGEBYSCORE', set, '(' .. digits(ENTRIES), '0', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if longest then
    -- The clock that expires keys is never ahead of TIME, by which shared claims end: MARK ends
    -- last.
    call('SET', name, MARK, 'PXAT', longest)
    held = MARK
    return
  end
  used = 0
  if held then call('DEL', name) end
  held = false
end

local function forget(owner)
  local c = data('s', owner)
  call('ZREM', set, 's' .. owner)
  call('HDEL', hash, 's' .. owner)
  used = math.max(0, used - (c and c.weight or 0))
end

local function dequeue(owner)
  if waiting == 0 or call('ZREM', set, 'q' .. owner, 'e' .. owner) == 0 then return false end
  call('HDEL', hash, 'e' .. owner)
  waiting = waiting - 1
  return true
end

-- ended returns up to STEP owners whose scores, from a base, have passed.
local function ended(base)
  local members = call('ZRANGEBYSCORE', set, digits(base), string.format('%.3f', base + nowms), 'LIMIT', 0, STEP)
  for i, m in ipairs(members) do members[i] = string.sub(m, 2) end
  return members
end

-- shorten limits the head of the queue to its requested life if the clock was set back: the waiter
-- may have died.
local function shorten()
  local owner = string.sub(call('ZRANGE', set, 0, 0)[1] or '', 2)
  local c = data('e', owner)
  if not c or c.fence == 0 or c.order - nowms <= c.fence + 1 then return end
  c.order = math.ceil(nowms) + c.fence
  soon = math.min(soon, c.order)
  call('ZADD', set, digits(ENTRIES + c.order), 'e' .. owner)
  call('HSET', hash, 'e' .. owner, pack(c))
end

-- sweep removes ended claims and queue entries, in bounded steps. Those that it does not reach
-- count as live.
local function sweep()
  if used > 0 then
    local owners = ended(0)
    for _, owner in ipairs(owners) do forget(owner) end
    if #owners > 0 or not held then mark() end
  end
  -- The release of an exclusive claim limits the head in the same way when it hands the name over.
  if waiting > 0 and not exclusive() then shorten() end
  if waiting > 0 and soon <= nowms + 1000 then -- the end is near: read the exact one
    for _, owner in ipairs(ended(ENTRIES)) do dequeue(owner) end
    waiting = call('ZCOUNT', set, '-inf', '(0')
    soon = (call('ZRANGEBYSCORE', set, digits(ENTRIES), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or ENTRIES) - ENTRIES
  end
end

-- rise sets last to the fence of the next grant.
local function rise(floor)
  local note
  last, note = floored(last, math.max(last + SPAN, now, floor))
  noteFloor(note)
end

-- own returns the live claim of an owner, or nil.
local function own(owner)
  if held == owner then
    local c = latest == owner and parse(owner, call('HGET', hash, 'claim'))
    if c then return c end
    -- The name has the owner as its value, and the data is lost. The claim starts again.
    rise(0)
    return {
      owner = owner, weight = WHOLE, limit = WHOLE, fence = last, since = now, order = last, kept = 0,
      who = '', channel = '', value = '',
    }
  end
  if used == 0 then return nil end
  local ends = call('ZSCORE', set, 's' .. owner)
  if not ends or tonumber(ends) <= nowms then return nil end
  return data('s', owner)
end

-- put writes a claim that ends at a time in ms.
local function put(c, ends)
  if c.weight == WHOLE then
    call('HSET', hash, 'owner', c.owner, 'claim', pack(c))
    latest = c.owner
  else
    call('ZADD', set, digits(ends), 's' .. c.owner)
    call('HSET', hash, 's' .. c.owner, pack(c))
    mark()
    keepSet(ends)
  end
  keep(ends - nowms)
end

-- grant gives a claim its fence and a life of so many ms, and writes it.
local function grant(c, floor, life)
  rise(floor)
  c.fence, c.order = last, last
  if c.weight == WHOLE then
    call('SET', name, c.owner, 'PX', digits(life))
    held = c.owner
  else
    used = used + c.weight
  end
  put(c, math.ceil(nowms) + life)
end

-- renew gives a live claim a life of so many ms from now, and writes it. It begins with a command
-- that a full server allows, and then the others follow: a renewed claim takes no more memory.
local function renew(c, life)
  if c.weight == WHOLE then call('PEXPIRE', name, digits(life)) else call('HDEL', hash, '') end
  put(c, math.ceil(nowms) + life)
end

-- remaining returns how many ms a live claim has left.
local function remaining(c)
  if c.weight == WHOLE then return call('PTTL', name) end
  return call('ZSCORE', set, 's' .. c.owner) - nowms
end

-- lower lowers the weight of a live claim, which is written next. The name is not free at any
-- moment.
local function lower(c, weight)
  if c.weight == WHOLE then
    used, held, latest = weight, MARK, false
    call('HDEL', hash, 'owner', 'claim')
  else
    used = used - c.weight + weight
  end
  c.weight = weight
end

-- notify publishes "fence behind owner" to a channel; the fence is 0 if nothing was granted. The
-- first letter of the channel selects the command. A user without the permission to publish does
-- not make the script fail.
local function notify(channel, message)
  if channel == '' then return end
  redis.pcall(string.sub(channel, 1, 1) == 's' and 'SPUBLISH' or 'PUBLISH', string.sub(channel, 2), message)
end

-- notifyObservers notifies those that observe the key without a claim.
local function notifyObservers()
  if observers == '' then return end
  if tonumber(string.sub(observers, 2)) > nowms then
    notify(string.sub(observers, 1, 1) .. '{' .. name .. '}:wake', '0 0 ')
  else
    observers = ''
  end
end

-- promote grants to the head of the queue while it fits, for the remaining life of the entry, and
-- notifies the owner. If the clock was set back, the life is at most the requested one: the waiter
-- may have died.
local function promote()
  for _ = 1, STEP do
    local head = waiting > 0 and call('ZRANGE', set, 0, 0)[1]
    if not head then return end
    local owner = string.sub(head, 2)
    local c = data('e', owner)
    local left = (c and c.order or 0) - nowms
    if c and c.fence > 0 then left = math.min(left, c.fence) end -- other programs may have written 0
    if left <= 0 then
      dequeue(owner)
    else
      if taken() + c.weight > c.limit or math.max(last + SPAN, now) > LAST then return end
      local channel = c.channel
      c.channel, c.since = '', now
      dequeue(owner)
      grant(c, 0, math.ceil(left))
      notify(channel, digits(c.fence) .. ' ' .. waiting .. ' ' .. owner)
    end
  end
end

-- enqueue adds an entry to the end of the queue, or renews the entry at a position. It returns the
-- position.
local function enqueue(c, at, life)
  local ends = math.ceil(nowms) + life
  c.order, c.fence = ends, life
  if waiting == 0 or ends < soon then soon = ends end
  if at then
    local old = data('e', c.owner)
    c.since = old and old.since or now
  else
    tail = waiting > 0 and math.max(now, tail + 1) or now -- the order rises, whatever the clock does
    call('ZADD', set, digits(tail - FIRST), 'q' .. c.owner)
    at = waiting
    waiting = waiting + 1
  end
  call('ZADD', set, digits(ENTRIES + ends), 'e' .. c.owner)
  call('HSET', hash, 'e' .. c.owner, pack(c))
  keep(life)
  keepSet(ends)
  return at
end

-- show formats a claim for an answer. Kind is "c" for a claim, "p" for a queue entry, "o" for
-- another client.
local function show(kind, c, left)
  return kind .. ' ' .. digits(math.max(0, math.ceil(left))) .. ' ' ..
    digits(math.max(0, now - c.since)) .. ' ' .. digits(c.weight) .. ' ' .. digits(c.limit) .. ' ' ..
    (kind == 'p' and '0' or digits(c.fence)) .. ' ' .. digits(c.order) .. ' ' .. c.kept .. ' ' ..
    #c.owner .. ' ' .. #c.who .. ' ' .. #c.value .. '\n' ..
    c.owner .. c.who .. c.value
end

-- holder returns the exclusive claim, or the other client that holds the name, how many ms it has
-- left (0 means for ever), and its fence.
local function holder()
  local left = call('PTTL', name) + 1 -- the key exists until its time has passed
  local c = latest == held and parse(held, call('HGET', hash, 'claim'))
  if c then return show('c', c, left), left, c.fence end
  local other = {
    owner = held, weight = WHOLE, limit = WHOLE, fence = 0, since = now, order = 0, kept = 0,
    who = '', value = '',
  }
  return show('o', other, left), left, 0
end

-- inTheWay returns the claim that ends first, and in how many ms: 1 if it has ended, and one of the
-- next calls removes it.
local function inTheWay()
  if exclusive() then return holder() end
  local first = call('ZRANGEBYSCORE', set, '0', '(' .. digits(ENTRIES), 'WITHSCORES', 'LIMIT', 0, 1)
  local c = first[1] and data('s', string.sub(first[1], 2))
  if not c then return '', 0 end
  local left = math.max(1, first[2] - nowms)
  return show('c', c, left), left
end

-- soonest returns in how many ms the first entry before a position ends, or the first of all
-- entries if the position is nil; 0 if it is not among the 16 entries that end first.
local function soonest(at)
  local ends = call('ZRANGEBYSCORE', set, digits(ENTRIES), '+inf', 'WITHSCORES', 'LIMIT', 0, at and 16 or 1)
  for i = 1, #ends, 2 do
    local rank = at and call('ZRANK', set, 'q' .. string.sub(ends[i], 2))
    if not at or rank and rank < at then return math.max(1, ends[i + 1] - ENTRIES - nowms) end
  end
  return 0
end

-- front returns the head of the queue.
local function front()
  local owner = string.sub(call('ZRANGE', set, 0, 0)[1] or '', 2)
  local c = data('e', owner)
  return c and show('p', c, (call('ZSCORE', set, 'e' .. owner) or 0) - ENTRIES - nowms) or ''
end
