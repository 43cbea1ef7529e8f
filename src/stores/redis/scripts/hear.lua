#!lua flags=allow-oom
-- Somebody listens to what happens: for the next `ms` milliseconds each call tells it.
local ms = ARGV[1]
begin(KEYS)
call('SET', feed.key, '1', 'PX', ms)
return shown('')
