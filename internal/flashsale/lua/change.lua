-- Replaces the terms, unless the gate knows these or newer ones, and adds to the stock what has been released since.
--
--   ARGV  "version", version, "released", released, then further names and values of meta
--
-- Returns -1 not loaded, 1 done, 0 not newer.

if not loaded() then return -1 end
local m = redis.call('HMGET', KEYS[1], 'version', 'released')
if tonumber(m[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('INCRBY', KEYS[2], string.format('%.0f', tonumber(ARGV[4]) - tonumber(m[2])))
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
