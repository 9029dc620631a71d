-- release ends a claim or gives up a place.
--
-- KEYS: name, hash, set
-- ARGV: owner
--
-- Answer: "" if done, "n" if the owner has neither.

local call = redis.call
if call('GET', KEYS[1]) == ARGV[1] and not call('HGET', KEYS[2], 'busy') then
  call('DEL', KEYS[1]) -- most calls: nobody waits or watches
  return ''
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--#include common

open(1)
sweep()
local owner = ARGV[1]
if held == owner then
  call('DEL', name)
  held = false
  tellOnlookers()
elseif own(owner) then
  forget(owner)
  mark()
  tellOnlookers()
elseif not leave(owner) then
  close()
  return 'n'
end
promote()
close()
return ''
