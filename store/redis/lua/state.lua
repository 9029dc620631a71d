-- The state of a name: how scripts read and write it. It needs floor, call, and now in
-- microseconds. Scripts read before they write, so that an error of the first write leaves nothing
-- half done.

local WHOLE, SPAN, LAST = 1073741824, 128, 9007199254740864 -- LAST is the highest fence of a grant
local MARK = 'distlock:shared' -- the value of the name while shared claims live
local BUSY = 'distlock:busy:' -- before the owner of an exclusive claim that a fast path may not end
local STEP = 100 -- how many ended claims or queue entries one call removes
local KEEP = 60000 -- ms by which data outlives the claim or entry that it belongs to

-- The set has three kinds of members. Their ranges of scores are disjoint:
--   q<owner>  the queue, in order: below 0
--   s<owner>  shared claims, by their ends in ms: 0 to ENTRIES
--   e<owner>  queue entries, by their ends in ms: from ENTRIES
local ENTRIES = 100000000000000
local FIRST = 9007199254740992 -- subtracted from a time in us

local nowms = now / 1000

-- The keys of a name, and the state that was read from them. open sets all of them.
local name, memory, hash, set, broken
local held -- the value of the name without BUSY, or false
local flagged -- the value of the name has BUSY before it
local alone -- the value of the name is MARK, and the shared claims are lost
local latest -- the owner of the exclusive claim that was granted last, or false
local claim -- the rest of its record
local last -- the highest fence that was granted
local used -- the sum of the weights of the shared claims
local waiting -- how many entries the queue has
-- long is 1 if hash or set may live for more than ten minutes, or the exclusive claim is a record.
local long
local soon -- a time in ms before which no queue entry ends
local lives -- a time in ms until which the hash lives, and the set if it exists
local tail -- the order of the last queue entry
-- observers is a letter for the command that notifies observers, and until when they observe, in
-- ms; or ''.
local observers
local was -- the memory as it was
local needs -- how many ms the memory has to live at least; 0: it stays as it is
local exact -- needs is no minimum

local function digits(n) return string.format('%.0f', n) end

local function open(i)
  name = KEYS[i]
  local tag = '{' .. name .. '}:'
  memory, hash, set, broken = tag .. 'm', tag .. 'c', tag .. 'z', tag .. 'b'
  needs, exact = 0, false
  held, was = call('GET', name), call('GET', memory) or ''
  flagged = held and string.sub(held, 1, #BUSY) == BUSY
  if flagged then held = string.sub(held, #BUSY + 1) end
  local line, size, at = string.match(was, '^([^\n]*)\n?(%d*) ?()')
  latest = size ~= '' and string.sub(was, at, at + size - 1)
  claim = latest and string.sub(was, at + size)
  local a, b, c, d, e, f, g, h = string.match(line, '^(%d+) (%d+) (%d+) (%d) (%d+) (%d+) (%d+) (.*)$')
  last = tonumber(a or line) or 0
  used, waiting, long = tonumber(b or 0), tonumber(c or 0), tonumber(d or 0)
  soon, lives, tail, observers = tonumber(e or 0), tonumber(f or 0), tonumber(g or 0), h or ''
  alone = held == MARK and used == 0
end

-- exclusive reports whether one holder has the whole name: a claim of ours or another client. A
-- MARK without shared claims is waited out like another client: its holders may still trust their
-- claims.
local function exclusive() return held and (held ~= MARK or alone) end

-- taken returns how much of the key is taken.
local function taken() return exclusive() and WHOLE or used end

-- lifetime returns how long the memory must live for its last fence, in ms. A release lets it live
-- up to ten seconds less.
local function lifetime() return 600000 + math.max(0, math.ceil((last - now) / 1000)) end

-- keep lets the memory outlive data that lives for so many ms: close sets it.
local function keep(life)
  if life + KEEP > lifetime() then long = 1 end
  needs = math.max(needs, life + KEEP, lifetime())
end

-- keepSet does the same for hash and set, which exist.
local function keepSet(ends)
  ends = math.max(ends + KEEP, lives)
  if call('PTTL', hash) < ends - nowms then call('PEXPIREAT', hash, digits(ends)) end
  if call('PTTL', set) < ends - nowms then call('PEXPIREAT', set, digits(ends)) end
end

-- recorded reports whether the exclusive claim is a record, which no fast path may renew.
local function recorded()
  return held and latest == held and string.find(claim, '^%d+ 1 ') ~= nil
end

-- fit gives memory, hash and set the life that their contents and the last fence need. It is called
-- when one of them may live too long, because data with a long life may have been removed.
local function fit()
  local shared = call('ZREVRANGEBYSCORE', set, '(' .. digits(ENTRIES), '0', 'WITHSCORES', 'LIMIT', 0, 1)[2] or 0
  local entry = (call('ZREVRANGEBYSCORE', set, '+inf', digits(ENTRIES), 'WITHSCORES', 'LIMIT', 0, 1)[2] or 0) - ENTRIES
  local longest = math.max(shared, entry) - nowms
  if longest > 0 then
    call('PEXPIRE', hash, digits(longest + KEEP))
    call('PEXPIRE', set, digits(longest + KEEP))
  end
  if exclusive() then longest = math.max(longest, call('PTTL', name)) end
  if observers ~= '' then longest = math.max(longest, string.sub(observers, 2) - nowms) end
  needs, exact = math.max(longest + KEEP, lifetime()), true
  lives = 0
  long = (longest + KEEP > lifetime() or recorded()) and 1 or 0
end

-- busy reports whether the end of an exclusive claim, or its renewal, has to look at more than the
-- name.
local function busy() return used > 0 or waiting > 0 or long > 0 or observers ~= '' end

-- setName writes the owner of an exclusive claim, with the options of SET.
local function setName(...)
  flagged = busy()
  call('SET', name, (flagged and BUSY or '') .. held, ...)
end

-- close writes the changed state.
local function close()
  if long > 0 then fit() end
  local text = last > 0 and digits(last) or ''
  if busy() then
    text = digits(last) .. ' ' .. digits(used) .. ' ' .. digits(waiting) .. ' ' .. long .. ' ' ..
      digits(soon) .. ' ' .. digits(lives) .. ' ' .. digits(tail) .. ' ' .. observers
  end
  if text ~= '' then text = text .. '\n' .. (latest and #latest .. ' ' .. latest .. claim or '') end
  if text == '' and was ~= '' then
    call('DEL', memory)
  elseif text ~= was then
    call('SET', memory, text, 'KEEPTTL')
    if was == '' then needs = math.max(needs, lifetime()) end
  end
  if needs > 0 and (exact or call('PTTL', memory) < needs) then call('PEXPIRE', memory, digits(needs)) end
  -- For the owner of another client there is no memory, and its value is its own.
  if held and held == latest and flagged ~= busy() then setName('KEEPTTL') end
end
