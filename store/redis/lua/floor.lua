-- The floor keeps fences rising after a clock was set back, for names that the server has forgotten. It needs now in microseconds.
-- It is one key for all names, without a time to live: a time that no fence of a forgotten name is more than SLACK above. With a "c"
-- before it, no such fence is above it at all: then the clock is behind it, and names that are used again count on from there.
--
-- SLACK is what a fence can be above the floor: ten seconds in which a name's fences are not looked at, AHEAD, and LAG, with some more.
local FLOOR = @floor@ -- its name; '' on a cluster, where a script sees the keys of one slot only
local AHEAD, LAG, SLACK = 3000000, 1000000, 15000000

-- floored returns the fence of a grant that would have this one, and what the floor is to be then, or nil. Last is the name's last fence; it
-- is 0 if the server knows none. A user who may not read the floor goes without.
local function floored(last, fence)
  if FLOOR == '' or last > 0 and fence <= now + AHEAD and fence - fence % 10000000 <= last then return fence, nil end
  local text = redis.pcall('GET', FLOOR)
  if type(text) == 'table' then return fence, nil end
  local counts, floor = string.match(text or '', '^(c?)(%d+)$')
  floor = tonumber(floor) or 0
  local behind = now < floor
  local exact = behind and counts == 'c'
  if behind and last == 0 then
    local above = math.max(fence, floor + (exact and 0 or SLACK) + 128)
    if above > 9007199254740864 then return fence, nil end -- somebody else wrote it
    return above, string.format('c%.0f', above)
  end
  local seen = (exact or fence > now + AHEAD) and fence or now
  if seen > floor + (exact and 0 or LAG) then return fence, string.format(exact and 'c%.0f' or '%.0f', seen) end
  return fence, nil
end

-- noteFloor writes what floored returned.
local function noteFloor(text)
  if text then redis.pcall('SET', FLOOR, text) end
end

