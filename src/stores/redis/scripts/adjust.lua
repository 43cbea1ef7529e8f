#!lua flags=allow-oom
-- Corrects the shard's clock after a jump: one of the servers does it; the others find it done. For a stopped test clock `expected` is empty:
-- the clock is set to `new`, and the other servers are notified. If `new` is '', the next event is looked up, because the core only keeps a lower bound.
local ticket, expected, new = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
begin(KEYS, ticket)

local kept = answered_before(ticket)
if kept then return repeated(kept) end
if core_flags >= LAYOUT.HELD then
    if not expected and new then
        LAYOUT.hold(new)
        notify('c' .. server_of(ticket) .. text_of(new))
    elseif not expected then
        local names = call('ZRANGE', TOPICS, '0', '-1')
        for i = 1, #names do
            local t = topic_find(names[i])
            if t then
                local before, was_changed = t.f[NEXT], t.is_changed
                topic_refresh(t)
                t.is_changed = was_changed or t.f[NEXT] ~= before
                if t.f[NEXT] ~= t.f[LISTED] then topic_list(t) end
            end
        end
        shard_look()
    end
elseif adjust == expected then
    adjust, core_is_changed = new, true
    now = wall + new
end
return changed(ticket)
