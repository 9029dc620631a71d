-- show returns the live claims on a key and its queue, a page at a time: a long script blocks all
-- clients of the server.
--
-- KEYS: name; on a cluster also the other keys of the name, for the client
-- ARGV: where the page begins, '' for the first; how many claims and queue entries it has at most
--
-- Answer: where the next page begins, or nothing if this is the last; a line end; claims and queue
-- entries, one after the other. A claim that was renewed in the meantime may be on two pages. So
-- may claims that end in the same ms as the last of a page.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--#include floor
--#include common

open(1)
local out, most = {}, tonumber(ARGV[2])
local part, from = string.match(ARGV[1], '^([sq]) (.*)$')
if not part then
  if exclusive() then out[1] = holder() end
  part, from = 's', string.format('(%.3f', nowms)
end

if part == 's' then
  local ends = used > 0 and call('ZRANGEBYSCORE', set, from, '(' .. digits(ENTRIES), 'WITHSCORES', 'LIMIT', 0, most) or {}
  for i = 1, #ends, 2 do
    local c = data('s', string.sub(ends[i], 2))
    if c then out[#out + 1] = show('c', c, ends[i + 1] - nowms) end
  end
  most = most - #ends / 2
  if most == 0 then return 's ' .. ends[#ends] .. '\n' .. table.concat(out) end
  from = '-inf'
end

local queue = waiting > 0 and call('ZRANGEBYSCORE', set, from, '(0', 'WITHSCORES', 'LIMIT', 0, most) or {}
for i = 1, #queue, 2 do
  local owner = string.sub(queue[i], 2)
  local left = (call('ZSCORE', set, 'e' .. owner) or 0) - ENTRIES - nowms
  local c = left > 0 and data('e', owner)
  if c then out[#out + 1] = show('p', c, left) end
end
return (#queue == 2 * most and 'q (' .. queue[#queue] or '') .. '\n' .. table.concat(out)
