-- Gives a consumer what it may handle now: first what was left behind, then what is new.
--
--   ARGV  group, consumer, how many, ms without a sign of life after which an entry is taken from its consumer,
--         deliveries from which on an entry travels alone, "1" if the consumer holds nothing
--
-- Returns {ms until the next delayed message is due or -1, entry…}, an entry being {id, deliveries, {field, value…}}.

local group, me, room, left, suspect, empty = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1'

-- A stream that isn't there is not made: it may be that of a sale which is over.
if redis.call('EXISTS', stream, delayed) == 0 then return {-1} end

for _, member in ipairs(redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, room)) do
  local m = cmsgpack.unpack(member)
  -- In this order: a script that has written may go on although memory is short, and what it adds it has just freed.
  redis.call('ZREM', delayed, member)
  redis.call('XADD', stream, '*', 'id', m[1], 'body', m[2], 'attempts', m[3], 'at', m[4])
end
local due = -1
local first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
if first[2] then due = math.max(0, tonumber(first[2]) - now) end

-- Without the group everything in the stream is undelivered again, for what was acked is no longer there.
local summary = redis.pcall('XPENDING', stream, group)
if summary.err then
  if not string.find(summary.err, 'NOGROUP', 1, true) then return summary end
  redis.call('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
end

local out = {due}

-- claim takes pending entries over. It reports whether the consumer has enough.
local function claim(pending)
  for _, p in ipairs(pending) do
    local entry, owner, deliveries = p[1], p[2], p[4]
    local alone = deliveries >= suspect
    if (empty or owner ~= me) and (not alone or empty and #out == 1) then
      -- An entry that somebody has deleted is not returned, and is no longer pending then.
      -- What was lost on the way to a consumer that is alive has not ended it: that is no delivery.
      if owner ~= me then deliveries = deliveries + 1 end
      local got = redis.call('XCLAIM', stream, group, me, 0, entry, 'RETRYCOUNT', deliveries)
      if got[1] and got[1][2] then
        out[#out + 1] = {entry, deliveries, got[1][2]}
        room = room - 1
        if alone or room == 0 then return true end
      end
    end
  end
end

-- What is this consumer's although it holds nothing: the answer that brought it, or the one that settled it, got lost.
if empty and claim(redis.call('XPENDING', stream, group, '-', '+', room, me)) then return out end
if claim(redis.call('XPENDING', stream, group, 'IDLE', left, '-', '+', room)) then return out end

local new = redis.call('XREADGROUP', 'GROUP', group, me, 'COUNT', room, 'STREAMS', stream, '>')
if new then
  for _, e in ipairs(new[1][2]) do out[#out + 1] = {e[1], 1, e[2]} end
end
return out
