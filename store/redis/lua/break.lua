-- break ends the claims on a key up to a fence, a page at a time: a long script blocks all clients
-- of the server.
--
-- KEYS: name; on a cluster also the other keys of the name, for the client
-- ARGV: reason; where the page begins, '' for the first; how many shared claims it has at most; the
-- last fence when the break began, 0 on the first page; the highest fence of a claim to end, 0: all
-- claims. A key of another client has no fence, and is ended by 0 only.
--
-- Answer: where the next page begins, or nothing if this is the last; a space; the last fence when
-- the break began; a line end; the ended claims, one after the other. Claims that were granted
-- after the first page stay.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--#include floor
--#include common

open(1)
sweep()
local from, most, high = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local upto = tonumber(ARGV[5])
local first = from == ''
local out, longest = {}, 0

-- The reason is kept until the claim would have ended. For a key of another client without an end,
-- no reason is kept: that client does not know of reasons.
local function note(owner, left)
  if left <= 0 then return end
  call('HSET', broken, owner, digits(math.ceil(nowms + left)) .. ' ' .. ARGV[1])
  longest = math.max(longest, left)
end

-- Old reasons are removed, unless there are many: then they expire together with the last of them.
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
local ends = call('ZRANGEBYSCORE', set, from, '(' .. digits(ENTRIES), 'WITHSCORES', 'LIMIT', 0, most)
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
  if #out > 0 or not first then notifyObservers() end
  promote()
end
close()
return next .. ' ' .. digits(high) .. '\n' .. table.concat(out)
