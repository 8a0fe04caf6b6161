-- Replaces the terms, unless the gate knows these or newer ones, and adds to the stock what has been released since.
--
--   ARGV  "version", version, "released", released, then further names and values of meta
--
-- Returns < 0 not loaded, 1 done, 0 not newer.

local gate, why = open('version', 'released')
if not gate then return why end

if tonumber(gate.terms[1]) >= tonumber(ARGV[2]) then return 0 end
local more = string.format('%.0f', tonumber(ARGV[4]) - tonumber(gate.terms[2]))
redis.call('INCRBY', KEYS[2], more)
redis.call('HINCRBY', KEYS[1], 'units', more)
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
