-- KEYS[1] the register: the highest fence of the lock, as digits
-- KEYS[2] the key to change; without it only the register changes
-- ARGV[1] the fence, ARGV[2] how long to remember it in ms, or 0 for ever
-- ARGV[3] the command, and its arguments after the key
-- Answer: {'stale', the highest fence}, or {'done', the answer of the command}.

local fence, stored = tonumber(ARGV[1]), redis.call('GET', KEYS[1])
local highest = tonumber(stored or '0') -- below 2^53 a double is exact
if not highest then return redis.error_reply('ERR the register holds no fence') end
if fence < highest then return {'stale', stored} end

-- The script writes the fence first. If the command fails the fence stays, which is correct. A
-- command without its fence would let a stale holder in.
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
elseif fence > highest then
  redis.call('SET', KEYS[1], ARGV[1])
end
if #KEYS == 1 then return {'done'} end
return {'done', redis.call(ARGV[3], KEYS[2], unpack(ARGV, 4))}
