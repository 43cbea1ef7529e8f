#!lua
return redis.error_reply("ERR not written yet")
