-- Tells what a request was admitted as.
--
--   ARGV  user, request id
--
-- Returns < 0 not loaded (-1 absent, -2 foreign, -3 damaged), or the order id, 0 = it was never admitted.

local gate, why = open()
if not gate then return why end

return redis.call('HGET', KEYS[5], ARGV[1] .. ':' .. ARGV[2]) or '0'
