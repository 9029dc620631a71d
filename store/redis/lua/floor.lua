-- The floor keeps fences rising after a clock was set back, for names that the server has
-- forgotten. It needs now in microseconds. The floor is one key for all names, without a time to
-- live. Its value is a time: no fence of a forgotten name is more than SLACK above it. With a "c"
-- before the time, no such fence is above it at all: then the clock is behind the floor, and names
-- that are used again continue from there.
--
-- SLACK is how far a fence can be above the floor: ten seconds in which a name's fences are not
-- checked, AHEAD, and LAG, with some more.
local FLOOR = @floor@ -- its Redis key; '' on a cluster, where a script sees the keys of one slot only
local AHEAD, LAG, SLACK = 3000000, 1000000, 15000000

-- floored takes the intended fence of a grant, and returns the fence to use and the new value of
-- the floor, or nil for no change. Last is the last fence of the name, 0 if the server knows none.
-- For a user who may not read the floor, there is none.
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
    if above > 9007199254740864 then return fence, nil end -- another program wrote the floor
    return above, string.format('c%.0f', above)
  end
  local seen = (exact or fence > now + AHEAD) and fence or now
  if seen > floor + (exact and 0 or LAG) then return fence, string.format(exact and 'c%.0f' or '%.0f', seen) end
  return fence, nil
end

-- noteFloor writes the new value that floored returned.
local function noteFloor(text)
  if text then redis.pcall('SET', FLOOR, text) end
end

