-- What was decided about a captured function or a loop, and why: f:why(). The facts are those of jit/facts.c, which
-- the fuser wrote down when it decided; docs/commands.md has their fields.
local core = require "tessera.core"

local facts = {}
local Why = {}
Why.__index = Why

local function tier_lines(w, out)
  local function say(...) out[#out + 1] = "// " .. string.format(...) end
  local text = ("tier %d%s"):format(w.tier, w.tier == 2 and " on " .. w.device or "")
  if w.state == "kernels" then
    say("%s: %d kernel%s of %d operators", text, w.kernels, w.kernels == 1 and "" or "s", w.operators)
  elseif w.state == "compiling" then
    say("%s: kernels are being compiled", text)
  else
    say("%s: %.3g ms spent, looked at after %.3g", text, w.spent_ns / 1e6, w.needed_ns / 1e6)
  end
  if w.absent then say("nothing is compiled: %s", w.absent) end
  if not w.on then say "tessera.jit is off" end
  if w.told then say("%s", w.told) end
  if w.best_operators_ns then say("at tier 0: %.4g us at best", w.best_operators_ns / 1e3) end
  if w.best_kernels_ns then say("with kernels: %.4g us at best", w.best_kernels_ns / 1e3) end
  if w.launches then say("launches: %s", w.launches) end
end

-- "add, gelu: element by element ..": members one after the other with the same reason share a line.
local function member_lines(g, out)
  if #g.members < 2 then return end
  local names, text = {}, nil
  local function flush()
    if text then out[#out + 1] = ("        %s: %s"):format(table.concat(names, ", "), text) end
    names = {}
  end
  for _, m in ipairs(g.members) do
    if m.reason ~= "begins" then
      local said = m.text or m.reason_reason
      if said ~= text then flush() end
      names[#names + 1], text = m.operator, said
    end
  end
  flush()
end

local function group_lines(g, out)
  out[#out + 1] = ("  %-3s %s%s: %s, %.3g us expected%s"):format(g.group, g.what, g.where and " at " .. g.where or "",
    g.state_text .. (g.edited and ", edited by the user" or ""), g.expected_ns / 1e3, g.choice and "; choice: " .. g.choice or "")
  if g.remarks and g.remarks ~= "" then out[#out] = out[#out] .. "\n" .. g.remarks:gsub("\n$", "") end
  member_lines(g, out)
  for _, r in ipairs(g.reads) do
    out[#out + 1] = ("        %s %s: %s"):format(r.together and "with" or "not in", r.from, r.text or r.reason_reason)
  end
end

function Why:__tostring()
  local out = {}
  if self.tier then tier_lines(self, out) end
  for i, f in ipairs(self.functions) do
    if i > 1 then out[#out + 1] = ("in @%s:"):format(f.name) end
    for _, g in ipairs(f.groups) do group_lines(g, out) end
  end
  if self.refused[1] then out[#out + 1] = "refused:" end
  for _, line in ipairs(self.refused) do out[#out + 1] = line end
  return table.concat(out, "\n") .. "\n"
end

local Tiles = {}
Tiles.__index = Tiles

local function shape(list) return "[" .. table.concat(list, ",") .. "]" end

local function tile_line(k)
  local text = ("  %-3s %-4s space %s"):format(k.group, k.kind, shape(k.space))
  local remarks = k.remarks and k.remarks ~= "" and "\n" .. k.remarks:gsub("\n$", "") or ""
  if not k.tile then return text .. " no kernel: " .. k.tile_reason .. remarks end
  text = text .. " tile " .. shape(k.tile) .. (k.device and " on " .. k.device or "")
  if k.kernels then text = text .. (k.kernels[2] and " kernels " or " kernel ") .. table.concat(k.kernels, " ") end
  local c = k.code
  if c then
    text = ("%s %s, %d phase%s, %d bytes of code%s"):format(text, c.target, c.phases, c.phases == 1 and "" or "s", c.bytes,
      c.from_disk and " from disk" or "")
  end
  if k.edited then text = text .. ", edited by the user" end
  if k.choice then text = text .. "; choice: " .. k.choice end
  return text .. "  // " .. k.what .. remarks
end

function Tiles:__tostring()
  local out = {}
  for i, k in ipairs(self.kernels) do out[i] = tile_line(k) .. "\n" end
  return table.concat(out)
end

local classes = { why = Why, tiles = Tiles }

--- The table of the JSON that the core gives for a level: of "why" and "tiles" it prints as the text.
function facts.of(json)
  local value, problem = core.open_json().decode(json)
  if not value then error(problem, 0) end
  return setmetatable(value, classes[value.level])
end

--- Whether a level is one of those whose text is made of facts.
function facts.has(level) return classes[level] ~= nil end

return facts
