-- Prepended to every script of a sale's gate. All keys carry the same hash tag, so that they meet in one cluster slot.
--
--   KEYS[1] meta      hash: version, released, begin, end (ms), paused (0|1), limit, voucher, amount, window (ms), epoch, clock (ms; tests only: stands in for the server's)
--   KEYS[2] stock     integer; below zero while in-flight units are adopted
--   KEYS[3] buyers    hash: user → "slot=order;slot=order"
--   KEYS[4] orders    hash: order → "state|user|slot|amount|admittedAt|payBefore|voucher|request", state P (pending) or W (written)
--   KEYS[5] requests  hash: "user:request" → order
--   KEYS[6] pending   sorted set: order by admission time in ms
--   KEYS[7] ended     set of released orders, so that a late settle doesn't revive them

local types = {'hash', 'string', 'hash', 'hash', 'hash', 'zset', 'set'}

-- loaded reports whether the gate can be used. A failing script does not take its earlier writes back, so everything is
-- looked at before the first of them.
local function loaded()
  if redis.call('EXISTS', KEYS[1], KEYS[2]) < 2 then return false end
  for i = 1, 7 do
    local t = redis.call('TYPE', KEYS[i]).ok
    if t ~= types[i] and t ~= 'none' then error('gate: ' .. KEYS[i] .. ' is a ' .. t) end
  end
  return true
end

-- holding reads a buyer's units: how many, the order of each slot, and the lowest free slot.
local function holding(user)
  local held, n, free = {}, 0, 0
  for slot, order in string.gmatch(redis.call('HGET', KEYS[3], user) or '', '(%d+)=(%d+)') do
    held[tonumber(slot)] = order
    n = n + 1
  end
  while held[free] do free = free + 1 end
  return held, n, free
end

local function keep(user, held)
  local parts = {}
  for slot = 0, 62 do
    if held[slot] then parts[#parts + 1] = slot .. '=' .. held[slot] end
  end
  if #parts == 0 then
    redis.call('HDEL', KEYS[3], user)
  else
    redis.call('HSET', KEYS[3], user, table.concat(parts, ';'))
  end
end

-- fields splits the record of an order: state, user, slot, amount, admittedAt, payBefore, voucher, request.
local function fields(record)
  local f = {}
  for v in string.gmatch(record, '([^|]*)|?') do f[#f + 1] = v end
  return f
end

-- give_up takes an order out of its buyer's slots, unless the slot has become another order's.
local function give_up(order, user, slot)
  local held = holding(user)
  if held[slot] == order then
    held[slot] = nil
    keep(user, held)
  end
end
