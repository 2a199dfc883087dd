-- Matrices that the same rows are multiplied by, side by side in one tensor: on a GPU a step reads them by one launch then, whose
-- processors all read. The layers' own weights lie in it from then on and stay the tensors that they were, for optimisers and
-- whoever else has them, so nothing is there twice; columns of a product do not depend on what stands beside them, so no
-- bit changes.

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

-- Whether nothing but the layers' own see their memory: who holds a view of one, as of a tied one, would not see it change. What
-- nobody holds is collected first.
local function alone(layers)
  local list = {}
  for _, layer in ipairs(layers) do
    list[#list + 1] = layer.weight
    list[#list + 1] = layer.bias
  end
  if core.movable(list) then return true end
  collectgarbage()
  return core.movable(list)
end

-- One tensor of all the layers' own, which lie in it from here on.
local function join(name, layers)
  local own, views, rows = {}, {}, 0
  for i, layer in ipairs(layers) do own[i], rows = layer[name], rows + layer[name].shape[1] end
  local shape = { unpack(own[1].shape) }
  shape[1] = rows
  local all, at = op.zeros(shape, { dtype = own[1].dtype, device = own[1].device }), 0
  for i, t in ipairs(own) do
    views[i] = all:narrow(0, at, t.shape[1])
    views[i]:copy_(t)
    at = at + t.shape[1]
  end
  return core.move_all(own, views) and { all = all, parts = own } or nil
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
  if not alone(layers) then return end
  core.no_grad(function()
    rawset(owner, "_side", nil)
    local weight = join("weight", layers)
    local bias = weight and layers[1].bias and join("bias", layers) or nil
    if weight and (bias or not layers[1].bias) then rawset(owner, "_side", { weight = weight, bias = bias }) end
  end)
end

-- Whether gradients go to the layers' own, which the tensor of all has none for.
local function learns(side)
  if not side or not core.recording() then return false end
  for _, t in ipairs(side.parts) do
    if t.requires_grad then return true end
  end
  return false
end

--- What the layers give for x, one behind the other along the last axis; nil: they do not stand side by side, or no longer do.
function side_by_side.of(owner, layers, x)
  local side = rawget(owner, "_side")
  if not side or not holds(side.weight, "weight", layers) or not holds(side.bias, "bias", layers) then return nil end
  if not x then return side end
  if learns(side.weight) or learns(side.bias) then return nil end
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
