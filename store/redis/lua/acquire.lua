-- acquire grants or refuses one claim.
--
-- KEYS: name, hash, shared, line, places (see docs/layout.md)
-- ARGV: owner, weight, limit, TTL in ms, place in ms, floor, who, value, channel
--
-- Answer: "+fence used behind", with "=" for "+" if the owner had the claim already; or "-used ahead behind retry" and a claim in the way; or
-- "i": the floor is too far ahead; or "f": no fences are left.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] -- microseconds: exact in a double until the year 2255
local known = redis.call('HMGET', KEYS[2], 'last', 'used', 'waiting')
local last = tonumber(known[1] or 0)
local floor = tonumber(ARGV[6])
if floor > math.max(now, last) + 3600000000 then return 'i' end
local fence = math.max(last + 128, now, floor)

-- Most calls: an exclusive claim on a key without shared claims and without a line. SET decides.
if ARGV[2] == '1073741824' and not known[2] and not known[3] and fence <= 9007199254740864 and
  redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[4]) then
  local number = string.format('%.0f', fence)
  redis.call('HSET', KEYS[2], 'last', number, 'owner', ARGV[1], 'claim', '1073741824 1073741824 ' .. number ..
    string.format(' %.0f 0 ', now) .. #ARGV[7] .. ' 0\n' .. ARGV[7] .. ARGV[8])
  -- The last fence is kept for ten minutes after the clock has passed it, the data for as long as the claim.
  redis.call('PEXPIRE', KEYS[2], string.format('%.0f',
    math.max(600000 + math.ceil((fence - now) / 1000), ARGV[4] + 60000)))
  if tonumber(ARGV[4]) > 540000 then redis.call('HSET', KEYS[2], 'long', 1) end
  return '+' .. number .. ' 1073741824 0'
end

--#include common

open(1)
sweep()
local owner, weight, limit, ttl, place = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

-- granted is the answer, as things stand before anybody else is let in.
local function granted(sign, number)
  return sign .. digits(number) .. ' ' .. digits(taken()) .. ' ' .. waiting
end

local mine = own(owner)
if mine then
  local answer
  if mine.weight > weight then lower(mine, weight) end
  if floor > mine.fence then
    mine.fence = floor
    last = math.max(last, floor)
  end
  renew(mine, ttl)
  answer = granted('=', mine.fence)
  promote()
  close()
  return answer
end

local at = waiting > 0 and redis.call('ZRANK', line, owner) or nil
if (at == 0 or not at and waiting == 0) and taken() + weight <= limit then
  if last + SPAN > LAST or floor > LAST then return 'f' end
  leave(owner)
  local claim = {owner = owner, weight = weight, limit = limit, since = now, kept = 0, who = ARGV[7], channel = '', value = ARGV[8]}
  grant(claim, floor, ttl)
  local answer = granted('+', claim.fence)
  promote()
  close()
  return answer
end

local used, room = taken(), taken() + weight <= limit
if place > 0 then
  at = join({owner = owner, weight = weight, limit = limit, fence = 0, since = now, kept = 0, who = ARGV[7], channel = ARGV[9],
    value = ARGV[8]}, at, place)
end
local ahead, behind = at or waiting, at and waiting - at - 1 or 0
local blocker, retry
if room then
  blocker, retry = before(ahead)
else
  blocker, retry = inTheWay()
end
close()
return '-' .. digits(used) .. ' ' .. ahead .. ' ' .. behind .. ' ' .. digits(math.ceil(retry)) .. '\n' .. blocker
