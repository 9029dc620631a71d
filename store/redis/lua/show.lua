-- show tells the live claims on a key and its line.
--
-- KEYS: name, hash, shared, line, places
-- ARGV: none
--
-- Answer: claims and places, one after the other.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

--#include common

open(1)
local out = {}
if exclusive() then out[1] = holder() end

-- all adds what stands in a sorted set, with its ends in another.
local function all(set, ends, kind, prefix)
  local owners = call('ZRANGE', set, 0, -1)
  for _, owner in ipairs(owners) do
    local left = (call('ZSCORE', ends, owner) or 0) - nowms
    local c = left > 0 and unpack1(owner, call('HGET', hash, prefix .. owner))
    if c then out[#out + 1] = show(kind, c, left) end
  end
end

if used > 0 then all(shared, shared, 'c', 's') end
if waiting > 0 then all(line, places, 'p', 'p') end
return table.concat(out)
