-- acquire grants or refuses one claim.
--
-- KEYS: name (see docs/layout.md); on a cluster also the other keys of the name, for the client
-- ARGV: owner, TTL in ms, data; floor, "weight limit queue-TTL-in-ms", mark. The last three are
-- left out, or empty, if they are 0, the whole key without a queue entry, and no age in the answer
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
-- Or many calls as one, not on a cluster: KEYS has the names, and ARGV the first three arguments of
-- each. Then the answer has a line for each: "+fence", or "-" if nothing was done and the call has
-- to be sent by itself.
--
-- Writing a number as text takes about as long as reading a field. So the script uses values that
-- it knows as text, such as the time, as text.

local call = redis.call
local FLOOR = @floor@ -- see floor
local many = #KEYS > 1 and #ARGV == 3 * #KEYS and {} -- the answers to many calls

-- Shared claims need SET ... PXAT of Redis 6.2. A script that fails at it half way leaves keys that
-- never expire. From 7.0 on a variable has the version of the server.
if not redis.REDIS_VERSION_NUM then
  local info = redis.pcall('INFO', 'server')
  local version = type(info) == 'string' and string.match(info, 'redis_version:([%d.]+)') or ''
  local major, minor = string.match(version, '^(%d+)%.(%d+)')
  if major and major * 100 + minor < 602 then return 'v' .. version end
end

local time = call('TIME')
-- clock is now as text.
local clock = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
local now = clock + 0 -- microseconds: exact in a double until the year 2255

-- A restart, a failover and a clock that was set back make a mark stale. The check and the grant
-- are one script, so no restart can come between them. A server that hides its replication ID
-- always counts as just born.
local age = ''
if ARGV[6] and not many then
  local mark, info = call('GET', ARGV[6]), redis.pcall('INFO', 'replication')
  if not mark then return 'm' end
  -- A plain search takes a third of the time of a pattern.
  local _, at = string.find(type(info) == 'string' and info or '', 'master_replid:', 1, true)
  local id = at and string.match(info, '^%x+', at + 1)
  local since, was = string.match(mark, '^%S+ (%d+) (%x+)$')
  if id and (id ~= was or tonumber(since) > now) then return 'm' end
  age = 'a' .. (id and since or clock) .. ' ' .. clock .. ' '
end

local name, owner, life, data = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local memory = '{' .. name .. '}:m'
local floor = not many and ARGV[4] and tonumber(ARGV[4]) or 0
local far = floor > now + 3600000000
local fence, number = now, clock
if floor > now then fence, number = floor, ARGV[4] end

-- Most calls: an exclusive claim on a free key without shared claims and without a queue. SET
-- decides. The second SET writes the fence of most grants, and returns the memory as it was.
-- queueTTL is -1 if the claim is not for the whole key.
local queueTTL = not many and ARGV[5] and ARGV[5] ~= '' and
  tonumber(string.match(ARGV[5], '^1073741824 1073741824 (%d+)$') or -1) or 0
