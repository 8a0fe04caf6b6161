-- Takes units out of the stock if so many are left; a negative number puts back what is still withdrawn, at most so many.
--
--   ARGV  how many
--
-- Returns < 0 not loaded, 1 done, 0 not enough.

local gate, why = open('withdrawn')
if not gate then return why end

local n = math.max(tonumber(ARGV[1]), -tonumber(gate.terms[1]))
if n > 0 and gate.stock < n then return 0 end
if n == 0 then return 1 end
redis.call('DECRBY', KEYS[2], string.format('%.0f', n))
redis.call('HINCRBY', KEYS[1], 'withdrawn', string.format('%.0f', n))
return 1
