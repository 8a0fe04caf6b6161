-- Counts what a stream holds.
--
--   ARGV  group, how many delayed messages are looked at for the oldest
--
-- Returns {entries, of them with a consumer, delayed, age in ms of the oldest, or -1}.

local oldest
local function seen(at)
  at = tonumber(at)
  if at and (not oldest or at < oldest) then oldest = at end
end
for _, e in ipairs(redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)) do
  seen(string.match(e[1], '^%d+'))
  for i = 1, #e[2], 2 do
    if e[2][i] == 'at' then seen(e[2][i + 1]) end
  end
end
for _, member in ipairs(redis.call('ZRANGE', delayed, 0, tonumber(ARGV[2]) - 1)) do seen(cmsgpack.unpack(member)[4]) end

local pending = redis.pcall('XPENDING', stream, ARGV[1])
return {redis.call('XLEN', stream), pending.err and 0 or pending[1], redis.call('ZCARD', delayed), oldest and math.max(0, now - oldest) or -1}
