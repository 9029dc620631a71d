-- break ends all claims on a key.
--
-- KEYS: name, hash, set, broken
-- ARGV: reason
--
-- Answer: the claims that were ended, one after the other.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--#include floor
--#include common

open(1)
sweep()
local broken = KEYS[4]
local out, longest = {}, 0

-- The reason is kept until the claim would have ended. Another client's that never would knows nothing of it.
local function note(owner, left)
  if left <= 0 then return end
  call('HSET', broken, owner, digits(math.ceil(nowms + left)) .. ' ' .. ARGV[1])
  longest = math.max(longest, left)
end

local old = call('HGETALL', broken)
for i = 1, #old, 2 do
  local ends = tonumber(string.match(old[i + 1], '^(%d+) ') or 0)
  if ends <= nowms then
    call('HDEL', broken, old[i])
  else
    longest = math.max(longest, ends - nowms)
  end
end
if exclusive() then
  local text, left = holder()
  out[1] = text
  note(held, left)
  call('DEL', name)
  held = false
end
local ends = call('ZRANGEBYSCORE', set, '0', '(' .. digits(PLACES), 'WITHSCORES')
for i = 1, #ends, 2 do
  local owner, left = string.sub(ends[i], 2), ends[i + 1] - nowms
  local c = left > 0 and data('s', owner)
  if c then
    out[#out + 1] = show('c', c, left)
    note(owner, left)
  end
  forget(owner)
end
if #ends > 0 then mark() end
if longest > 0 then call('PEXPIRE', broken, digits(math.ceil(longest))) end
if #out > 0 then tellOnlookers() end
promote()
close()
return table.concat(out)
