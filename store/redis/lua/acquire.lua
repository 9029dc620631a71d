-- acquire grants or refuses one claim.
--
-- KEYS: name, hash, set (see docs/layout.md), and the mark if the answer is to include the age
-- ARGV: owner, TTL in ms, data; floor, "weight limit queue-TTL-in-ms". The last two are left out if
-- they are 0, and the whole key without a queue entry
-- Data is the end of a record: "kept length-of-who length-of-channel\n" who channel value. There is
-- a channel if the claim may be queued.
--
-- Answer, one of:
--   "+fence"                        granted the whole key, and nobody waits
--   "+fence used behind"            granted; "=" instead of "+" if the owner had the claim already
--   "-used ahead behind retry\n"    refused, followed by a claim in the way
--   "i"                             the floor is too far ahead
--   "f"                             no fences are left
--   "v" version                     the server is too old, and nothing was done
--   "m"                             the mark is missing or stale (see birth), and nothing was done
-- With the mark, "a", since when the server remembers, " now " come first.
--
-- Writing a number as text takes about as long as reading a field. So the script uses values that
-- it knows as text, such as the time, as text.

local call = redis.call

-- Shared claims need SET ... PXAT of Redis 6.2. A script that fails at it half way leaves keys that
-- never expire. From 7.0 on a variable has the version of the server.
if not redis.REDIS_VERSION_NUM then
  local info = redis.pcall('INFO', 'server')
  local version = type(info) == 'string' and string.match(info, 'redis_version:([%d.]+)') or ''
  local major, minor = string.match(version, '^(%d+)%.(%d+)')
  if major and major * 100 + minor < 602 then return 'v' .. version end
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2] -- microseconds: exact in a double until the year 2255
-- clock is now as text.
local clock = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))

-- A restart, a failover and a clock that was set back make a mark stale. The check and the grant
-- are one script, so no restart can come between them. A server that hides its replication ID
-- always counts as just born.
local age = ''
if KEYS[4] then
  local mark, info = call('GET', KEYS[4]), redis.pcall('INFO', 'replication')
  if not mark then return 'm' end
  local id = type(info) == 'string' and string.match(info, 'master_replid:(%x+)')
  local since, was = string.match(mark, '^%S+ (%d+) (%x+)$')
  if id and (id ~= was or tonumber(since) > now) then return 'm' end
  age = 'a' .. (id and since or clock) .. ' ' .. clock .. ' '
end

--#include floor

local known = call('HGET', KEYS[2], 'last') or '0'
local last, busy = tonumber(known), nil
if not last then -- there are shared claims, a queue or other state
  known, busy = string.match(known, '^(%d+) (.*)$')
  last, busy = tonumber(known) or 0, busy or ''
end
local fence, number, floor = now, clock, 0
if last + 128 > fence then fence, number = last + 128, nil end
if ARGV[4] and ARGV[4] ~= '0' then
  floor = tonumber(ARGV[4])
  if floor > now + 3600000000 and floor > last + 3600000000 then return age .. 'i' end
  if floor > fence then fence, number = floor, ARGV[4] end
end
local raised, note = floored(last, fence)
if raised > fence then fence, number = raised, nil end

-- Most calls: an exclusive claim on a key without shared claims and without a queue. SET decides.
-- queueTTL is -1 if the claim is not for the whole key.
local queueTTL = ARGV[5] and
  tonumber(string.match(ARGV[5], '^1073741824 1073741824 (%d+)$') or -1) or 0
if queueTTL >= 0 and not busy and fence <= 9007199254740864 and
  call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  number = number or string.format('%.0f', fence)
  local data = ARGV[3]
  if queueTTL > 0 then -- a claim has no channel
    local kept, who, channel, at = string.match(data, '^(%d) (%d+) (%d+)\n()')
    data = kept .. ' ' .. who .. ' 0\n' .. string.sub(data, at, at + who - 1) ..
      string.sub(data, at + who + channel)
  end
  -- The last fence is kept for ten minutes after the clock has passed it, the data for a minute
  -- longer than the claim. The first grant of each ten seconds sets this for the others, so it may
  -- be ten seconds less.
  local ttl, state, life = tonumber(ARGV[2]), number, nil
  if ttl > 530000 or fence - fence % 10000000 > last then
    life = 600000 + math.ceil((fence - now) / 1000)
    if ttl + 60000 > life then life, state = ttl + 60000, number .. ' 0 0 1 0 0 0 ' end -- see fit
  end
  call('HSET', KEYS[2], 'last', state, 'owner', ARGV[1],
    'claim', '1073741824 1073741824 ' .. number .. ' ' .. clock .. ' ' .. number .. ' ' .. data)
  if life then call('PEXPIRE', KEYS[2], life) end
  noteFloor(note)
  return age .. '+' .. number
end

