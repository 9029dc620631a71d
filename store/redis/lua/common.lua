-- What all scripts share. It needs floor, call, and now in microseconds. Scripts read before they write, so that an error
-- of the first write leaves nothing half done.

local WHOLE, SPAN, LAST = 1073741824, 128, 9007199254740864 -- LAST is the highest fence of a grant
local MARK = 'distlock:shared' -- what the name holds while shared claims live
local STEP = 100 -- how many that have ended are cleared in one call
local KEEP = 60000 -- ms that data outlives what it belongs to

-- The set has three kinds of members. Their scores do not meet:
--   q<owner>  the line, in order: below 0
--   s<owner>  shared claims, by their ends in ms: 0 to PLACES
--   e<owner>  places, by their ends in ms: from PLACES
local PLACES = 100000000000000
local FIRST = 9007199254740992 -- what is taken off a time in us

local nowms = now / 1000

-- The keys of a name, and what was read of them. All are set by open.
local name, hash, set
local held -- what the name holds, or false
local alone -- the name says that shared claims live, and what they are is lost
local latest -- the owner of the exclusive claim that was granted last
local last -- the highest fence that was given out
local used -- the sum of the weights of the shared claims
local waiting -- how many stand in line
local long -- 1 if hash or set may live for more than ten minutes, or the exclusive claim is a record
local soon -- a time in ms before which no place ends
local lives -- a time in ms until which the hash lives, and the set if it is there
local tail -- the order of the last in line
local onlookers -- until when somebody watches, in ms, after a letter for the way to tell; or ''
local was -- last and the other seven as text, as the hash has them

local function digits(n) return string.format('%.0f', n) end

local function open(i)
  name, hash, set = KEYS[i], KEYS[i + 1], KEYS[i + 2]
  local got = call('HMGET', hash, 'last', 'owner')
  held = call('GET', name)
  was, latest = got[1] or '', got[2]
  local a, b, c, d, e, f, g, h = string.match(was, '^(%d+) (%d+) (%d+) (%d) (%d+) (%d+) (%d+) (.*)$')
  last = tonumber(a or was) or 0
  used, waiting, long = tonumber(b or 0), tonumber(c or 0), tonumber(d or 0)
  soon, lives, tail, onlookers = tonumber(e or 0), tonumber(f or 0), tonumber(g or 0), h or ''
  alone = held == MARK and used == 0
end

-- exclusive reports whether the name is held by one: a claim of ours or another client. A mark that is alone is waited out
-- like another client: its holders may still trust their claims.
local function exclusive() return held and (held ~= MARK or alone) end

-- taken is how much of the key is taken.
local function taken() return exclusive() and WHOLE or used end

-- memory is how long the hash has to live for its last fence, in ms. Acquire and release let it live for up to ten seconds less.
local function memory() return 600000 + math.max(0, math.ceil((last - now) / 1000)) end

-- keep lets the hash live for longer than something that lives for so many ms.
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

-- recorded reports whether the exclusive claim is a record, which no short cut may renew.
local function recorded()
  if not held or latest ~= held then return false end
  return string.find(call('HGET', hash, 'claim') or '', '^%d+ %d+ %d+ %d+ %d+ 1 ') ~= nil
end

-- fit lets hash and set live for as long as what is in them, and the last fence, need it. It is called when one of them may
-- live for too long: something with a long life may be gone.
local function fit()
  local shared = call('ZREVRANGEBYSCORE', set, '(' .. digits(PLACES), '0', 'WITHSCORES', 'LIMIT', 0, 1)[2] or 0
  local place = (call('ZREVRANGEBYSCORE', set, '+inf', digits(PLACES), 'WITHSCORES', 'LIMIT', 0, 1)[2] or 0) - PLACES
  local longest = math.max(shared, place) - nowms
  if longest > 0 then call('PEXPIRE', set, digits(longest + KEEP)) end
  if exclusive() then longest = math.max(longest, call('PTTL', name)) end
  if onlookers ~= '' then longest = math.max(longest, string.sub(onlookers, 2) - nowms) end
  call('PEXPIRE', hash, digits(math.max(longest + KEEP, memory())))
  lives = 0
  long = (longest + KEEP > memory() or recorded()) and 1 or 0
end

-- close writes down what has changed.
local function close()
  if long > 0 then fit() end
  local text = last > 0 and digits(last) or ''
  if used > 0 or waiting > 0 or long > 0 or onlookers ~= '' then
    text = digits(last) .. ' ' .. digits(used) .. ' ' .. digits(waiting) .. ' ' .. long .. ' ' .. digits(soon) .. ' ' .. digits(lives) .. ' ' .. digits(tail) .. ' ' .. onlookers
  end
  if text == was then return end
  if text == '' then call('HDEL', hash, 'last') else call('HSET', hash, 'last', text) end
end

