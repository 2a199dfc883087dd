-- Gradients of every row in parts: for cases of tests/vectors under layouts of all kinds, each operand's gradient has the bits of
-- one device, where sums are cut into as many leaves. ROW=name in the environment: that row alone; WHOLE=1: which rows have
-- gradients that no case has reached; LONG=1: more cases of each row.
package.path = "tests/agree/?.lua;tests/mesh/?.lua;" .. package.path
local tessera = require "tessera"
local core, dist, op = tessera.core, tessera.dist, tessera.op
local cases = require "_cases"
local layouts = require "_layouts"

local meshes = {
  dist.Mesh { axes = { "a", "b" }, shape = { 2, 2 }, devices = { "cpu:0", "cpu:0", "cpu:0", "cpu:0" } },
  dist.Mesh { axes = { "c" }, shape = { 3 }, devices = { "cpu:0", "cpu:0", "cpu:0" } },
}
local real = { f32 = true, f64 = true, bf16 = true, complex64 = true }
local most = os.getenv "LONG" and 3 or 1
local first = most > 1 and real or { f32 = true, complex64 = true }

-- What is added up, so that elements have different gradients: the same of every part.
local function loss_of(out)
  local loss
  for i, y in ipairs(out) do
    if core.is_tensor(y) and real[y.dtype] and y.requires_grad then
      local w = op.normal(y.shape, { seed = 3, stream = i, dtype = "f64" }):cast(y.dtype)
      local z = y * w
      if y.dtype == "complex64" then z = op.real(z) + op.imag(z) end
      z = z:cast "f64":sum()
      loss = loss and loss + z or z
    end
  end
  return loss
end

-- The gradients of x as a text; nil where there are none, and why.
local function gradients(c, x)
  local own = {}
  for i = 1, #x do
    own[i] = x[i]
    if x[i] and real[x[i].dtype] then
      own[i] = x[i]:detach()
      own[i].requires_grad = true
    end
  end
  core.seed(17)
  local ok, out = pcall(cases.call, c, own)
  if not ok then return nil, out end
  local loss = loss_of(out)
  if not loss then return nil, "nothing depends on it" end
  local fine, why = pcall(loss.backward, loss)
  if not fine then return nil, why end
  local text = {}
  for i = 1, #x do
    local g = x[i] and own[i].grad
    text[i] = g and g.dtype .. "[" .. table.concat(g.shape, ",") .. "]" .. g:hash() or "-"
  end
  return table.concat(text, " ")
end

local function spread(x, specs, mesh)
  local y = {}
  for i = 1, #x do
    y[i] = x[i]
    if x[i] and specs[i] and next(specs[i]) and not specs[i].over then y[i] = dist.shard(x[i], mesh, specs[i]) end
  end
  return y
end

local tried, wrong, undecided, reached = 0, 0, 0, {}
local function try(c, x, wanted, mesh)
  for _, l in ipairs(layouts.of(x, mesh.axes)) do
    local got, why = gradients(c, spread(x, l[2], mesh))
    tried = tried + 1
    if not got and tostring(why):find("equally good", 1, true) then
      undecided = undecided + 1
    elseif got ~= wanted then
      wrong = wrong + 1
      print(("%s, %s over %s: %s, not %s"):format(cases.name(c), l[1], table.concat(mesh.axes, " "), got or tostring(why), wanted))
    end
  end
end

-- Cases that differ by row, type, rank or options.
local only = os.getenv "ROW"
local seen = {}
local function is_new(c, x)
  local key = { c.row }
  for i = 1, #x do key[#key + 1] = x[i] and x[i].dtype .. x[i].ndim or "-" end
  for k, v in pairs(c.o or {}) do key[#key + 1] = k .. (type(v) == "number" and "" or type(v) == "table" and #v or tostring(v)) end
  key = table.concat(key, " ")
  seen[key] = (seen[key] or 0) + 1
  return seen[key] <= most and (not only or c.row == only)
end

dist.leaves(12, function()
  for c in cases.each() do
    local x = not cases.skipped[c.row] and cases.inputs(c) or {}
    local any = false
    for i = 1, #x do any = any or x[i] and first[x[i].dtype] end
    if any and is_new(c, x) then
      local wanted = gradients(c, x)
      if wanted then
        reached[c.row] = true
        for _, mesh in ipairs(meshes) do try(c, x, wanted, mesh) end
      end
    end
  end
end)
wrong --> 0
undecided --> 0
if os.getenv "WHOLE" then io.stderr:write(tried, " tried\n") end
tried > 3000 --> true
local n = 0
for _, o in ipairs(core.operators()) do
  if reached[o.name] then n = n + 1
  elseif os.getenv "WHOLE" then io.stderr:write(o.name, " ") end
end
n > 200 --> true
