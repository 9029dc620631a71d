-- What all scripts share. It needs now, in microseconds. Scripts read before they write, so that an error of
-- the first write leaves nothing half done.

local WHOLE, SPAN, LAST = 1073741824, 128, 9007199254740864 -- LAST is the highest fence of a grant
local MARK = 'distlock:shared' -- what the name holds while shared claims live
local STEP = 100 -- how many that have ended are cleared in one call
local KEEP = 60000 -- ms that data outlives what it belongs to

local call = redis.call
local nowms = now / 1000

-- The keys of a name, and what was read of them. All are set by open.
local name, hash, shared, line, places
local held -- what the name holds, or false
local owner1 -- the owner of the exclusive claim that was granted last
local used -- the sum of the weights of the shared claims
local waiting -- how many stand in line
local long -- set if the hash may live for more than ten minutes
local onlookers -- when the last onlooker ceases to watch, in ms, after a letter for the way to tell it
local last -- the highest fence that was given out
local was = {} -- what of this the hash holds

local function digits(n) return string.format('%.0f', n) end

local function open(i)
  name, hash, shared, line, places = KEYS[i], KEYS[i + 1], KEYS[i + 2], KEYS[i + 3], KEYS[i + 4]
  local got = call('HMGET', hash, 'last', 'used', 'waiting', 'owner', 'onlookers', 'long')
  held = call('GET', name)
  last, used, waiting = tonumber(got[1] or 0), tonumber(got[2] or 0), tonumber(got[3] or 0)
  owner1, onlookers, long = got[4], got[5], got[6]
  was.last, was.used, was.waiting = last, used, waiting
end

-- exclusive reports whether the name is held by one: a claim of ours or another client.
local function exclusive() return held and held ~= MARK end

-- close writes down what has changed.
local function close()
  if last ~= was.last then call('HSET', hash, 'last', digits(last)) end
  for field, n in pairs({used = used, waiting = waiting}) do
    if n == 0 and was[field] ~= 0 then call('HDEL', hash, field) end
    if n ~= 0 and was[field] ~= n then call('HSET', hash, field, digits(n)) end
  end
end

-- keep lets the hash live for at least life ms, and ten minutes longer than its last fence is ahead.
local function keep(life)
  life = math.max(life + KEEP, 600000 + math.max(0, math.ceil((last - now) / 1000)))
  if call('PTTL', hash) < life then call('PEXPIRE', hash, digits(life)) end
  if life > 600000 and not long then
    call('HSET', hash, 'long', 1)
    long = '1'
  end
end

-- shorten lets the hash of a key that has become idle live no longer than its last fence needs it.
local function shorten()
  if not long or exclusive() or used > 0 or waiting > 0 or onlookers then return end
  call('HDEL', hash, 'long')
  call('PEXPIRE', hash, digits(600000 + math.max(0, math.ceil((last - now) / 1000))))
end

-- A record is a claim or a place as text:
-- "weight limit fence since kept length-of-who length-of-channel\n" who channel value
local function pack(c)
  return digits(c.weight) .. ' ' .. digits(c.limit) .. ' ' .. digits(c.fence) .. ' ' .. digits(c.since) .. ' ' .. c.kept .. ' ' ..
    #c.who .. ' ' .. #c.channel .. '\n' .. c.who .. c.channel .. c.value
end

local function unpack1(owner, text)
  if not text then return nil end
  local weight, limit, fence, since, kept, who, channel, at = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+)\n()')
  if not at then return nil end
  who, channel = tonumber(who), tonumber(channel)
  return {
    owner = owner, weight = tonumber(weight), limit = tonumber(limit), fence = tonumber(fence), since = tonumber(since),
    kept = kept, who = string.sub(text, at, at + who - 1), channel = string.sub(text, at + who, at + who + channel - 1),
    value = string.sub(text, at + who + channel),
  }
end

-- taken is how much of the key is taken.
local function taken() return exclusive() and WHOLE or used end

