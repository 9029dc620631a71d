-- show tells the live claims on a key and its line.
--
-- KEYS: name, hash, set
-- ARGV: none
--
-- Answer: claims and places, one after the other.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--#include floor
--#include common

open(1)
local out = {}
if exclusive() then out[1] = holder() end

local ends = used > 0 and call('ZRANGEBYSCORE', set, string.format('(%.3f', nowms), '(' .. digits(PLACES), 'WITHSCORES') or {}
for i = 1, #ends, 2 do
  local c = data('s', string.sub(ends[i], 2))
  if c then out[#out + 1] = show('c', c, ends[i + 1] - nowms) end
end
for _, head in ipairs(waiting > 0 and call('ZRANGEBYSCORE', set, '-inf', '(0') or {}) do
  local owner = string.sub(head, 2)
  local left = (call('ZSCORE', set, 'e' .. owner) or 0) - PLACES - nowms
  local c = left > 0 and data('e', owner)
  if c then out[#out + 1] = show('p', c, left) end
end
return table.concat(out)
