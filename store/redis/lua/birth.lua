-- birth returns since when the server has remembered every claim, by a mark: "name since id". A server that lost all its data has no mark.
-- One that lost the last writes has a mark with another id: a restart and a promotion each give a primary a new replication id.
-- A mark from the future was written by a clock that has been set back since. In each of these cases the server is born now.
--
-- KEYS: the mark
-- ARGV: a name for the server if it has none
--
-- Answer: "name age", the age in microseconds.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local info = redis.pcall('INFO', 'replication')
local id = type(info) == 'string' and string.match(info, 'master_replid:(%x+)') -- false or nil if this user may not see it
local name, since, was = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%d+) ?(%x*)$')
since = tonumber(since)
if not name or id and (id ~= was or since > now) then
  name, since = name or ARGV[1], now
  redis.call('SET', KEYS[1], name .. string.format(' %.0f ', since) .. (id or ''))
end
if not id then since = now end
return name .. string.format(' %.0f', math.max(1, now - since))
