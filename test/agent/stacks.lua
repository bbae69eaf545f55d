-- Makes redis allocate at many stacks: keys are set below three nested calls, each of one of fourteen ways from Lua into C
-- and back. ARGV: the first and the last of 14^3 paths.
local go
local function meta(event) return setmetatable({}, {[event] = function(t) return t.run() or '' end}) end
local function with(event, f) local t = meta(event) rawset(t, 'run', f) return t end
local ways = {
	function(f) pcall(f) end,
	function(f) xpcall(f, function(e) return e end) end,
	function(f) string.gsub('x', 'x', f) end,
	function(f) table.foreach({1}, f) end,
	function(f) table.foreachi({1}, f) end,
	function(f) table.sort({1, 2}, function() f() return false end) end,
	function(f) local x = with('__index', f).other end,
	function(f) with('__newindex', f).other = 1 end,
	function(f) local x = with('__add', f) + 1 end,
	function(f) local x = -with('__unm', f) end,
	function(f) local x = with('__concat', f) .. '' end,
	function(f) tostring(with('__tostring', f)) end,
	function(f) local t = with('__lt', f) local x = t < t end,
	function(f) local t = with('__le', f) local x = t <= t end,
}
go = function(path, left, key)
	if left == 0 then
		redis.call('SET', key, string.rep('v', 900))
		if tonumber(string.sub(key, 6)) % 3 == 0 then redis.call('RPUSH', 'list' .. key, string.rep('v', 900)) end
	else
		ways[path % 14 + 1](function() go(math.floor(path / 14), left - 1, key) end)
	end
end
for path = tonumber(ARGV[1]), tonumber(ARGV[2]) do go(path, 3, 'stack' .. path) end
return redis.call('DBSIZE')
