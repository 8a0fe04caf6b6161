-- Prepended to the scripts that look at a stream and its delayed messages, which share a cluster slot.
--
--   KEYS[1]  stream: an entry has the fields body and, unless somebody else's script has appended it, id; one that was
--            delivered before also attempts and at (ms)
--   KEYS[2]  delayed: sorted set of {id, body, attempts, at}, packed, by the time in ms when they are due

local stream, delayed = KEYS[1], KEYS[2]

-- A failing script does not take its earlier writes back, so the types are looked at before the first of them.
for key, want in pairs({[stream] = 'stream', [delayed] = 'zset'}) do
  local t = redis.call('TYPE', key).ok
  if t ~= want and t ~= 'none' then return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. t) end
end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
