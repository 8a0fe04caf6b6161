-- Decides about several buyers in one step, in their order.
--
--   ARGV  three a buyer: order id, user, request id
--
-- Returns < 0 not loaded, or {server, now in ms, amount, voucher, window, verdict…}, a verdict a buyer:
--   {1, slot}     admitted
--   {2, order}    repeat: this request was admitted before, as that order
--   {3, order…}   limit reached, by these
--   {4} sold out  {5} not started  {6} ended  {7} paused

local gate, why = open('begin', 'end', 'paused', 'limit', 'amount', 'voucher', 'window')
if not gate then return why end

local begins, ends, paused, limit = tonumber(gate.terms[1]), tonumber(gate.terms[2]), gate.terms[3], tonumber(gate.terms[4])
local amount, voucher, window = gate.terms[5], gate.terms[6], tonumber(gate.terms[7])
local t = redis.call('TIME')
local now = gate.clock or tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local taken = 0

local function decide(order, user, request)
  local earlier = redis.call('HGET', KEYS[5], user .. ':' .. request)
  if earlier then return {2, earlier} end
  if redis.call('HEXISTS', KEYS[4], order) == 1 then return {2, order} end
  if now < begins then return {5} end
  if now >= ends then return {6} end
  if paused == '1' then return {7} end
  local held, n, slot = holding(user)
  if n >= limit then
    local v = {3}
    for s = 0, 62 do
      if held[s] then v[#v + 1] = held[s] end
    end
    return v
  end
  if gate.stock - taken <= 0 then return {4} end
  taken = taken + 1
  held[slot] = order
  keep(user, held)
  local stamp = string.format('%.0f', now)
  redis.call('HSET', KEYS[4], order, table.concat({'P', user, slot, amount, stamp, string.format('%.0f', now + window), voucher, request}, '|'))
  redis.call('HSET', KEYS[5], user .. ':' .. request, order)
  redis.call('ZADD', KEYS[6], stamp, order)
  return {1, slot}
end

local out = {gate.server, string.format('%.0f', now), amount, voucher, string.format('%.0f', window)}
for i = 1, #ARGV, 3 do out[#out + 1] = decide(ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
if taken > 0 then redis.call('DECRBY', KEYS[2], taken) end
return out
