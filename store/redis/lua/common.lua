-- The functions that all scripts share. They need state.

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

-- lastClaim returns the exclusive claim that was granted last. The memory has its record without
-- the parts that are known: "since kept length-of-who 0\n" who value. No later grant raised the
-- last fence.
local function lastClaim()
  local since, rest = string.match(claim, '^(%d+) (.*)$')
  local fence = digits(last)
  return parse(latest, digits(WHOLE) .. ' ' .. digits(WHOLE) .. ' ' .. fence .. ' ' .. (since or '') .. ' ' .. fence .. ' ' .. (rest or ''))
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
--
-- Another program, or a server that is full, may have deleted memory or hash. Without the memory
-- nobody counts the claims in hash and set, and without the hash nobody knows their weights.
local function sweep()
  if used + waiting == 0 and call('ZCOUNT', set, '-inf', '+inf') > 0 or
    used + waiting > 0 and call('HLEN', hash) == 0 then
    call('DEL', hash, set)
    used, waiting, alone = 0, 0, held == MARK
  end
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
    local c = latest == owner and lastClaim()
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
    latest = c.owner
    claim = digits(c.since) .. ' ' .. c.kept .. ' ' .. #c.who .. ' 0\n' .. c.who .. c.value
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
    held = c.owner
    setName('PX', digits(life))
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
  local c = latest == held and lastClaim()
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
