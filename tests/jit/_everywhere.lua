-- One function in every mode: eagerly, captured (by the VM, compiled, by the interpreter of Tile
-- IR), in a hot loop, and on the simulated device. Library of the tests.
local tessera = require "tessera"
local core, graph, jit = tessera.core, require "tessera.graph", tessera.jit

local function copies(x, device)
  local y = {}
  for i, t in ipairs(x) do y[i] = device and t:to(device):clone() or t:clone() end
  return y
end

local function hashes(...)
  local list = {}
  for i = 1, select("#", ...) do
    local y = select(i, ...)
    list[i] = (core.type_text(y) .. " " .. y:hash()):gsub(" sim:0", "")
  end
  return table.concat(list, " ")
end

local function looped(f, x)
  local list
  for _ = 1, 120 do
    local got = hashes(f(unpack(copies(x))))
    if list and got ~= list then return "changing: " .. got end
    list = got
  end
  return list
end

-- By the compiled kernels, and by the interpreter in their place.
local function kernels(g, x, got)
  jit.eager(true)
  for _, way in ipairs { "compiled", "block", "explicit" } do
    if way ~= "compiled" then core.jit_interpret(way) end
    g(unpack(copies(x)))
    got[way] = hashes(g(unpack(copies(x))))
    core.jit_interpret()
  end
  jit.eager(false)
end

--- What f gives for clones of the tensors, if that is the same everywhere; else what differs.
return function(f, ...)
  local x = { ... }
  local want = hashes(f(unpack(copies(x))))
  local g = graph.module("everywhere", f)
  local got = {
    captured = hashes(g(unpack(copies(x)))),
    again = hashes(g(unpack(copies(x)))),
    device = hashes(f(unpack(copies(x, "sim:0")))),
    loop = looped(f, x),
  }
  kernels(g, x, got)
  for name, bits in pairs(got) do
    if bits ~= want then error(name .. " differs: " .. bits .. ", not " .. want, 2) end
  end
  return f(unpack(copies(x)))
end
