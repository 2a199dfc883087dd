-- Edited kernels with errors in them: the texts of a few kernels with tokens swapped, lines lost and numbers changed, as
-- f:with takes them. Each is refused with a message, or runs, with its bits or others; the program lives on, and its
-- own kernels have the bits that they had. EDITS_COUNT, EDITS_SEED, EDITS_TRACE in the environment.
local tessera = require "tessera"
local op, graph, jit, rng = tessera.op, tessera.graph, tessera.jit, tessera.rng
local fuzz = dofile "tests/fuzz/_text.lua"
local random, pick = fuzz.random, fuzz.pick
local count = fuzz.open("EDITS", 400)
if not jit.status() then return print "skipped: nothing is compiled here" end

local functions, texts, tokens = {}, {}, {}
local function add(name, body, ...)
  local f, args = graph.module(name, body), { ... }
  jit.pin(f, ...)
  functions[#functions + 1] = { f = f, args = args, want = f(...):hash() }
  for line in f:ir "tiles":gmatch "[^\n]+" do
    local kernel = tonumber(line:match "^%s*(%d+)")
    for _, level in ipairs { "schedule", "tile", "tile", "tile" } do
      local text = f:ir(level, { kernel = kernel })
      texts[#texts + 1] = { f = f, level = level, text = text, args = args, kernel = kernel }
      fuzz.tokens(text, tokens)
    end
  end
end
local x, w, b = rng.normal{ 96, 160 }, rng.normal{ 160, 128 }, rng.normal{ 128 }
add("product", function(x, w, b) return op.gelu(op.matmul(x, w) + b) end, x, w, b)
add("soft", function(x) return op.softmax(x * 2) end, x)
add("sums", function(x) return (x * x):sum{ axis = 0 } end, x)
add("map", function(x) return op.tanh(x) * x + 1 end, x)
for _, word in ipairs { "0", "1", "-1", "1000000", "9223372036854775807", "%0", "%1", "%2", "%x", "%y0", "load", "store", "for", "parallel",
  "{edge=true}", "f32[]", "f32[1000000000]", "i64[]", "step 0", "{", "}", "@local", "..", "{value=-5}", "{value=1e300}", "with", "rows 64",
  "unroll 1000", "repeat", "if", "gather", "scatter", "floordiv", "shl" } do
  tokens[#tokens + 1] = word
end

local function places(text)
  local list = {}
  for at, token in text:gmatch "()([%w_%%.@-]+)" do list[#list + 1] = { at, token } end
  return list
end
local function put(text, at, old, new) return text:sub(1, at - 1) .. new .. text:sub(at + #old) end
local change = {
  function(t) local p = pick(places(t)) return put(t, p[1], p[2], pick(tokens)) end,
  function(t) local l = places(t) local p = pick(l) return put(t, p[1], p[2], pick(l)[2]) end,
  function(t) -- a number is another
    local p = pick(places(t))
    return put(t, p[1], p[2], (p[2]:gsub("%d+", function(n) return ("%d"):format(math.max(0, tonumber(n) % 1e9 + random(7) - 3)) end)))
  end,
  function(t) -- a line goes, or comes twice
    local lines = {}
    for line in t:gmatch "[^\n]*\n" do lines[#lines + 1] = line end
    local i = 1 + random(#lines)
    if random(2) == 0 then table.remove(lines, i) else table.insert(lines, 1 + random(#lines), lines[i]) end
    return table.concat(lines)
  end,
  fuzz.byte,
}

local ran, said = 0, 0
for _ = 1, count do
  local e = pick(texts)
  local text = pick(change)(e.text)
  if random(3) == 0 and #places(text) > 0 then text = pick(change)(text) end
  local trace = os.getenv "EDITS_TRACE"
  if trace then
    local file = io.open(trace, "w")
    file:write(e.level, "\n", text)
    file:close()
  end
  local ok, result = pcall(e.f.with, e.f, e.level, text, { args = e.args, kernel = e.kernel })
  if ok then ran = ran + 1 else said = said + 1 end
  assert(ok or #tostring(result) > 10, result)
end
assert(ran > 0 and said > 0)
for _, e in ipairs(functions) do assert(e.f(unpack(e.args)):hash() == e.want, e.f.name) end
