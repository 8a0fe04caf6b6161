-- Keeps one message beside the stream until it is due.
--
--   ARGV  message id, body, pause in ms
--
-- Returns 1. An error means that nothing was kept. Nobody is rung for: consumers look for what is due once a second.

redis.call('ZADD', delayed, now + tonumber(ARGV[3]), cmsgpack.pack({ARGV[1], ARGV[2], '0', tostring(now)}))
return 1