-- A record is a claim or a place as text:
-- "weight limit fence since order kept length-of-who length-of-channel\n" who channel value
-- Order is the fence of the grant, which a Floor does not raise. In a place it is when the place ends, in ms, and fence is for how many ms it
-- was asked for.
local function pack(c)
  return digits(c.weight) .. ' ' .. digits(c.limit) .. ' ' .. digits(c.fence) .. ' ' .. digits(c.since) .. ' ' .. digits(c.order) .. ' ' ..
    c.kept .. ' ' .. #c.who .. ' ' .. #c.channel .. '\n' .. c.who .. c.channel .. c.value
end

local function parse(owner, text)
  local weight, limit, fence, since, order, kept, who, channel, at =
    string.match(text or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+)\n()')
  if not at then return nil end
  who, channel = tonumber(who), tonumber(channel)
  return {
    owner = owner, weight = tonumber(weight), limit = tonumber(limit), fence = tonumber(fence), since = tonumber(since),
    order = tonumber(order), kept = kept, who = string.sub(text, at, at + who - 1), channel = string.sub(text, at + who, at + who + channel - 1),
    value = string.sub(text, at + who + channel),
  }
end

-- data returns the record of a shared claim ("s") or a place ("e").
local function data(kind, owner) return parse(owner, call('HGET', hash, kind .. owner)) end

