-- Every row of the operator table in parts: its cases of tests/vectors under layouts of all kinds give the bits of one
-- device, or its error, where sums are cut into as many leaves. ROW=name in the environment: that row alone; WHOLE=1: which
-- rows no case splits.
package.path = "tests/agree/?.lua;tests/mesh/?.lua;" .. package.path
local tessera = require "tessera"
local core, dist = tessera.core, tessera.dist
local cases = require "_cases"
local layouts = require "_layouts"

-- One device stands for several, unless there are some: tessera --devices=cpu:4 scripts/run_test.lua ..
local several = false
for _, d in ipairs(core.devices()) do several = several or d.name == "cpu:3" end
local function on_host(n)
  local list = {}
  for i = 1, n do list[i] = several and "cpu:" .. i - 1 or "cpu:0" end
  return list
end
local meshes = {
  dist.Mesh { axes = { "a", "b" }, shape = { 2, 2 }, devices = on_host(4) },
  dist.Mesh { axes = { "c" }, shape = { 3 }, devices = on_host(3) },
}

local function text_of(out)
  local h = {}
  for i, y in ipairs(out) do
    h[i] = core.is_tensor(y) and y.dtype .. "[" .. table.concat(y.shape, ",") .. "]" .. y:hash() or tostring(y)
  end
  return table.concat(h, " ")
end

-- Which element of a batch is wrong is counted within the part.
local function words(e)
  return (cases.words(e):gsub(" row %d+", " row"):gsub(" matrix %d+", " matrix"):gsub(" element %d+", " element"))
end

local function run(c, x)
  core.seed(17)
  local ok, out = pcall(cases.call, c, x)
  if ok then return text_of(out), out end
  return words(out)
end

local function spread(x, specs, mesh)
  local y = {}
  for i = 1, #x do
    y[i] = x[i]
    if x[i] and specs[i] and next(specs[i]) then y[i] = dist.shard(x[i], mesh, specs[i]) end
  end
  return y
end

local composed, reached, split = {}, {}, {}
for _, o in ipairs(core.operators()) do composed[o.name] = o.class == "compose" or o.class == "direct" end

local function note(row, out)
  for _, y in ipairs(out or {}) do
    local layout = core.is_tensor(y) and core.mesh_layout_of(y)
    reached[row] = reached[row] or layout
    for _, axes in ipairs(layout and select(2, core.mesh_layout_facts(layout)) or {}) do
      split[row] = split[row] or #axes > 0
    end
  end
end

local tried, undecided, wrong, errors = 0, 0, 0, 0
local function try(c, x, wanted, mesh)
  for _, l in ipairs(layouts.of(x, mesh.axes)) do
    local got, out = run(c, spread(x, l[2], mesh))
    note(c.row, out)
    tried = tried + 1
    if not out then errors = errors + 1 end
    if got:find "equally good" then
      undecided = undecided + 1
    elseif not wanted[got] then
      wrong = wrong + 1
      print(("%s, %s over %s: %s, not %s"):format(cases.name(c), l[1], table.concat(mesh.axes, " "), got, next(wanted)))
    end
  end
end

