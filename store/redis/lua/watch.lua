-- watch notes that a process observes a key without a claim.
--
-- KEYS: name; on a cluster also the other keys of the name, for the client
-- ARGV: for how many ms; "p" to notify by PUBLISH, "s" by SPUBLISH
--
-- Answer: "".

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--#include floor
--#include common

open(1)
observers = ARGV[2] .. digits(math.ceil(nowms) + ARGV[1])
keep(tonumber(ARGV[1]))
close()
return ''
