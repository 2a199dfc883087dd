-- Rows that are steps: their gradient is 0 wherever it exists, on the tape as in graphs.
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph = tessera.op, tessera.graph

local wrong, names = {}, {}
local function expect(ok, what) if not ok then wrong[#wrong + 1] = what end end

for _, row in ipairs(core.operators()) do
  local n = 0
  for word in row.inputs:gmatch "%S+" do n = n + (word:match "[?]$" and 0 or 1) end
  -- What is made like x, or cut off from it, has no slope at all, as in PyTorch.
  if row.adjoint == "zero" and n > 0 and not row.inputs:match "index" and row.class ~= "random" then
    local function made() return tessera.tensor({ 1.5, -2.25, 0.75 }, { dtype = "f64" }) end
    local function f(x, y)
      local args = { x, n > 1 and y or nil }
        return (op[row.name](unpack(args)))
    end
    local fine, y = pcall(f, made(), made() * 2)
    if fine and y.dtype == "f64" and not row.name:match "_like$" and row.name ~= "stop_gradient" then
      names[#names + 1] = row.name
      local x, z = made(), made() * 2
      x.requires_grad, z.requires_grad = true, true
      local loss = op.sum(f(x, z))
      local ok, why = pcall(loss.backward, loss)
      expect(ok, row.name .. ": " .. tostring(why))
      expect(x.grad and x.grad:abs():max():item() == 0, row.name .. " on the tape")
      if n > 1 then expect(z.grad and z.grad:abs():max():item() == 0, row.name .. " on the tape, the second") end
      local g = graph.grad(function(a) return op.sum(f(a, made())) end)
      expect(g(made()):abs():max():item() == 0, row.name .. " of a graph")
      -- Beside something that has a slope.
      local w = made()
      w.requires_grad = true;
      (op.sum(f(w, made())) + op.sum(w * 3)):backward()
      expect(w.grad:sub(3):abs():max():item() == 0, row.name .. " in a sum")
    end
  end
end
table.sort(names)
table.concat(names, " ") --> ceil floor floordiv heaviside round trunc truncdiv
table.concat(wrong, "\n") -->

-- sign has a row of its own for complex numbers.
local x = tessera.tensor { 2, -3, 0, requires_grad = true }
op.sum(op.sign(x)):backward()
x.grad --> [0. 0. 0.]
--> f32[3]
