-- tessera --embed PATH [texts]: each text, or each line of standard input, as a vector: a list in JSON on a line.

local core = require "tessera.core"
local common = require "tessera.hf.cli.common"
local embedding = require "tessera.hf.embedding"
local options = require "tessera.options"

local embed = { usage = 'tessera --embed PATH [options] ["text" ..]', about = "Each text, or each line of standard input, as a vector: a line of JSON." }

function embed.kinds()
  local kinds = common.load_kinds()
  kinds.length, kinds.batch = options.whole { least = 1 }, options.whole { least = 1 }
  return kinds, { batch = 1 }
end

local function tell(vectors)
  for _, v in ipairs(vectors) do
    local words = {}
    for i, x in ipairs(v) do words[i] = ("%.9g"):format(x) end
    common.write("[" .. table.concat(words, ",") .. "]\n")
  end
end

-- Pieces of what stdin has, `n` lines each, as they come.
local function lines(n)
  return function()
    local list = {}
    while #list < n do
      local line, why = io.read "*l"
      if not line and why then core.fail("cannot read standard input: " .. why) end
      if not line then break end
      list[#list + 1] = (line:gsub("\r$", ""))
    end
    return list[1] and list
  end
end

function embed.run(path, o, texts)
  local of_load, rest = common.split(o)
  local e = embedding.load(path, of_load, rest.length)
  local n = rest.batch or 1
  if #texts == 0 then
    for list in lines(n) do tell(e:vectors(list)) end
  else
    for from = 1, #texts, n do tell(e:vectors { unpack(texts, from, math.min(from + n - 1, #texts)) }) end
  end
end

return embed
