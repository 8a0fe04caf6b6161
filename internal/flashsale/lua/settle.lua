-- Marks orders as written. One that the gate doesn't know was in flight while it was loaded: it is adopted.
--
--   ARGV  eight an order: order id, user, slot, amount, admittedAt, payBefore, voucher, request id
--
-- Returns < 0 not loaded, or how many were adopted.

local gate, why = open()
if not gate then return why end

local orders = {}
for i = 1, #ARGV, 8 do orders[#orders + 1] = ARGV[i] end
local records = read(KEYS[4], orders)
local written, settled, adopted = {}, {}, 0
for i = 1, #ARGV, 8 do
  local order, user, slot, request = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 7]
  local known = records[order] and fields(records[order])
  local record
  if known and known[1] == 'P' and tonumber(known[3]) == slot then -- as it was admitted: nearly always
    record = 'W' .. string.sub(records[order], 2)
  elseif known and known[1] == 'P' or not known and redis.call('SISMEMBER', KEYS[7], order) == 0 then
    if known then give_up(order, user, tonumber(known[3])) end
    if not known then
      adopted = adopted + 1
      redis.call('DECR', KEYS[2])
    end
    local held = holding(redis.call('HGET', KEYS[3], user))
    held[slot] = order
    keep(user, held)
    record = table.concat({'W', user, slot, ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], request}, '|')
    if request ~= '' then redis.call('HSET', KEYS[5], user .. ':' .. request, order) end
  end
  if record then
    records[order] = record
    append(written, order, record)
    settled[#settled + 1] = order
  end
end
if #settled > 0 then
  redis.call('HSET', KEYS[4], unpack(written))
  redis.call('ZREM', KEYS[6], unpack(settled))
end
return adopted