local old -- nil: the key is not free
for i = 1, many and #KEYS or 1 do
  if many then
    name, owner, life, data, old = KEYS[i], ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i], nil
    memory = '{' .. name .. '}:m'
  end
  local granted
  if queueTTL >= 0 and not far and (#life < 6 or tonumber(life) <= 530000) and
    call('SET', name, owner, 'NX', 'PX', life) then
    if queueTTL > 0 then -- a claim has no channel
      local kept, who, channel, at = string.match(data, '^(%d) (%d+) (%d+)\n()')
      data = kept .. ' ' .. who .. ' 0\n' .. string.sub(data, at, at + who - 1) ..
        string.sub(data, at + who + channel)
    end
    -- The last fence is kept for ten minutes after the clock has passed it.
    old = redis.pcall('SET', memory,
      number .. (#owner == 26 and '\n26 ' or '\n' .. #owner .. ' ') .. owner .. clock .. ' ' .. data,
      'PX', fence > now and 600000 + math.ceil((fence - now) / 1000) or '600000', 'GET')
    local last = not old and 0 or type(old) == 'string' and string.byte(old, 17) == 10 and string.sub(old, 1, 16) + 0
    if last and last + 128 <= fence and fence <= now + 3000000 then
      granted = fence - fence % 10000000 <= last or FLOOR == ''
      if not granted then
        -- Most floors are as new as they have to be: see floored.
        local text = redis.pcall('GET', FLOOR)
        granted = type(text) == 'string' and #text == 16 and now - text >= 0 and now - text <= 1000000
      end
    end
  end
  if not many then
    if granted then return age .. '+' .. number end
  else
    if not granted and old ~= nil then -- undo it, the name last: it keeps others away
      if not old then
        call('DEL', memory)
      elseif type(old) == 'string' then
        -- The memory lives as long as the queue that it counts.
        local ahead = math.max(now, tonumber(string.match(old, '^%d+') or 0)) - now
        local hash = '{' .. name .. '}:c'
        call('SET', memory, old, 'PX', math.max(600000 + math.ceil(ahead / 1000), call('PTTL', hash)))
      end
      call('DEL', name)
    end
    many[i] = granted and '+' .. number or '-'
  end
end
if many then return table.concat(many, '\n') end

--#include floor

-- The other grants of this kind need another fence, or another floor.
if old ~= nil then
  if type(old) == 'table' then -- another program uses the Redis key, or this user may not use it
    call('DEL', name)
    return old
  end
  local last = tonumber(not old and 0 or string.match(old, '^(%d+)\n') or -1)
  local raised, note = floored(last, math.max(last + 128, fence))
  if last >= 0 and raised <= 9007199254740864 then
    if raised > fence then
      number = string.format('%.0f', raised)
      call('SET', memory, number .. '\n' .. #owner .. ' ' .. owner .. clock .. ' ' .. data,
        'PX', 600000 + math.ceil((raised - now) / 1000))
    end
    noteFloor(note)
    return age .. '+' .. number
  end
  -- There are shared claims, a queue or other state, or no fences are left. If the memory has to
  -- live for longer, close sets that.
  local ahead = math.max(now, tonumber(string.match(old, '^%d+') or 0)) - now
  call('SET', memory, old, 'PX', 600000 + math.ceil(ahead / 1000))
  call('DEL', name)
end

-- Most of the other calls: an exclusive claim that another owner holds, with a queue whose entries
-- are all live. The caller has a new entry at the end of the queue, or renews an entry that is far
-- from the head.
if queueTTL > 0 and queueTTL <= 540000 and not far then
  local held, text = call('GET', name), call('GET', memory) or '0\n'
  local busy = held and string.sub(held, 1, 14) == 'distlock:busy:'
  if busy then held = string.sub(held, 15) end
  local nowms = math.ceil(now / 1000)
  local known, state, from, size, at = string.match(text, '^(%d+)([^\n]*)\n()(%d*) ?()')
  local queued, soon, lives, tail, observers =
    string.match(state == '' and ' 0 0 0 0 0 0 ' or state or '', '^ 0 (%d+) 0 (%d+) (%d+) (%d+) (.*)$')
  local waiting = tonumber(queued)
  local hash, set = '{' .. name .. '}:c', '{' .. name .. '}:z'
  local usual = held and held ~= owner and held ~= 'distlock:shared' and
    waiting and (waiting == 0 or tonumber(soon) > nowms + 1000)
  local entry = usual and call('HGET', hash, 'e' .. owner)
  local rank = entry and call('ZRANK', set, 'q' .. owner)
  local since = rank and rank > 16 and string.match(entry, '^%d+ %d+ %d+ (%d+) ')
  if usual and (since or not entry) then
    local left = call('PTTL', name) + 1
    local ends = nowms + queueTTL
    local endText = string.format('%.0f', ends)
    -- Memory, hash and set live for ten minutes from now, a second more or less.
    local keep = waiting == 0 or tonumber(lives) < nowms + 599000
    if keep then lives = string.format('%.0f', nowms + 600000) end
    local sooner = waiting == 0 or ends < tonumber(soon)
    if sooner then soon = endText end
    local total = waiting
    if entry then
      call('ZADD', set, 100000000000000 + ends, 'e' .. owner)
    else
      local order = now
      if waiting > 0 and tonumber(tail) >= now then
        order = tail + 1
        tail = string.format('%.0f', order)
      else
        tail = clock
      end
      total = waiting + 1
      call('ZADD', set, order - 9007199254740992, 'q' .. owner, 100000000000000 + ends, 'e' .. owner)
    end
    call('HSET', hash, 'e' .. owner,
      '1073741824 1073741824 ' .. queueTTL .. ' ' .. (since or clock) .. ' ' .. endText .. ' ' .. ARGV[3])
    if not entry or keep or sooner then
      call('SET', memory, known .. ' 0 ' .. total .. ' 0 ' .. soon .. ' ' .. lives .. ' ' .. tail .. ' ' ..
        observers .. '\n' .. string.sub(text, from), 'KEEPTTL')
    end
    if keep then
      call('PEXPIRE', memory, 600000 + math.max(0, math.ceil((known - now) / 1000)))
      -- An earlier entry may live longer.
      if call('PTTL', hash) < 600000 then call('PEXPIRE', hash, '600000') end
      if call('PTTL', set) < 600000 then call('PEXPIRE', set, '600000') end
    end
    local mine = size ~= '' and string.sub(text, at, at + size - 1) == held
    if mine and not busy then call('SET', name, 'distlock:busy:' .. held, 'KEEPTTL') end
    -- The script does not look up which entry ends first: no entry ends within a second. Far from
    -- the head the answer has no time either.
    local retry = not entry and (waiting == 0 or left <= soon - nowms) and left > 0 and left or 0
    local blocker
    if mine then
      local claim = string.sub(text, at + size)
      blocker = 'r ' .. left .. ' ' .. clock .. ' ' .. known .. ' ' .. #held .. '\n' .. held .. claim
    else
      blocker = 'o ' .. math.max(0, left) .. ' 0 1073741824 1073741824 0 0 0 ' .. #held .. ' 0 0\n' .. held
    end
    return age .. '-1073741824 ' .. (rank or queued) .. ' ' .. (rank and waiting - rank - 1 or 0) .. ' ' .. retry .. '\n' .. blocker
  end
end

--#include common

open(1)
if far and floor > last + 3600000000 then return age .. 'i' end
sweep()
local ttl, weight, limit = tonumber(life), WHOLE, WHOLE
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