-- mark makes the name show whether shared claims live, so that other clients see it as taken.
local function mark()
  if exclusive() then return end
  local longest = call('ZREVRANGE', shared, 0, 0, 'WITHSCORES')
  if not longest[1] then
    used = 0
    if held then call('DEL', name) end
    held = false
    return
  end
  -- TIME, by which shared claims end, is never behind the clock that ends keys: the mark ends last.
  call('SET', name, MARK, 'PXAT', longest[2])
  call('PEXPIREAT', shared, digits(tonumber(longest[2]) + KEEP))
  held = MARK
end

local function forget(owner)
  local c = unpack1(owner, call('HGET', hash, 's' .. owner))
  call('ZREM', shared, owner)
  call('HDEL', hash, 's' .. owner)
  used = math.max(0, used - (c and c.weight or 0))
end

local function leave(owner)
  if waiting == 0 or call('ZREM', line, owner) == 0 then return false end
  call('ZREM', places, owner)
  call('HDEL', hash, 'p' .. owner)
  waiting = waiting - 1
  return true
end

-- sweep drops what has ended, in bounded steps. The rest counts as if it lived.
local function sweep()
  local over = string.format('%.3f', nowms)
  if used > 0 then
    local ended = call('ZRANGEBYSCORE', shared, '-inf', over, 'LIMIT', 0, STEP)
    for _, owner in ipairs(ended) do forget(owner) end
    if #ended > 0 or not held then mark() end
  end
  if waiting > 0 then
    for _, owner in ipairs(call('ZRANGEBYSCORE', places, '-inf', over, 'LIMIT', 0, STEP)) do leave(owner) end
    waiting = call('ZCARD', line)
  end
end

-- own returns the live claim of an owner, or nil.
local function own(owner)
  if held == owner then
    local c = owner1 == owner and unpack1(owner, call('HGET', hash, 'claim'))
    if c then return c end
    -- The name says that it is the owner's, and the data is gone. The claim begins anew.
    last = math.max(last + SPAN, now)
    return {owner = owner, weight = WHOLE, limit = WHOLE, fence = last, since = now, kept = 0, who = '', channel = '', value = ''}
  end
  if used == 0 then return nil end
  local ends = call('ZSCORE', shared, owner)
  if not ends or tonumber(ends) <= nowms then return nil end
  return unpack1(owner, call('HGET', hash, 's' .. owner))
end

-- put writes a claim that ends at a time in ms.
local function put(c, ends)
  if c.weight == WHOLE then
    call('HSET', hash, 'owner', c.owner, 'claim', pack(c))
    owner1 = c.owner
  else
    call('ZADD', shared, digits(ends), c.owner)
    call('HSET', hash, 's' .. c.owner, pack(c))
    mark()
  end
  keep(ends - nowms)
end

-- grant gives a claim its fence and a life of so many ms. Its first write is one that a full server refuses.
local function grant(c, floor, life)
  last = math.max(last + SPAN, now, floor)
  c.fence = last
  if c.weight == WHOLE then
    call('SET', name, c.owner, 'PX', digits(life))
    held = c.owner
  else
    used = used + c.weight
  end
  put(c, math.ceil(nowms) + life)
end

-- renew gives a live claim a life of so many ms from now, and writes it.
local function renew(c, life)
  if c.weight == WHOLE then call('PEXPIRE', name, digits(life)) end
  put(c, math.ceil(nowms) + life)
end

-- lower lowers the weight of a live claim. There is no moment at which the name is free.
local function lower(c, weight)
  if c.weight == WHOLE then
    used, held, owner1 = weight, MARK, false
    call('HDEL', hash, 'owner', 'claim')
  else
    used = used - c.weight + weight
  end
  c.weight = weight
end

-- tell tells a channel. The first letter says how; a user who may not publish is no reason to fail.
local function tell(channel, message)
  if channel == '' then return end
  redis.pcall(string.sub(channel, 1, 1) == 's' and 'SPUBLISH' or 'PUBLISH', string.sub(channel, 2), message)
end

