-- Takes units out of the stock if so many are left; a negative number puts units back.
--
--   ARGV  how many
--
-- Returns -1 not loaded, 1 done, 0 not enough.

if not loaded() then return -1 end
local n = tonumber(ARGV[1])
if n > 0 and tonumber(redis.call('GET', KEYS[2])) < n then return 0 end
redis.call('DECRBY', KEYS[2], ARGV[1])
return 1
