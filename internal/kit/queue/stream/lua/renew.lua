-- A sign of life: what is with a consumer stays with it.
--
--   KEYS[1]  stream
--   ARGV     group, consumer, entry…
--
-- Returns how many of the entries are still this consumer's.

local n = 0
for i = 3, #ARGV do
  local p = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
  if p[1] then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'IDLE', 0, 'JUSTID')
    n = n + 1
  end
end
return n
