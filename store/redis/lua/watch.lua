-- watch notes that somebody watches a key without a claim.
--
-- KEYS: name, hash, set
-- ARGV: for how many ms, the letter for how to tell
--
-- Answer: "".

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--#include floor
--#include common

open(1)
onlookers = ARGV[2] .. digits(math.ceil(nowms) + ARGV[1])
close()
keep(tonumber(ARGV[1]))
return ''
