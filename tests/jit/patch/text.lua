-- What :edit opens reads back as it was printed: schedules and kernels of each family for each target.
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph, rng = tessera.op, tessera.graph, tessera.rng
if not tessera.jit.status() then return print "skipped: nothing is compiled here" end

local function t(...) return rng.normal { ... } end
local x, w, b = t(128, 256), t(256, 192), t(192)
local q = t(1, 4, 128, 64)
local families = {
  { "product", function(x, w, b) return op.gelu(op.matmul(x, w) + b) end, x, w, b },
  { "half", function(x, w, b) return op.matmul(x, w) + b end, x:cast "bf16", w:cast "bf16", b:cast "bf16" },
  { "rows", function(x) return op.softmax(x * 2) end, x },
  { "norm", function(x) return op.layernorm(x * 2 + 1) end, x },
  { "columns", function(x) return (x * x):sum { axis = 0 } end, x },
  { "map", function(x) return op.tanh(x) * x + 1 end, x },
  { "attention", function(q) return op.attention(q, q, q, { causal = true }):reshape { 4, 128, 64 } * 2 end, q:cast "bf16" },
  { "conv", function(x, w) return op.relu(op.conv2d(x, w)) end, t(2, 8, 16, 16), t(8, 8, 3, 3) },
  { "grads", function(x, w) return graph.grad(function(w) return (op.matmul(x, w) ^ 2):sum() end)(w) end, x, w },
  { "several", function(x, w, b) return op.softmax(op.matmul(x, w) + b):sum { axis = 0 }, op.exp(x) end, x, w, b },
}

local kernels, orders = 0, 0
for _, row in ipairs(families) do
  local f = graph.module(row[1], row[2])
  f(unpack(row, 3))
  for _, target in ipairs { "base", "avx2", "avx512", "sm_80", "sm_86", "sm_90a", "sm_100", "sm_120", "gfx942", "gfx1100" } do
    -- The whole schedule.
    local all = f:ir("concrete") .. f:ir("schedule", { target = target }):gsub("  //[^\n]*", "")
    local read, why = core.sched_parse(all)
    local own = all:match "\n(schedule @.*)$" or all:match "^(schedule @.*)$"
    assert(read, row[1] .. " for " .. target .. ": " .. tostring(why) .. "\n" .. all)
    assert(read:sub(-#own) == own, read)
    for line in f:ir("tiles", { target = target }):gmatch "[^\n]+" do
      local kernel = line:match "^%s*(%d+)"
      if not line:find "no kernel" then
        local schedule = f:ir("schedule", { kernel = kernel, target = target })
        assert(schedule:find("^// group " .. kernel .. ": ") and schedule:find("target " .. target, 1, true), schedule)
        local sched = schedule:match "\n(schedule @.*)$"
        read, why = core.sched_parse(f:ir "concrete" .. sched, "unchecked")
        assert(read and read:sub(-#sched) == sched, row[1] .. ": " .. tostring(why or read))
        -- Kernels of several steps have a text for each.
        local tile = f:ir("tile", { kernel = kernel, target = target })
        for text in ("\n" .. tile):gmatch "\n(tile @.-\n}\n)" do
          read, why = core.tile_parse(text, "places")
          assert(read == text, row[1] .. " for " .. target .. ": " .. tostring(why or read))
          kernels = kernels + 1
        end
        -- The note on the order of tiles is of the head, whatever values are called.
        for note, head in tile:gmatch "(// order of blocks: [^\n]*)\n(tile [^\n]*)" do
          local rows = head:match " order bands:(%d+) "
          assert(rows and note:find("down " .. rows .. " row", 1, true) or head:find " order heads " and note:find "heads of a group", head)
          orders = orders + 1
        end
      end
    end
  end
end
assert(kernels > 90 and orders > 10, kernels .. " " .. orders)
