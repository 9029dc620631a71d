-- birth tells since when the server has remembered, by a mark that it forgets along with everything else.
--
-- KEYS: the mark
-- ARGV: a name for the server if it has none
--
-- Answer: "name age", the age in microseconds.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local mark = redis.call('GET', KEYS[1])
if not mark then
  mark = ARGV[1] .. string.format(' %.0f', now)
  redis.call('SET', KEYS[1], mark)
end
local name, born = string.match(mark, '^(%S+) (%d+)$')
return name .. string.format(' %.0f', math.max(1, now - born))
