-- Deletes a stream that holds nothing.
--
-- Returns 1 when there is none any more, 0 when it holds something.

if redis.call('ZCARD', delayed) > 0 or redis.call('XLEN', stream) > 0 then return 0 end
redis.call('DEL', stream)
return 1
