-- Decides about several buyers in one step, in their order.
--
--   KEYS[8]  stream of the sale, if whom this script admits is to be in the queue by the same step
--   ARGV     bell that tells of the stream, then three a buyer: order id, user, request id
--
-- Returns < 0 not loaded, or {server, now in ms, amount, voucher, window, verdict…}, a verdict a buyer:
--   {1, slot}     admitted
--   {2, order}    repeat: this request was admitted before, as that order
--   {3, order…}   limit reached, by these
--   {4} sold out  {5} not started  {6} ended  {7} paused
-- An error that begins with NOQUEUE means that nothing was done.

local stream, bell = KEYS[8], ARGV[1]
if stream then
  local kind = redis.call('TYPE', stream).ok
  if kind ~= 'stream' and kind ~= 'none' then return redis.error_reply('NOQUEUE ' .. stream .. ' is a ' .. kind) end
end

local gate, why = open('begin', 'end', 'paused', 'limit', 'amount', 'voucher', 'window')
if not gate then return why end

local begins, ends, paused, limit = tonumber(gate.terms[1]), tonumber(gate.terms[2]), gate.terms[3], tonumber(gate.terms[4])
local amount, voucher, window = gate.terms[5], gate.terms[6], tonumber(gate.terms[7])
local t = redis.call('TIME')
local now = gate.clock or tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local stamp, before = string.format('%.0f', now), string.format('%.0f', now + window)
local sale = string.match(KEYS[1], '{sale:(%d+)}')

-- What is known of these buyers is read for all of them at once, and so is written what changes: a call costs more than
-- what it carries. In between, whoever comes later in the batch finds what was decided about those before him.
local orders, users, requests = {}, {}, {}
for i = 2, #ARGV, 3 do
  orders[#orders + 1], users[#users + 1], requests[#requests + 1] = ARGV[i], ARGV[i + 1], ARGV[i + 1] .. ':' .. ARGV[i + 2]
end
local recorded, units, admitted = read(KEYS[4], orders), read(KEYS[3], users), read(KEYS[5], requests)
local newOrders, newUnits, newRequests, newPending, taken = {}, {}, {}, {}, 0
local queued = {} -- what order.Decode reads

local function decide(order, user, request, key)
  if admitted[key] then return {2, admitted[key]} end
  if recorded[order] then return {2, order} end
  if now < begins then return {5} end
  if now >= ends then return {6} end
  if paused == '1' then return {7} end
  local held, n, slot = holding(units[user])
  if n >= limit then
    local v = {3}
    for s = 0, 62 do
      if held[s] then v[#v + 1] = held[s] end
    end
    return v
  end
  if gate.stock - taken <= 0 then return {4} end
  taken = taken + 1
  local unit = slot .. '=' .. order
  units[user] = n == 0 and unit or units[user] .. ';' .. unit
  recorded[order] = table.concat({'P', user, slot, amount, stamp, before, voucher, request}, '|')
  admitted[key] = order
  append(newUnits, user, units[user])
  append(newOrders, order, recorded[order])
  append(newRequests, key, order)
  append(newPending, stamp, order)
  if stream then
    queued[taken] = string.format('{"orderId":"%s","saleId":"%s","voucherId":"%s","userId":"%s","slot":%d,"amount":%s,"requestId":%s,"admittedAt":%s,"payBefore":%s}',
      order, sale, voucher, user, slot, amount, cjson.encode(request), stamp, before)
  end
  return {1, slot}
end

local out = {gate.server, stamp, amount, voucher, string.format('%.0f', window)}
for i = 1, #orders do out[#out + 1] = decide(orders[i], users[i], ARGV[3 * i + 1], requests[i]) end
if taken > 0 then
  redis.call('HSET', KEYS[3], unpack(newUnits))
  redis.call('HSET', KEYS[4], unpack(newOrders))
  redis.call('HSET', KEYS[5], unpack(newRequests))
  redis.call('ZADD', KEYS[6], unpack(newPending))
  redis.call('DECRBY', KEYS[2], taken)
end
if #queued > 0 then
  redis.call('XADD', stream, '*', 'body', '{"v":1,"reservations":[' .. table.concat(queued, ',') .. ']}')
  redis.pcall('PUBLISH', bell, stream) -- a hint: that it fails must not look like buyers who weren't admitted
end
return out
