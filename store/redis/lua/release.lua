-- release ends a claim or removes a queue entry.
--
-- KEYS: name; on a cluster also the other keys of the name, for the client
-- ARGV: owner
--
-- Answer: "" if done, "n" if the owner has neither.
--
-- Or many calls as one, not on a cluster: KEYS has the names, and ARGV their owners. Then the answer
-- has a line for each: "" if done, "-" if nothing was done and the call has to be sent by itself.

local call = redis.call
if #ARGV > 1 then
  local out = {}
  for i, name in ipairs(KEYS) do
    local done = redis.pcall('GET', name) == ARGV[i] and redis.pcall('DEL', name) == 1
    out[i] = done and '' or '-'
  end
  return table.concat(out, '\n')
end
local value = call('GET', KEYS[1])
if value == ARGV[1] then
  call('DEL', KEYS[1]) -- most calls: no waiters and no observers
  return ''
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--#include floor

-- Most of the other calls: all entries of the queue are live and for exclusive claims, and there
-- are no observers. The head of the queue gets the key, as in promote. If the last fence was lost, it
-- is 0, and rise has to look at the floor.
if value == 'distlock:busy:' .. ARGV[1] then
  local memory, hash, set = '{' .. KEYS[1] .. '}:m', '{' .. KEYS[1] .. '}:c', '{' .. KEYS[1] .. '}:z'
  local last, waiting, soon, lives, tail =
    string.match(call('GET', memory) or '', '^([1-9]%d*) 0 ([1-9]%d*) 0 (%d+) (%d+) (%d+) \n')
  local head = waiting and soon * 1000 > now and call('ZRANGE', set, 0, 0)[1]
  local owner = head and string.sub(head, 2)
  local entry = head and 'e' .. owner
  local text, fence = head and call('HGET', hash, entry), math.max((last or 0) + 128, now)
  local requested, ends, who, channel, at =
    string.match(text or '', '^1073741824 1073741824 (%d+) %d+ (%d+) 0 (%d+) (%d+)\n()')
  if at and ends * 1000 > now and fence <= 9007199254740864 then
    -- clock is now as text.
    local clock = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
    local number = fence == now and clock or string.format('%.0f', fence)
    local data, to = at + who, at + who + channel
    waiting = waiting - 1
    call('ZREM', set, head, entry) -- a full server allows this command, and then the others
    local left = math.ceil(ends - now / 1000)
    -- The clock may have been set back, and the waiter may have died: see promote.
    if requested ~= '0' then left = math.min(left, requested) end
    call('SET', KEYS[1], waiting == 0 and owner or 'distlock:busy:' .. owner, 'PX', left)
    local claim = clock .. ' 0 ' .. who .. ' 0\n' .. string.sub(text, at, data - 1) .. string.sub(text, to)
    call('HDEL', hash, entry)
    local state = waiting == 0 and '' or ' 0 ' .. waiting .. ' 0 ' .. soon .. ' ' .. lives .. ' ' .. tail .. ' '
    call('SET', memory, number .. state .. '\n' .. #owner .. ' ' .. owner .. claim, 'KEEPTTL')
    if fence - fence % 10000000 > tonumber(last) then call('PEXPIRE', memory, 600000 + math.ceil((fence - now) / 1000)) end
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