-- Most of the other calls: an exclusive claim that another owner holds, with a new entry at the end
-- of a queue whose entries are all live.
if queueTTL > 0 and queueTTL <= 540000 then
  local held = call('GET', KEYS[1])
  local nowms = math.ceil(now / 1000)
  local queued, soon, lives, tail, observers =
    string.match(busy or '0 0 0 0 0 0 ', '^0 (%d+) 0 (%d+) (%d+) (%d+) (.*)$')
  local waiting = tonumber(queued)
  if held and held ~= ARGV[1] and held ~= 'distlock:shared' and
    waiting and (waiting == 0 or tonumber(soon) > nowms + 1000) then
    local data = call('HMGET', KEYS[2], 'e' .. ARGV[1], 'owner', 'claim')
    if not data[1] then
      local left = call('PTTL', KEYS[1]) + 1
      local ends = nowms + queueTTL
      local endText, order = string.format('%.0f', ends), now
      if waiting == 0 or ends < tonumber(soon) then soon = endText end
      if waiting > 0 and tonumber(tail) >= now then
        order = tail + 1
        tail = string.format('%.0f', order)
      else
        tail = clock
      end
      -- Hash and set live for ten minutes from now, a second more or less.
      local keep = waiting == 0 or tonumber(lives) < nowms + 599000
      if keep then lives = string.format('%.0f', nowms + 600000) end
      call('ZADD', KEYS[3], order - 9007199254740992, 'q' .. ARGV[1], 100000000000000 + ends, 'e' .. ARGV[1])
      call('HSET', KEYS[2], 'e' .. ARGV[1],
        '1073741824 1073741824 ' .. queueTTL .. ' ' .. clock .. ' ' .. endText .. ' ' .. ARGV[3], 'last',
        known .. ' 0 ' .. waiting + 1 .. ' 0 ' .. soon .. ' ' .. lives .. ' ' .. tail .. ' ' .. observers)
      if keep then
        call('PEXPIRE', KEYS[2], 600000 + math.max(0, math.ceil((last - now) / 1000)))
        -- An earlier entry may live longer.
        if call('PTTL', KEYS[3]) < 600000 then call('PEXPIRE', KEYS[3], '600000') end
      end
      -- The script does not look up which entry ends first: no entry ends within a second.
      local retry = (waiting == 0 or left <= soon - nowms) and left > 0 and left or 0
      local blocker
      if data[2] == held and data[3] then
        blocker = 'r ' .. left .. ' ' .. clock .. ' ' .. #held .. '\n' .. held .. #data[3] .. ' ' .. data[3]
      else
        blocker = 'o ' .. math.max(0, left) .. ' 0 1073741824 1073741824 0 0 0 ' .. #held .. ' 0 0\n' .. held
      end
      return age .. '-1073741824 ' .. queued .. ' 0 ' .. retry .. '\n' .. blocker
    end
  end
end

--#include common

open(1)
sweep()
local owner, ttl, weight, limit = ARGV[1], tonumber(ARGV[2]), WHOLE, WHOLE
if queueTTL < 0 then
  weight, limit, queueTTL = string.match(ARGV[5], '^(%d+) (%d+) (%d+)$')
  weight, limit, queueTTL = tonumber(weight), tonumber(limit), tonumber(queueTTL)
end

-- granted returns the answer before anyone else is granted.
local function granted(sign, number)
  return age .. sign .. digits(number) .. ' ' .. digits(taken()) .. ' ' .. waiting
end

local mine = own(owner)
if mine then
  if mine.kept == '1' then ttl = remaining(mine) end -- a record keeps the life it was given
  if mine.weight > weight then lower(mine, weight) end
  if floor > mine.fence then
    mine.fence = floor
    last = math.max(last, floor)
  end
  renew(mine, ttl)
  local answer = granted('=', mine.fence)
  promote()
  close()
  return answer
end

local claim = parse(owner, digits(weight) .. ' ' .. digits(limit) .. ' 0 ' .. digits(now) .. ' 0 ' .. ARGV[3])
local at = waiting > 0 and call('ZRANK', set, 'q' .. owner) or nil
local fits = taken() + weight <= limit
if fits and (at == 0 or not at and waiting == 0) then
  if math.max(last + SPAN, now, floor) > LAST then return age .. 'f' end
  dequeue(owner)
  claim.channel = ''
  grant(claim, floor, ttl)
  local answer = granted('+', claim.fence)
  promote()
  close()
  return answer
end

if queueTTL > 0 then at = enqueue(claim, at, queueTTL) end
local ahead, behind = at or waiting, at and waiting - at - 1 or 0
local blocker, retry = '', 0
if not fits then blocker, retry = inTheWay() end
if ahead > 0 then
  local first = soonest(at)
  if first > 0 and (retry <= 0 or first < retry) then retry = first end
  if fits then blocker = front() end
end
close()
return age .. '-' .. digits(taken()) .. ' ' .. ahead .. ' ' .. behind .. ' ' ..
  digits(math.max(0, math.ceil(retry))) .. '\n' .. blocker
