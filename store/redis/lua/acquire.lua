-- acquire grants or refuses one claim.
--
-- KEYS: name, hash, set (see docs/layout.md), and the mark if the age is to be told
-- ARGV: owner, TTL in ms, data; floor, "weight limit place-in-ms". The last two are left out if they are 0, and the whole key without a place
-- Data is the end of a record: "kept length-of-who length-of-channel\n" who channel value. There is a channel if there is to be a place.
--
-- Answer: "+fence", if it took the whole key and nobody waits; or "+fence used behind", with "=" for "+" if the owner had the claim already; or "-used ahead behind retry\n"
-- and a claim in the way; or "i": the floor is too far ahead; or "f": no fences are left; or "v" and its version: the server is too old, and nothing was done; or "m": the mark is missing or stale (see birth), and nothing was done. With the mark, "a", since when the server remembers, " now " come first.
--
-- To write a number as text takes about as long as to read a field. So what is known as text, such as the time, is used as that.

local call = redis.call

-- Shared claims need SET ... PXAT, which is of Redis 6.2. A script that finds this out half way leaves keys that never expire. From 7.0 on the
-- server says its version without being asked.
if not redis.REDIS_VERSION_NUM then
  local info = redis.pcall('INFO', 'server')
  local version = type(info) == 'string' and string.match(info, 'redis_version:([%d.]+)') or ''
  local major, minor = string.match(version, '^(%d+)%.(%d+)')
  if major and major * 100 + minor < 602 then return 'v' .. version end
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2] -- microseconds: exact in a double until the year 2255
local clock = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6)) -- the same as text

-- A restart, a failover and a clock that was set back make a mark stale. The check and the grant are one script: no restart can come
-- between them. A server that hides its replication id has always just been born.
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
if not last then -- there are shared claims, a line or the like
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

-- Most calls: an exclusive claim on a key without shared claims and without a line. SET decides.
local place = ARGV[5] and tonumber(string.match(ARGV[5], '^1073741824 1073741824 (%d+)$') or -1) or 0 -- -1: not the whole key
if place >= 0 and not busy and fence <= 9007199254740864 and
  call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  number = number or string.format('%.0f', fence)
  local data = ARGV[3]
  if place > 0 then -- a claim has no channel
    local kept, who, channel, at = string.match(data, '^(%d) (%d+) (%d+)\n()')
    data = kept .. ' ' .. who .. ' 0\n' .. string.sub(data, at, at + who - 1) .. string.sub(data, at + who + channel)
  end
  -- The last fence is kept for ten minutes after the clock has passed it, the data for a minute longer than the claim. What the first
  -- grant of ten seconds does for that is enough for the others, but for those ten seconds.
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

-- Most of the others: an exclusive claim that another holds, asked for with a place at the end of a line in which all live.
if place > 0 and place <= 540000 then
  local held = call('GET', KEYS[1])
  local nowms = math.ceil(now / 1000)
  local line, soon, lives, tail, onlookers = string.match(busy or '0 0 0 0 0 0 ', '^0 (%d+) 0 (%d+) (%d+) (%d+) (.*)$')
  local waiting = tonumber(line)
  if held and held ~= ARGV[1] and held ~= 'distlock:shared' and waiting and (waiting == 0 or tonumber(soon) > nowms + 1000) then
    local data = call('HMGET', KEYS[2], 'e' .. ARGV[1], 'owner', 'claim')
    if not data[1] then
      local left = call('PTTL', KEYS[1]) + 1
      local ends = nowms + place
      local over, order = string.format('%.0f', ends), now
      if waiting == 0 or ends < tonumber(soon) then soon = over end
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
      call('HSET', KEYS[2], 'e' .. ARGV[1], '1073741824 1073741824 ' .. place .. ' ' .. clock .. ' ' .. over .. ' ' .. ARGV[3],
        'last', known .. ' 0 ' .. waiting + 1 .. ' 0 ' .. soon .. ' ' .. lives .. ' ' .. tail .. ' ' .. onlookers)
      if keep then
        call('PEXPIRE', KEYS[2], 600000 + math.max(0, math.ceil((last - now) / 1000)))
        if call('PTTL', KEYS[3]) < 600000 then call('PEXPIRE', KEYS[3], '600000') end -- a place before it may live for longer
      end
      -- Which of the places ends first is not looked up: no earlier than in a second.
      local retry = (waiting == 0 or left <= soon - nowms) and left > 0 and left or 0
      local blocker
      if data[2] == held and data[3] then
        blocker = 'r ' .. left .. ' ' .. clock .. ' ' .. #held .. '\n' .. held .. #data[3] .. ' ' .. data[3]
      else
        blocker = 'o ' .. math.max(0, left) .. ' 0 1073741824 1073741824 0 0 0 ' .. #held .. ' 0 0\n' .. held
      end
      return age .. '-1073741824 ' .. line .. ' 0 ' .. retry .. '\n' .. blocker
    end
  end
end

--#include common

open(1)
sweep()
local owner, ttl, weight, limit = ARGV[1], tonumber(ARGV[2]), WHOLE, WHOLE
if place < 0 then
  weight, limit, place = string.match(ARGV[5], '^(%d+) (%d+) (%d+)$')
  weight, limit, place = tonumber(weight), tonumber(limit), tonumber(place)
end

-- granted is the answer, as things stand before anybody else is let in.
local function granted(sign, number)
  return age .. sign .. digits(number) .. ' ' .. digits(taken()) .. ' ' .. waiting
end

local mine = own(owner)
if mine then
  if mine.kept == '1' then ttl = rest(mine) end -- a record lives for as long as it was kept for
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
local room = taken() + weight <= limit
if room and (at == 0 or not at and waiting == 0) then
  if math.max(last + SPAN, now, floor) > LAST then return age .. 'f' end
  leave(owner)
  claim.channel = ''
  grant(claim, floor, ttl)
  local answer = granted('+', claim.fence)
  promote()
  close()
  return answer
end

if place > 0 then at = join(claim, at, place) end
local ahead, behind = at or waiting, at and waiting - at - 1 or 0
local blocker, retry = '', 0
if not room then blocker, retry = inTheWay() end
if ahead > 0 then
  local first = soonest(at)
  if first > 0 and (retry <= 0 or first < retry) then retry = first end
  if room then blocker = front() end
end
close()
return age .. '-' .. digits(taken()) .. ' ' .. ahead .. ' ' .. behind .. ' ' .. digits(math.max(0, math.ceil(retry))) .. '\n' .. blocker
