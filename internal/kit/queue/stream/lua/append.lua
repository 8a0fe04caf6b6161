-- Puts one message at the end of a stream and rings the bell.
--
--   KEYS[1]  stream
--   ARGV     bell, message id, body
--
-- Returns the entry's id. An error means that nothing was appended.

local entry = redis.call('XADD', KEYS[1], '*', 'id', ARGV[2], 'body', ARGV[3])
redis.pcall('PUBLISH', ARGV[1], KEYS[1]) -- a hint: that it fails must not look like a message that isn't there
return entry
