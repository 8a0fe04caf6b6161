-- Carries out a consumer's verdicts on entries of one stream.
--
--   ARGV  group, consumer, idle time in ms that makes an entry free for all; then for each entry a verdict and what it
--         needs:
--           ack entry
--           requeue entry
--           delay entry, pause in ms, message id, body, attempts, time in ms
--
-- Acked is gone: the stream holds exactly what is not done. Only the owner's word counts for the other two, so that a
-- consumer that was away too long doesn't bring back what another is handling. Returns 1.

local group, me, free = ARGV[1], ARGV[2], ARGV[3]

-- What isn't pending is not deleted: a stream that was lost and begun again may hold another entry of the same id.
local function drop(entry)
  local acked = redis.pcall('XACK', stream, group, entry)
  return acked == 1 and redis.call('XDEL', stream, entry) == 1
end

-- mine returns how often an entry of this consumer was delivered, nil if it is not this consumer's.
local function mine(entry)
  local p = redis.pcall('XPENDING', stream, group, entry, entry, 1, me)
  return not p.err and p[1] and p[1][4]
end

local i = 4
while i <= #ARGV do
  local verdict, entry = ARGV[i], ARGV[i + 1]
  if verdict == 'ack' then
    drop(entry)
    i = i + 2
  elseif verdict == 'requeue' then
    local deliveries = mine(entry)
    if deliveries then
      redis.call('XCLAIM', stream, group, me, 0, entry, 'IDLE', free, 'RETRYCOUNT', math.max(0, deliveries - 1), 'JUSTID')
    end
    i = i + 2
  else
    -- In this order: a script that has written may go on although memory is short.
    if mine(entry) and drop(entry) then
      redis.call('ZADD', delayed, now + tonumber(ARGV[i + 2]), cmsgpack.pack({ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6]}))
    end
    i = i + 7
  end
end
return 1
