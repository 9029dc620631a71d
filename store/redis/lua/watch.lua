-- watch notes that somebody watches a key without a claim.
--
-- KEYS: name, hash, shared, line, places
-- ARGV: for how many ms, the letter for how to tell
--
-- Answer: "".

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

--#include common

open(1)
call('HSET', hash, 'onlookers', ARGV[2] .. digits(math.ceil(nowms) + ARGV[1]))
keep(tonumber(ARGV[1]))
return ''
