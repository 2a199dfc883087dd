-- Matrices that the same rows are multiplied by, side by side in one tensor: on a GPU a step reads them by one launch then, whose
-- processors all read. The layers' own weights become views of it, so nothing is there twice; columns of a product do not
-- depend on what stands beside them, so no bit changes.

local core = require "tessera.core"
local blocks = require "tessera.hf.blocks"
local op = core.op

local side_by_side = {}

local function joinable(name, layers)
  local first = layers[1][name]
  for _, layer in ipairs(layers) do
    local t = layer[name]
    if (t == nil) ~= (first == nil) then return false end
    if t and (t.dtype ~= first.dtype or t.device ~= first.device or blocks.in_blocks(t.dtype)) then return false end
  end
  return true
end

-- One tensor of all, whose parts take the place of the layers' own.
local function join(name, layers)
  local first, rows = layers[1][name], 0
  if not first then return nil end
  for _, layer in ipairs(layers) do rows = rows + layer[name].shape[1] end
  local shape = { unpack(first.shape) }
  shape[1] = rows
  local all, parts, at = op.zeros(shape, { dtype = first.dtype, device = first.device }), {}, 0
  for i, layer in ipairs(layers) do
    local t = layer[name]
    parts[i] = all:narrow(0, at, t.shape[1])
    parts[i]:copy_(t)
    parts[i].requires_grad = t.requires_grad
    at = at + t.shape[1]
  end
  for i, layer in ipairs(layers) do rawset(layer, name, parts[i]) end
  return { all = all, parts = parts }
end

local function holds(side, name, layers)
  if not side then return layers[1][name] == nil end
  for i, layer in ipairs(layers) do
    if not rawequal(layer[name], side.parts[i]) then return false end
  end
  return true
end

--- put(owner, layers): linear layers of one owner stand side by side from here on, if their types allow.
function side_by_side.put(owner, layers)
  if #layers < 2 or side_by_side.of(owner, layers) or not joinable("weight", layers) or not joinable("bias", layers) then return end
  core.no_grad(function()
    rawset(owner, "_side", { weight = join("weight", layers), bias = join("bias", layers) })
  end)
end

--- What the layers give for x, one behind the other along the last axis; nil: they do not stand side by side, or no longer do.
function side_by_side.of(owner, layers, x)
  local side = rawget(owner, "_side")
  if not side or not holds(side.weight, "weight", layers) or not holds(side.bias, "bias", layers) then return nil end
  if not x then return side end
  return op.linear(x, side.weight.all, side.bias and side.bias.all)
end

--- All layers of a model that say so (`beside`), where a GPU has them.
function side_by_side.model(model, device)
  if device:find "^cpu" then return end
  model:apply(function(m)
    local beside = m.beside
    if type(beside) == "function" then
      side_by_side.put(m, m:beside())
      collectgarbage() -- the tensors that they were
    end
  end)
end

return side_by_side