-- mark makes the name show whether shared claims live, so that other clients see it as taken.
local function mark()
  if exclusive() then return end
  local longest = call('ZREVRANGEBYSCORE', set, '(' .. digits(PLACES), '0', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if longest then
    -- The clock that ends keys is never ahead of TIME, by which shared claims end: the mark ends last.
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

local function leave(owner)
  if waiting == 0 or call('ZREM', set, 'q' .. owner, 'e' .. owner) == 0 then return false end
  call('HDEL', hash, 'e' .. owner)
  waiting = waiting - 1
  return true
end

-- ended returns the owners of a few of those whose scores, from a base, have passed.
local function ended(base)
  local members = call('ZRANGEBYSCORE', set, digits(base), string.format('%.3f', base + nowms), 'LIMIT', 0, STEP)
  for i, m in ipairs(members) do members[i] = string.sub(m, 2) end
  return members
end

-- shorten gives the head of the line no more than it asked for, if the clock was set back: it may have died.
local function shorten()
  local owner = string.sub(call('ZRANGE', set, 0, 0)[1] or '', 2)
  local c = data('e', owner)
  if not c or c.fence == 0 or c.order - nowms <= c.fence + 1 then return end
  c.order = math.ceil(nowms) + c.fence
  soon = math.min(soon, c.order)
  call('ZADD', set, digits(PLACES + c.order), 'e' .. owner)
  call('HSET', hash, 'e' .. owner, pack(c))
end

-- sweep drops what has ended, in bounded steps. The rest counts as if it lived.
local function sweep()
  if used > 0 then
    local owners = ended(0)
    for _, owner in ipairs(owners) do forget(owner) end
    if #owners > 0 or not held then mark() end
  end
  if waiting > 0 and not exclusive() then shorten() end -- the release of an exclusive claim hands the name on, for no longer either
  if waiting > 0 and soon <= nowms + 1000 then -- when it is near, it is looked up
    for _, owner in ipairs(ended(PLACES)) do leave(owner) end
    waiting = call('ZCOUNT', set, '-inf', '(0')
    soon = (call('ZRANGEBYSCORE', set, digits(PLACES), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or PLACES) - PLACES
  end
end

-- rise makes last the fence of the next grant.
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
    -- The name says that it is the owner's, and the data is gone. The claim begins anew.
    rise(0)
    return {owner = owner, weight = WHOLE, limit = WHOLE, fence = last, since = now, order = last, kept = 0, who = '', channel = '', value = ''}
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

-- grant gives a claim its fence and a life of so many ms.
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

-- renew gives a live claim a life of so many ms from now, and writes it. It begins with what a full server allows, and then the rest: a claim that is
-- renewed takes no more room.
local function renew(c, life)
  if c.weight == WHOLE then call('PEXPIRE', name, digits(life)) else call('HDEL', hash, '') end
  put(c, math.ceil(nowms) + life)
end

-- rest is how many ms a live claim has left.
local function rest(c)
  if c.weight == WHOLE then return call('PTTL', name) end
  return call('ZSCORE', set, 's' .. c.owner) - nowms
end

-- lower lowers the weight of a live claim, which is written next. There is no moment at which the name is free.
local function lower(c, weight)
  if c.weight == WHOLE then
    used, held, latest = weight, MARK, false
    call('HDEL', hash, 'owner', 'claim')
  else
    used = used - c.weight + weight
  end
  c.weight = weight
end

-- tell tells a channel "fence behind owner"; the fence is 0 if nothing was granted. The first letter says how; a user who may not publish is no reason to fail.
local function tell(channel, message)
  if channel == '' then return end
  redis.pcall(string.sub(channel, 1, 1) == 's' and 'SPUBLISH' or 'PUBLISH', string.sub(channel, 2), message)
end

-- tellOnlookers tells those who watch the key without a claim.
local function tellOnlookers()
  if onlookers == '' then return end
  if tonumber(string.sub(onlookers, 2)) > nowms then
    tell(string.sub(onlookers, 1, 1) .. '{' .. name .. '}:wake', '0 0 ')
  else
    onlookers = ''
  end
end

-- promote lets in those at the head of the line who have room, for the rest of their places, and tells them. If the clock was set back, that is
-- no longer than they asked for: they may have died.
local function promote()
  for _ = 1, STEP do
    local head = waiting > 0 and call('ZRANGE', set, 0, 0)[1]
    if not head then return end
    local owner = string.sub(head, 2)
    local c = data('e', owner)
    local left = (c and c.order or 0) - nowms
    if c and c.fence > 0 then left = math.min(left, c.fence) end -- other programs may have written 0
    if left <= 0 then
      leave(owner)
    else
      if taken() + c.weight > c.limit or math.max(last + SPAN, now) > LAST then return end
      local channel = c.channel
      c.channel, c.since = '', now
      leave(owner)
      grant(c, 0, math.ceil(left))
      tell(channel, digits(c.fence) .. ' ' .. waiting .. ' ' .. owner)
    end
  end
end

-- join gives a place at the end of the line, or renews the one at a position. It returns the position.
local function join(c, at, life)
  local ends = math.ceil(nowms) + life
  c.order, c.fence = ends, life
  if waiting == 0 or ends < soon then soon = ends end
  if at then
    local old = data('e', c.owner)
    c.since = old and old.since or now
  else
    tail = waiting > 0 and math.max(now, tail + 1) or now -- whatever the clock does, nobody passes
    call('ZADD', set, digits(tail - FIRST), 'q' .. c.owner)
    at = waiting
    waiting = waiting + 1
  end
  call('ZADD', set, digits(PLACES + ends), 'e' .. c.owner)
  call('HSET', hash, 'e' .. c.owner, pack(c))
  keep(life)
  keepSet(ends)
  return at
end

-- show is a claim as it is told. Kind is "c" for a claim, "p" for a place, "o" for another client.
local function show(kind, c, left)
  return kind .. ' ' .. digits(math.max(0, math.ceil(left))) .. ' ' .. digits(math.max(0, now - c.since)) .. ' ' .. digits(c.weight) ..
    ' ' .. digits(c.limit) .. ' ' .. (kind == 'p' and '0' or digits(c.fence)) .. ' ' .. digits(c.order) .. ' ' .. c.kept .. ' ' .. #c.owner .. ' ' .. #c.who .. ' ' .. #c.value .. '\n' ..
    c.owner .. c.who .. c.value
end

-- holder shows the exclusive claim, or the other client that holds the name, for how many ms (0 is for ever), and its fence.
local function holder()
  local left = call('PTTL', name) + 1 -- the key is there until its time has passed
  local c = latest == held and parse(held, call('HGET', hash, 'claim'))
  if c then return show('c', c, left), left, c.fence end
  return show('o', {owner = held, weight = WHOLE, limit = WHOLE, fence = 0, since = now, order = 0, kept = 0, who = '', value = ''}, left),
    left, 0
end

-- inTheWay shows the claim that ends first, and in how many ms: 1 if it has ended, and is cleared by one of the next calls.
local function inTheWay()
  if exclusive() then return holder() end
  local first = call('ZRANGEBYSCORE', set, '0', '(' .. digits(PLACES), 'WITHSCORES', 'LIMIT', 0, 1)
  local c = first[1] and data('s', string.sub(first[1], 2))
  if not c then return '', 0 end
  local left = math.max(1, first[2] - nowms)
  return show('c', c, left), left
end

-- soonest is in how many ms the first of the places before a position ends, or of all places if it is nil; 0 if that is
-- not among the 16 that end first.
local function soonest(at)
  local ends = call('ZRANGEBYSCORE', set, digits(PLACES), '+inf', 'WITHSCORES', 'LIMIT', 0, at and 16 or 1)
  for i = 1, #ends, 2 do
    local rank = at and call('ZRANK', set, 'q' .. string.sub(ends[i], 2))
    if not at or rank and rank < at then return math.max(1, ends[i + 1] - PLACES - nowms) end
  end
  return 0
end

-- front shows the head of the line.
local function front()
  local owner = string.sub(call('ZRANGE', set, 0, 0)[1] or '', 2)
  local c = data('e', owner)
  return c and show('p', c, (call('ZSCORE', set, 'e' .. owner) or 0) - PLACES - nowms) or ''
end
