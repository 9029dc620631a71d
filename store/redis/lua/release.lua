-- release ends a claim or gives up a place.
--
-- KEYS: name, hash, shared, line, places
-- ARGV: owner
--
-- Answer: "" if done, "n" if the owner has neither.

local known = redis.call('HMGET', KEYS[2], 'waiting', 'onlookers', 'long')
if not known[1] and not known[2] and not known[3] and redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1]) -- most calls: nobody waits, and nothing is left to shorten
  return ''
end

local time = redis.call('TIME')
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
shorten()
return ''
