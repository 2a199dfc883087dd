-- Bare numbers at the borders of graphs, and as operands of rows that look at bytes: what numbers are as
-- tensors, f32 and i64, or of the type that the row computes in.
local tessera = require "tessera"
local op, graph, core = tessera.op, tessera.graph, tessera.core

-- A graph that gives a number, as text and captured.
local load = graph.load
local x, c = load("graph @f(%x: f32[2]) -> %x, 1.5, 7, -0.0 {}")(op.ones { 2 })
c --> 1.5000 f32[]
select(3, load("graph @f(%x: f32[2]) -> %x, 1.5, 7 {}")(op.ones { 2 })) --> 7 i64[]
1 / select(2, load("graph @f(%x: f32[2]) -> %x, -0.0 {}")(op.ones { 2 })):item() --> -inf
-- One inside is a value of the type that is written there, which it does not have.
load("graph @g(%x: f32[2]) -> 3 {} graph @f(%x: f32[2]) -> %y { %y = call @g(%x) : f32[] }") --! result 0 is a bare number, not f32[]
-- A called graph gets all that it captured.
local leaf = "graph @leaf(%a: f32[2]; %w: f32[2]) -> %0 { %0 = mul %a, %w } graph @main(%x: f32[2]) -> %e "
load(leaf .. "{ %e = call @leaf(%x) : f32[2] }") --! call: 1 arguments, not 2
load(leaf .. "{ %e = call @leaf(%x, %x) : f32[2] }")(op.ones { 2 } * 3) --> [9. 9.]
--> f32[2]

-- Rows that copy, view, sort, draw: eagerly, captured and loaded, with 1.5 as they are with a tensor of it.
local rows = {
  { "clone" }, { "contiguous" }, { "flatten" }, { "flip" }, { "squeeze" }, { "stop_gradient" }, { "sort", outputs = 2 }, { "sum" },
  { "cumsum", view = true }, { "broadcast_to", "{shape=[3]}", { 3 } }, { "broadcast_to", "{shape=[3000,3000]}", { 3000, 3000 } },
  { "reshape", "{shape=[1,1]}", { 1, 1 } }, { "unsqueeze", "{axis=0}", 0 },
}
local failed
for _, row in ipairs(rows) do
  local name, options, arg = row[1], row[2] or "", row[3]
  local function call(v)
    local y = op[name](v, type(arg) == "table" and { shape = arg } or arg and { axis = arg } or {})
    return y
  end
  local function check(how, y, want)
    if y.dtype ~= want.dtype or y:hash() ~= want:hash() then failed = failed or name .. " " .. how .. ": " .. tostring(y) end
  end
  local fine, want = pcall(call, core.tensor(1.5))
  if fine and not row.view then
    check("eager", call(1.5), want)
    check("captured", graph.module(name, function(v) return call(1.5), v + 1 end)(op.ones { 1 }), want)
    local more = row.outputs == 2 and ", %1" or ""
    check("loaded", (load(("graph @f(%%x: f32[2]) -> %%0 { %%0%s = %s 1.5 %s }"):format(more, name, options))(op.ones { 2 })), want)
  end
end
failed --> nil
op.clone(7) --> 7 i64[]
