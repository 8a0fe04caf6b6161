-- Lists the bodies of messages, a page at a time: first the delayed ones with the entries' first page.
--
--   ARGV  entry id after which the page begins, "" for the first page; how many
--
-- Returns {id of the last entry, or "" when there are no more, body…}.

local out, from = {''}, '-'
if ARGV[1] ~= '' then
  from = '(' .. ARGV[1]
else
  for _, member in ipairs(redis.call('ZRANGE', delayed, 0, -1)) do out[#out + 1] = cmsgpack.unpack(member)[2] end
end
local entries = redis.call('XRANGE', stream, from, '+', 'COUNT', ARGV[2])
for _, e in ipairs(entries) do
  for i = 1, #e[2], 2 do
    if e[2][i] == 'body' then out[#out + 1] = e[2][i + 1] end
  end
end
if #entries == tonumber(ARGV[2]) then out[1] = entries[#entries][1] end
return out
