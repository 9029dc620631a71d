-- break ends the claims on a key up to a fence, a page at a time: a script keeps the server from everybody else.
--
-- KEYS: name, hash, set, broken
-- ARGV: reason; where the page begins, '' for the first; how many shared claims it has at most; the last fence when it began, 0 on the first page;
-- the highest fence of a claim to end, 0: all claims. A claim of another client has no fence, and is ended by 0 only.
--
-- Answer: where the next page begins, or nothing if this is the last; a space; the last fence when it began; a line end; the claims that were
-- ended, one after the other. Claims that were granted since the first page are left alone.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--#include floor
--#include common

open(1)
sweep()
local broken, from, most, high, upto = KEYS[4], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local first = from == ''
local out, longest = {}, 0

-- The reason is kept until the claim would have ended. Another client's that never would knows nothing of it.
local function note(owner, left)
  if left <= 0 then return end
  call('HSET', broken, owner, digits(math.ceil(nowms + left)) .. ' ' .. ARGV[1])
  longest = math.max(longest, left)
end

-- Old reasons are dropped, unless there are many: then they go when the last of them has ended.
local old = first and call('HLEN', broken) <= 1000 and call('HGETALL', broken) or {}
for i = 1, #old, 2 do
  local ends = tonumber(string.match(old[i + 1], '^(%d+) ') or 0)
  if ends <= nowms then call('HDEL', broken, old[i]) end
end
if first then
  from, high = '0', last
  if exclusive() then
    local text, left, fence = holder()
    if upto == 0 or fence > 0 and fence <= upto then
      out[1] = text
      note(held, left)
      call('DEL', name)
      held = false
    end
  end
end
local ends = call('ZRANGEBYSCORE', set, from, '(' .. digits(PLACES), 'WITHSCORES', 'LIMIT', 0, most)
for i = 1, #ends, 2 do
  local owner, left = string.sub(ends[i], 2), ends[i + 1] - nowms
  local c = data('s', owner)
  if not c or c.order <= high and (upto == 0 or c.fence <= upto) then
    if c and left > 0 then
      out[#out + 1] = show('c', c, left)
      note(owner, left)
    end
    forget(owner)
  end
end
if #ends > 0 then mark() end
if longest > 0 and call('PTTL', broken) < longest then call('PEXPIRE', broken, digits(math.ceil(longest))) end
local next = #ends == 2 * most and ends[#ends] or ''
if next == '' then
  if #out > 0 or not first then tellOnlookers() end
  promote()
end
close()
return next .. ' ' .. digits(high) .. '\n' .. table.concat(out)