-- tellOnlookers tells those who watch the key without a claim.
local function tellOnlookers()
  if not onlookers then return end
  if tonumber(string.sub(onlookers, 2)) > nowms then
    tell(string.sub(onlookers, 1, 1) .. '{' .. name .. '}:wake', '')
  else
    call('HDEL', hash, 'onlookers')
    onlookers = false
  end
end

-- promote lets in those at the head of the line who have room, for the rest of their places, and tells them.
local function promote()
  for _ = 1, STEP do
    if waiting == 0 then return end
    local owner = call('ZRANGE', line, 0, 0)[1]
    if not owner then
      waiting = 0
      return
    end
    local c, ends = unpack1(owner, call('HGET', hash, 'p' .. owner)), call('ZSCORE', places, owner)
    if not c or not ends or tonumber(ends) <= nowms then
      leave(owner)
    else
      if taken() + c.weight > c.limit or last + SPAN > LAST then return end
      local channel = c.channel
      leave(owner)
      c.channel, c.since = '', now
      grant(c, 0, math.ceil(tonumber(ends) - nowms))
      tell(channel, owner)
    end
  end
end

-- join gives a place at the end of the line, or renews the one at a position. It returns the position.
local function join(c, at, life)
  local ends = math.ceil(nowms) + life
  if at then
    local old = unpack1(c.owner, call('HGET', hash, 'p' .. c.owner))
    c.since = old and old.since or now
  else
    local tail = call('ZREVRANGE', line, 0, 0, 'WITHSCORES')
    call('ZADD', line, digits(math.max(now, tail[2] and tail[2] + 1 or 0)), c.owner)
    at = waiting
    waiting = waiting + 1
  end
  call('ZADD', places, digits(ends), c.owner)
  call('HSET', hash, 'p' .. c.owner, pack(c))
  keep(life)
  local longest = digits(call('ZREVRANGE', places, 0, 0, 'WITHSCORES')[2] + KEEP)
  call('PEXPIREAT', line, longest)
  call('PEXPIREAT', places, longest)
  return at
end

-- show is a claim as it is told. kind is "c" for a claim, "p" for a place, "o" for another client.
local function show(kind, c, left)
  return kind .. ' ' .. digits(math.max(0, math.ceil(left))) .. ' ' .. digits(math.max(0, now - c.since)) .. ' ' .. digits(c.weight) .. ' ' ..
    digits(c.limit) .. ' ' .. digits(c.fence) .. ' ' .. c.kept .. ' ' .. #c.owner .. ' ' .. #c.who .. ' ' .. #c.value .. '\n' ..
    c.owner .. c.who .. c.value
end

-- holder shows the exclusive claim, or the other client that holds the name, and for how many ms; 0 is for ever.
local function holder()
  local left = call('PTTL', name) + 1 -- the key is there until its time has passed
  local c = owner1 == held and unpack1(held, call('HGET', hash, 'claim'))
  if c then return show('c', c, left), left end
  return show('o', {owner = held, weight = WHOLE, limit = WHOLE, fence = 0, since = now, kept = 0, who = '', value = ''}, left), left
end

-- inTheWay shows the claim that ends first, and in how many ms.
local function inTheWay()
  if exclusive() then return holder() end
  local first = call('ZRANGE', shared, 0, 0, 'WITHSCORES')
  local c = first[1] and unpack1(first[1], call('HGET', hash, 's' .. first[1]))
  if not c then return '', 0 end
  local left = math.max(0, first[2] - nowms)
  return show('c', c, left), left
end

-- before shows the head of the line, and in how many ms the first of those ahead ends, if they are few.
local function before(ahead)
  local owners = call('ZRANGE', line, 0, math.min(ahead, 16) - 1)
  if ahead == 0 or #owners == 0 then return '', 0 end
  local first
  for _, owner in ipairs(owners) do
    local ends = call('ZSCORE', places, owner)
    if ends and (not first or tonumber(ends) < first) then first = tonumber(ends) end
  end
  local c = unpack1(owners[1], call('HGET', hash, 'p' .. owners[1]))
  if not c then return '', 0 end
  local left = call('ZSCORE', places, owners[1])
  return show('p', c, left - nowms), ahead > 16 and 0 or math.max(0, first - nowms)
end
