-- Each word of ir/sched/choice.def in an edited schedule: it is another kernel, with the same bits, that can be kept;
-- or a remark says why it is none, as f:choose does.
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph, jit, rng = tessera.op, tessera.graph, tessera.jit, tessera.rng
if not jit.status() then return print "skipped: nothing is compiled here" end
core.patches_forget()

local function function_of(name, body, ...)
  local f = graph.module(name, body)
  f(...)
  jit.pin(f, ...)
  return f
end
local map = function_of("map", function(x) return x * 2 + 1 end, rng.normal{ 512, 512 })
local rows = function_of("rows", function(x) return op.softmax(x) end, rng.normal{ 512, 300 })
local product = function_of("product", function(x, w) return op.matmul(x, w) end, rng.normal{ 256, 256 }, rng.normal{ 256, 256 })

local function with(f, words)
  local text = f:ir("schedule", { kernel = 0 })
  local word = words:match "%a+"
  local changed, n = text:gsub("(\n  [^\n]*%f[%a])" .. word .. " %d+", "%1" .. words)
  if n == 0 then changed = text:gsub("\n}", (text:find "\n  [^\n]* with " and " " or " with ") .. words .. "\n}") end
  return f:with("schedule", changed)
end
local seen = {}
local function changes(f, words)
  seen[words:match "%a+"] = true
  local e = with(f, words)
  assert(e.equal and not e.unchanged, words .. ": " .. tostring(e))
  return e
end
local function says(f, words, remark)
  seen[words:match "%a+"] = true
  local e = with(f, words)
  assert(table.concat(e.remarks, "\n"):find(remark), words .. ": " .. tostring(e))
  return e
end

for _, words in ipairs { "unroll 8", "vector 16", "grain 3", "piece 1024", "stream 2" } do changes(map, words) end
for _, words in ipairs { "stages 2", "unroll 2", "grain 3", "vector 16", "stream 2" } do changes(rows, words) end
for _, words in ipairs { "rows 64", "columns 64", "depth 16", "high 6", "pack 2" } do changes(product, words) end
local e = changes(map, "unroll 8"):keep()
assert(map:ir("tile", { kernel = 0 }):find " unroll 8 ", map:ir("tile", { kernel = 0 }))
e:drop() --> true

says(product, "high 3", "^high = 3 becomes 6: register tiles have ")
says(product, "vector 7", "^vector = 7 has no effect: .* has no such choice; it has rows, columns, depth, high, pack$").unchanged --> true
says(product, "grain 3", "^grain = 3 has no effect: ")
says(map, "high 6", "^high = 6 has no effect: ")
says(rows, "stages 9", "^stages = 9 becomes 4: 1 to 4$")
for _, words in ipairs { "threads 64", "cluster 2", "group 8", "limit 2" } do says(map, words, " has no effect: ") end

for word in io.open "ir/sched/choice.def":read "*a":gmatch "\nCHOICE%((%l+)," do assert(seen[word], word) end