-- Cases that differ by row, type, rank or options.
local only = os.getenv "ROW"
local seen = {}
local function is_new(c, x, most)
  local key = { c.row }
  for i = 1, #x do key[#key + 1] = x[i] and x[i].dtype .. x[i].ndim or "-" end
  for k, v in pairs(c.o or {}) do key[#key + 1] = k .. (type(v) == "number" and "" or type(v) == "table" and #v or tostring(v)) end
  key = table.concat(key, " ")
  seen[key] = (seen[key] or 0) + 1
  return seen[key] <= most and (not only or c.row == only)
end

local few = { f32 = true, f64 = true, bf16 = true, i64 = true, i32 = true, bool = true, complex64 = true }
-- leaves: what sums are cut into for those of one device; of 0 by as many as there are pieces.
local function all(program, most, steps)
  seen = {}
  local function each(c)
    local x = not cases.skipped[c.row] and (steps or not composed[c.row]) and cases.inputs(c) or {}
    if #x == 0 or not few[x[1] and x[1].dtype or "f32"] or not is_new(c, x, most) then return end
    for _, mesh in ipairs(meshes) do
      local wanted = {}
      for _, n in ipairs(program > 0 and { program } or mesh.axes[2] and { 0, 2, 4 } or { 0, 3 }) do
        wanted[dist.leaves(n, run, c, x)] = true
      end
      dist.leaves(program, try, c, x, wanted, mesh)
    end
  end
  for c in cases.each() do each(c) end
  local f, g = { "f32", { 6, 4 }, 1, -1, 1 }, { "f32", { 4, 6 }, 2, -1, 1 }
  each { row = "stop_gradient", x = { f }, family = "control", number = 1 }
  each { row = "barrier", x = { f, g }, family = "control", number = 2 }
  each { row = "barrier", x = { f, f }, family = "control", number = 3 }
end
all(12, 2, true)
all(0, 1, false)
wrong --> 0
if os.getenv "WHOLE" then io.stderr:write(tried, " tried, ", errors, " errors, ", undecided, " undecided\n") end
tried > 3000, undecided --> true, 0

local z = tessera.op.normal { 7, 5 }
local lies = tessera.op.reshard(dist.shard(z, meshes[2], { nil, "c" }), { spec = "c," })
note("reshard", { lies })
lies:hash() == z:hash() --> true

-- Weights in blocks are whole, rows of x are not.
local few, w = tessera.op.normal { 7, 32 }, tessera.op.normal({ 6, 32 }):cast "q8_0"
local spread = dist.shard(few, meshes[2], { "c" })
note("quantized_matmul", { tessera.op.quantized_matmul(spread, dist.replicate(w, meshes[2])) })
tessera.op.quantized_matmul(spread, dist.replicate(w, meshes[2])):hash() == tessera.op.quantized_matmul(few, w):hash() --> true
local three, at = tessera.op.normal({ 4, 6, 32 }):cast "q8_0", tessera.op.arange(14):cast("i64"):mod(4):reshape(7, 2)
local of_experts = tessera.op.experts_linear(spread, dist.replicate(three, meshes[2]), dist.shard(at, meshes[2], { "c" }))
note("experts_linear", { of_experts })
of_experts:hash() == tessera.op.experts_linear(few, three, at):hash() --> true

-- Pages are whole, or split by heads; texts are not, nor their tables.
do
  local op, mesh = tessera.op, meshes[2]
  local q, keys, values = op.normal { 4, 4, 1, 8 }, op.normal { 2, 3, 4, 8 }, op.normal { 2, 3, 4, 8 }
  local tables = tessera.tensor({ { 2, 0 }, { 1, 2 }, { 0, 1 }, { 1, 1 } }, { dtype = "i64" })
  local start = tessera.tensor({ 6, 3, 0, 7 }, { dtype = "i64" })
  local want = op.paged_attention(q, keys, values, tables, start):hash()
  local function whole_of(x) return dist.replicate(x, mesh) end
  local texts = op.paged_attention(dist.shard(q, mesh, { "c" }), whole_of(keys), whole_of(values), whole_of(tables), whole_of(start))
  local heads = op.paged_attention(dist.shard(q, mesh, { nil, "c" }), dist.shard(keys, mesh, { "c" }), dist.shard(values, mesh, { "c" }),
    whole_of(tables), whole_of(start))
  note("paged_attention", { texts })
  note("paged_attention", { heads })
  assert(texts:hash() == want and heads:hash() == want)
end

-- What no case has reached, and what is never split in any.
local unreached, whole = {}, 0
for _, o in ipairs(core.operators()) do
  if not composed[o.name] and o.inputs ~= "" and not cases.skipped[o.name] then
    if not reached[o.name] then unreached[#unreached + 1] = o.name end
    if not split[o.name] then whole = whole + 1 end
    if os.getenv "WHOLE" and not split[o.name] then io.stderr:write(o.name, "\n") end
  end
end
table.concat(unreached, " ") -->
whole --> 10
