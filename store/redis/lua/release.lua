-- release ends a claim or removes a queue entry.
--
-- KEYS: name, hash, set
-- ARGV: owner
--
-- Answer: "" if done, "n" if the owner has neither.

local call = redis.call
local mine, known = call('GET', KEYS[1]) == ARGV[1], nil
if mine then
  known = call('HGET', KEYS[2], 'last')
  if tonumber(known or 0) then
    call('DEL', KEYS[1]) -- most calls: no waiters and no observers
    return ''
  end
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--#include floor

-- Most of the other calls: all entries of the queue are live and for exclusive claims, and there
-- are no observers. The head of the queue gets the key, as in promote.
if mine then
  local last, waiting, soon, lives, tail = string.match(known, '^(%d+) 0 ([1-9]%d*) 0 (%d+) (%d+) (%d+) $')
  local head = waiting and soon * 1000 > now and call('ZRANGE', KEYS[3], 0, 0)[1]
  local owner = head and string.sub(head, 2)
  local entry = head and 'e' .. owner
  local text, fence = head and call('HGET', KEYS[2], entry), math.max((last or 0) + 128, now)
  local requested, ends, who, channel, at =
    string.match(text or '', '^1073741824 1073741824 (%d+) %d+ (%d+) 0 (%d+) (%d+)\n()')
  if at and ends * 1000 > now and fence <= 9007199254740864 then
    -- clock is now as text.
    local clock = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
    local number = fence == now and clock or string.format('%.0f', fence)
    local data, to = at + who, at + who + channel
    waiting = waiting - 1
    call('ZREM', KEYS[3], head, entry) -- a full server allows this command, and then the others
    local left = math.ceil(ends - now / 1000)
    -- The clock may have been set back, and the waiter may have died: see promote.
    if requested ~= '0' then left = math.min(left, requested) end
    call('SET', KEYS[1], owner, 'PX', left)
    local claim = '1073741824 1073741824 ' .. number .. ' ' .. clock .. ' ' .. number .. ' 0 ' .. who .. ' 0\n' ..
      string.sub(text, at, data - 1) .. string.sub(text, to)
    call('HDEL', KEYS[2], entry)
    call('HSET', KEYS[2], 'owner', owner, 'claim', claim,
      'last', waiting == 0 and number or number .. ' 0 ' .. waiting .. ' 0 ' .. soon .. ' ' .. lives .. ' ' .. tail .. ' ')
    if fence - fence % 10000000 > tonumber(last) then call('PEXPIRE', KEYS[2], 600000 + math.ceil((fence - now) / 1000)) end
    local _, note = floored(tonumber(last), fence)
    noteFloor(note)
    local way = string.sub(text, data, data) == 's' and 'SPUBLISH' or 'PUBLISH'
    if to > data then redis.pcall(way, string.sub(text, data + 1, to - 1), number .. ' ' .. waiting .. ' ' .. owner) end
    return ''
  end
end

--#include common

open(1)
sweep()
local owner = ARGV[1]
if held == owner then
  call('DEL', name)
  held = false
  notifyObservers()
elseif own(owner) then
  forget(owner)
  mark()
  notifyObservers()
elseif not dequeue(owner) then
  close()
  return 'n'
end
promote()
close()
return ''
