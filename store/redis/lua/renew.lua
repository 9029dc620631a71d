-- renew gives live claims a new life.
--
-- KEYS: for each claim its name; on a cluster one name and its other keys, for the client
-- ARGV: for each claim owner, TTL in ms, mode, value. Mode is 1 for a new value, plus 2 for a
-- record.
--
-- Answer for each claim: "+behind\n"; or "n\n": not held; or "b" length "\n" reason: it was broken;
-- or "w\n": the key holds something other than a claim.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--#include floor
--#include common

-- notifyAll notifies all waiters: each of them may read the record. Waiters after the first 1,000
-- find the record at their next attempt.
local function notifyAll()
  for _, head in ipairs(call('ZRANGE', set, 0, math.min(waiting, 1000) - 1)) do
    local c = data('e', string.sub(head, 2))
    if c then notify(c.channel, '0 0 ' .. c.owner) end
  end
end

-- slowly renews all claims except an exclusive claim without a queue and without a new value.
local function slowly(k, owner, ttl, mode, value)
  open(k)
  sweep()
  local c = own(owner)
  if not c then
    close()
    local left = call('HGET', broken, owner)
    local ends, reason = string.match(left or '', '^(%d+) (.*)$')
    if ends and tonumber(ends) > nowms then return 'b' .. #reason .. '\n' .. reason end
    return 'n\n'
  end
  if c.kept == '1' and mode < 2 then -- a late renewal: a record keeps the life it was given
    close()
    return '+' .. waiting .. '\n'
  end
  if mode % 2 == 1 then c.value = value end
  if mode >= 2 then c.kept, long = '1', 1 end
  renew(c, ttl)
  local behind = waiting
  if mode >= 2 and waiting > 0 then notifyAll() end
  if mode >= 2 then notifyObservers() end
  close()
  return '+' .. behind .. '\n'
end

local function one(k, owner, ttl, mode, value)
  if mode == 0 and call('GET', KEYS[k]) == owner and call('PTTL', '{' .. KEYS[k] .. '}:m') > ttl then
    call('PEXPIRE', KEYS[k], ttl)
    return '+0\n'
  end
  return slowly(k, owner, ttl, mode, value)
end

-- A key that holds something else does not make the other renewals fail.
local answers = {}
for i = 1, #ARGV / 4 do
  local a = 4 * i - 3
  local done, answer = pcall(one, i, ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), ARGV[a + 3])
  if not done then
    local why = type(answer) == 'table' and answer.err or answer
    if not string.find(why, 'WRONGTYPE', 1, true) then error(answer, 0) end
    answer = 'w\n'
  end
  answers[i] = answer
end
return table.concat(answers)
