#!lua flags=allow-oom
-- Returns what is due to be carried to other shards about batches (common/parts.lua): reports, orders, and joins whose time is over. It
-- stays until it is confirmed.
local ticket = ARGV[1]
begin(KEYS, ticket)
local out = parts.collect()
settle(NOBODY, '', nil)
return shown('', out)
