-- Tells what the gate holds.
--
-- Returns < 0 not loaded (-1 absent, -2 foreign, -3 damaged), or {stock, pending, orders, meta as names and values}.

local gate, why = open()
if not gate then return why end

return {gate.stock, gate.pending, gate.orders, redis.call('HGETALL', KEYS[1])}
