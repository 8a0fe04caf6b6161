-- Puts a prepared gate in the place of whatever is left of an earlier one. What is of the same epoch or a newer one
-- stays: its loader has seen more than this one. An open gate of the epoch before stays too. If there were epochs in
-- between it had been lost, and is older than what it says.
--
--   KEYS[8…11]  the prepared buyers, orders, requests, pending; absent ones are empty
--   ARGV        epoch, stock, the four sizes of the prepared, then names and values of meta
--
-- Returns 1 done, 0 left as it was, -1 not all that was prepared is here.

local epoch, stock = ARGV[1], ARGV[2]
local found = redis.pcall('HGET', KEYS[1], 'epoch')
local earlier = type(found) == 'string' and tonumber(found) or -1
if earlier >= tonumber(epoch) or earlier == epoch - 1 and open() then
  redis.call('DEL', KEYS[8], KEYS[9], KEYS[10], KEYS[11])
  return 0
end
local sizes = {'HLEN', 'HLEN', 'HLEN', 'ZCARD'}
for i = 1, 4 do
  if size(sizes[i], KEYS[7 + i]) ~= tonumber(ARGV[2 + i]) then return -1 end
end
local server = history()
if not server then error('this server does not tell its replication id') end

redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7])
for i = 3, 6 do
  if redis.call('EXISTS', KEYS[i + 5]) == 1 then
    redis.call('RENAME', KEYS[i + 5], KEYS[i])
    redis.call('PERSIST', KEYS[i])
  end
end
redis.call('HSET', KEYS[3], '', '')
redis.call('HSET', KEYS[5], '', '')
redis.call('ZADD', KEYS[6], '+inf', '')
redis.call('SADD', KEYS[7], '')
redis.call('SET', KEYS[2], stock)
redis.call('HSET', KEYS[1], 'epoch', epoch, 'server', server, 'units', tonumber(stock) + redis.call('HLEN', KEYS[4]), 'withdrawn', 0, unpack(ARGV, 7))
return 1
