-- Tables in tables, numbers and words beside tensors go to files and come back.
local tessera = require "tessera"
local op, nn, optim = tessera.op, tessera.nn, tessera.optim
local path = os.tmpname() .. ".safetensors"

local model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
local opt = optim.Adam(model:parameters())
model(op.ones { 1, 2 }):sum():backward()
opt:step()
tessera.save(path, { model = model:state_dict(), opt = opt:state_dict(), epoch = 3, best = 0.1, done = false, name = "net \"1\"\n",
  log = { 1.5, 1 / 3, -1 / 0, { "a", true, {} } }, [7] = "seven", [0.5] = { x = model[1].weight } }, { by = "me" })
local got, meta = tessera.load(path)
got.epoch, got.best, got.done, got.name, got[7] --> 3, 0.1, false, net "1"
-->, seven
got.log[2] == 1 / 3, got.log[3], got.log[4][1], got.log[4][2], #got.log[4][3] --> true, -inf, a, true, 0
meta.by, next(meta, "by") --> me, nil
got.model["0.weight"]:hash() == model[1].weight:hash() --> true
rawequal(got[0.5].x, got.model["0.weight"]) --> true
model:load_state_dict(got.model)
opt:load_state_dict(got.opt)
opt.steps --> 1

-- Others read the tensors by their paths; a table of tensors alone is written as ever.
local f = io.open(path, "rb")
local bytes = f:read "*a"
f:close()
bytes:find('"model.0.weight":{"dtype":"F32","shape":[3,2]', 1, true) ~= nil --> true
tessera.save(path, model:state_dict())
select(2, tessera.load(path))["tessera.structure"] --> nil

local function why(value, metadata)
  local _, said = pcall(tessera.save, path, value, metadata)
  return (said:gsub("^.-%.safetensors: ", ""))
end
why { a = { b = print } } --> 'a.b' is a function, which no file holds
why { model = model } --> 'model' is a module
-->   hint: model:state_dict() is what is saved
why { a = { b = op.ones { 1 } }, ["a.b"] = op.ones { 2 } } --> 'a.b' is the name of two
why { a = { [true] = 1 } } --> 'a' has a boolean as a key
why { a = "\255" } --> 'a' is no UTF-8
local ring = {}
ring.a = { ring }
local deep = {}
for _ = 1, 99 do deep = { deep } end
tessera.save(path, deep)
#tessera.load(path)[1][1][1] --> 1
why { deep } --> more than 100 tables stand in each other
why(ring) --> 'a.0' holds itself
why({ x = op.ones { 1 } }, { ["tessera.structure"] = "x" }) --> the metadata 'tessera.structure' says how tensors stand in tables

-- What a file says of its structure is not believed.
local io_ = require "tessera.io"
local function damaged(text)
  io_.save_safetensors(path, { x = op.ones { 1 } }, { ["tessera.structure"] = text })
  local _, said = pcall(tessera.load, path)
  return (said:gsub("^.-%.safetensors: ", ""))
end
damaged '["t","y"]' --> the structure is damaged: it names a tensor that is not there
damaged '["l",5]' --> the structure is damaged: a list is none
damaged '["k",["a"]]' --> the structure is damaged: a table is none
damaged '["k",[["n","nan"],"a"]]' --> the structure is damaged: a key is none
damaged '["n","x"]' --> the structure is damaged: a number is none
damaged '7' --> the structure is damaged: it has an unknown form
damaged '[' --> the structure is no JSON: line 1, byte 2: a value is missing
damaged(('["l",['):rep(120) .. ("]]"):rep(120)) --> the structure is damaged: it is too deep
os.remove(path)

-- Tensors under numbers stay under numbers.
do
  local name = os.tmpname() .. ".safetensors"
  tessera.save(name, { [1] = tessera.op.ones { 1 }, [3] = tessera.op.ones { 2 } })
  local back = tessera.load(name)
  os.remove(name)
  print(back[1].numel, back[3].numel, back["1"]) --> 1	2	nil
end
