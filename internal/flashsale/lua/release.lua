-- Gives the unit and the slot of an order back, if the gate holds it.
--
--   ARGV  order id, forget (1 = its request id may be used again)
--
-- Returns < 0 not loaded, 0 not held, 1 given back.

local gate, why = open()
if not gate then return why end

local order = ARGV[1]
redis.call('SADD', KEYS[7], order)
local record = redis.call('HGET', KEYS[4], order)
if not record then return 0 end
local f = fields(record)
redis.call('HDEL', KEYS[4], order)
redis.call('ZREM', KEYS[6], order)
redis.call('INCR', KEYS[2])
give_up(order, f[2], tonumber(f[3]))
local request = f[2] .. ':' .. f[8]
if ARGV[2] == '1' and redis.call('HGET', KEYS[5], request) == order then redis.call('HDEL', KEYS[5], request) end
return 1
