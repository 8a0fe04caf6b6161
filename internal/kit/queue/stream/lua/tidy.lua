-- Takes consumers out of the group that have shown no sign of life for long and have nothing: each start of a process
-- adds one.
--
--   KEYS[1]  stream
--   ARGV     group, ms without a sign of life
--
-- Returns how many went.

local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
if consumers.err then return 0 end -- no stream, no group
local n = 0
for _, c in ipairs(consumers) do
  local f = {}
  for i = 1, #c, 2 do f[c[i]] = c[i + 1] end
  if f.pending == 0 and f.idle >= tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], f.name)
    n = n + 1
  end
end
return n
