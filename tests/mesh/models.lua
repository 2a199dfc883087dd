-- Losses of 20 steps and all weights of a GPT-2 and a mixture of experts, f32 and bf16, have the same bits without a mesh, and over
-- dp, tp, ep, pp, ZeRO's stages and mixtures of these on 1, 2, 3, 4 and 8 devices; before and after a checkpoint from which another
-- arrangement goes on. A part of the arrangements; LONG=1: all of them. ONE=text: that alone.
local tessera = require "tessera"
local dist = tessera.dist
local models = dofile "tests/mesh/_models.lua"
local dir = os.tmpname()
os.remove(dir)
os.execute("mkdir " .. dir)

local device = os.getenv "DEV" or ""
if device == "" then device = "cpu:0" end
if not device:find ":" then device = device .. ":0" end
local function devices(n)
  local list = {}
  for i = 1, n do list[i] = device end
  return list
end

local long, one, compared = os.getenv "LONG", os.getenv "ONE", 0
local function compare(o, want, weights, what)
  local losses, after = models.train(o)
  for i in pairs(losses) do assert(losses[i] == want[i], ("%s: the loss of step %d"):format(what, i)) end
  assert(after == weights, what .. "\n" .. after .. "\n--\n" .. weights)
  compared = compared + 1
end

for _, kind in ipairs { "gpt2", "moe" } do
  for c, cast in ipairs { false, "bf16" } do
    tessera.device(device, dist.leaves, 24, function()
      local file = ("%s/%s%d"):format(dir, kind, c)
      local how = { kind = kind, cast = cast or nil, devices = devices }
      how.to = file .. "-0"
      local want, weights = models.train(how)
      assert(#want == models.steps)
      local last = how.to
      for i, text in ipairs(models.arrangements[kind]) do
        if one and one == text or not one and (long or i % 4 == c) then
          local what = ("%s, %s, %s"):format(kind, cast or "f32", text)
          how.how, how.from, how.to = text, nil, ("%s-%d"):format(file, i)
          compare(how, want, weights, what)
          how.from, how.to = last, nil
          compare(how, want, weights, what .. ", from a checkpoint of another arrangement")
          last = ("%s-%d"):format(file, i)
        end
      end
      how.how, how.from, how.to = nil, last, nil
      compare(how, want, weights, kind .. " without a mesh, from a checkpoint of a mesh")
    end)
  end
end
print("# compared " .. compared)
os.execute("rm -r " .. dir)
