-- Prepended to every script of a sale's gate. All keys carry the same hash tag, so that they meet in one cluster slot.
--
--   KEYS[1] meta      hash: version, released, begin, end (ms), paused (0|1), limit, voucher, amount, window (ms), epoch,
--                     server (the history of data it was loaded into), units, withdrawn, incomplete (ms; 0 = it is complete),
--                     clock (ms; tests only: stands in for the server's)
--   KEYS[2] stock     integer; below zero while in-flight units are adopted
--   KEYS[3] buyers    hash: user → "slot=order;slot=order"
--   KEYS[4] orders    hash: order → "state|user|slot|amount|admittedAt|payBefore|voucher|request", state P (pending) or W (written)
--   KEYS[5] requests  hash: "user:request" → order
--   KEYS[6] pending   sorted set: order by admission time in ms
--   KEYS[7] ended     set of released orders, so that a late settle doesn't revive them
--
-- Always: stock + number of orders + withdrawn = units. Buyers, requests, pending and ended hold an empty member beside
-- the real ones, so that none of these keys is ever missing in a gate that is whole.

local ABSENT, FOREIGN, DAMAGED = -1, -2, -3

-- history names the line of data that this server holds. It is another after each restart, and after each change of
-- master; a replica that takes over, an older file or a backup never carry on the one they were written under.
local function history()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
end

-- size is a collection's, -1 if the key is of another type.
local function size(command, key)
  local n = redis.pcall(command, key)
  return type(n) == 'number' and n or -1
end

-- numbers are the fields of meta that every gate has, beside server.
local numbers = {'units', 'withdrawn', 'epoch', 'incomplete', 'version', 'released', 'begin', 'end', 'paused', 'limit', 'voucher', 'amount', 'window'}

-- open looks at the whole gate before the first write: a failing script does not take its earlier writes back. It
-- returns {stock, orders, pending, server, clock} and the wanted fields of meta in terms; or nil and why it can't be used.
local function open(...)
  local m = redis.pcall('HMGET', KEYS[1], 'server', 'clock', unpack(numbers))
  if m.err then return nil, DAMAGED end
  if not m[1] then return nil, ABSENT end
  if m[1] ~= history() then return nil, FOREIGN end
  local meta = {}
  for i, name in ipairs(numbers) do
    local n = tonumber(m[2 + i])
    if not n or n % 1 ~= 0 then return nil, DAMAGED end
    meta[name] = m[2 + i]
  end
  local gate = {server = m[1], clock = tonumber(m[2]), orders = size('HLEN', KEYS[4]), pending = size('ZCARD', KEYS[6]) - 1, terms = {}}
  local stock = redis.pcall('GET', KEYS[2])
  gate.stock = type(stock) == 'string' and string.match(stock, '^-?%d+$') and tonumber(stock)
  if not gate.stock or gate.stock + gate.orders + tonumber(meta.withdrawn) ~= tonumber(meta.units) or gate.orders < 0 or gate.pending < 0
    or size('HLEN', KEYS[3]) < 1 or size('HLEN', KEYS[5]) < 1 or size('SCARD', KEYS[7]) < 1 then
    return nil, DAMAGED
  end
  for i = 1, select('#', ...) do gate.terms[i] = meta[select(i, ...)] end
  return gate
end

-- read returns the values of some members of a hash by their names, false for those that it doesn't have.
local function read(key, names)
  local found = {}
  for i, value in ipairs(redis.call('HMGET', key, unpack(names))) do found[names[i]] = value end
  return found
end

local function append(list, name, value)
  list[#list + 1] = name
  list[#list + 1] = value
end

-- holding takes a buyer's units apart, false if he has none: the order of each slot, how many, and the lowest free slot.
local function holding(units)
  local held, n, free = {}, 0, 0
  for slot, order in string.gmatch(units or '', '(%d+)=(%d+)') do
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
  local held = holding(redis.call('HGET', KEYS[3], user))
  if held[slot] == order then
    held[slot] = nil
    keep(user, held)
  end
end
