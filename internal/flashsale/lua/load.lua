-- Puts a prepared gate in the place of the live one, unless that is of the same epoch or a newer one.
--
--   KEYS[8…11]  the prepared buyers, orders, requests, pending; absent ones are empty
--   ARGV        epoch, stock, then names and values of meta
--
-- Returns 1 done, 0 left as it was.

local live = redis.call('HGET', KEYS[1], 'epoch')
if live and tonumber(live) >= tonumber(ARGV[1]) and redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('DEL', KEYS[8], KEYS[9], KEYS[10], KEYS[11])
  return 0
end
for i = 3, 6 do
  redis.call('DEL', KEYS[i])
  if redis.call('EXISTS', KEYS[i + 5]) == 1 then
    redis.call('RENAME', KEYS[i + 5], KEYS[i])
    redis.call('PERSIST', KEYS[i])
  end
end
redis.call('DEL', KEYS[1], KEYS[7])
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], unpack(ARGV, 3))
redis.call('SET', KEYS[2], ARGV[2])
return 1
