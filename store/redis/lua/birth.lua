-- birth returns since when the server has remembered every claim. It reads this from a mark: "name
-- since id". A server that lost all its data has no mark. A server that lost its last writes has a
-- mark with another ID: a restart and a promotion each give a primary a new replication ID. A mark
-- from the future was written before the clock was set back. In each of these cases the server
-- counts as born now.
--
-- KEYS: the mark
-- ARGV: a name for the server if it has none
--
-- Answer: "name age", the age in microseconds.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local info = redis.pcall('INFO', 'replication')
-- id is false or nil if this user may not see it.
local id = type(info) == 'string' and string.match(info, 'master_replid:(%x+)')
local name, since, was = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%d+) ?(%x*)$')
since = tonumber(since)
if not name or id and (id ~= was or since > now) then
  name, since = name or ARGV[1], now
  redis.call('SET', KEYS[1], name .. string.format(' %.0f ', since) .. (id or ''))
end
if not id then since = now end
return name .. string.format(' %.0f', math.max(1, now - since))
