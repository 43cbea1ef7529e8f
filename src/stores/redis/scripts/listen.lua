#!lua flags=allow-oom
-- Turns on events: for the next `ms` milliseconds each call publishes them.
local ms = ARGV[1]
begin(KEYS)
call('SET', feed.key, '1', 'PX', ms)
return shown('')
