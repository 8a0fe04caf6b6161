-- A consumer goes: what it still has is free for all at once, and if that is nothing the group forgets it. One with
-- pending entries must stay, for they would be forgotten too.
--
--   KEYS[1]  stream
--   ARGV     group, consumer, idle time in ms that makes an entry free for all, how many entries at most
--
-- Returns how many entries were left.

local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], '-', '+', ARGV[4], ARGV[2])
if pending.err then return 0 end -- no stream, no group
for _, p in ipairs(pending) do
  redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, p[1], 'IDLE', ARGV[3], 'JUSTID')
end
if #pending == 0 then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2]) end
return #pending
