-- Texts at which a text ends. What may be the beginning of one is held back until it is known, so that who reads along never
-- sees a part of it; characters are whole, since the tokenizer's stream gives whole ones.

local Stop = {}
Stop.__index = Stop

--- Of a list of texts.
function Stop.new(list) return setmetatable({ list = list, held = "", found = nil }, Stop) end

-- Where the first of them stands, and which; of two at one place the longer.
local function first_of(list, text)
  local at, which
  for _, s in ipairs(list) do
    local from = text:find(s, 1, true)
    if from and (not at or from < at or from == at and #s > #which) then at, which = from, s end
  end
  return at, which
end

-- How many of the last bytes may begin one.
local function may_begin(list, text)
  local most = 0
  for _, s in ipairs(list) do
    for n = math.min(#s - 1, #text), most + 1, -1 do
      if text:sub(-n) == s:sub(1, n) then
        most = n
        break
      end
    end
  end
  return most
end

--- What may be shown of text that comes; self.found is the one that ended it, behind which nothing counts.
function Stop:push(new)
  if self.found then return "" end
  local text = self.held .. new
  local at, which = first_of(self.list, text)
  if at then
    self.found, self.held = which, ""
    return text:sub(1, at - 1)
  end
  local n = may_begin(self.list, text)
  self.held = n > 0 and text:sub(-n) or ""
  return text:sub(1, #text - n)
end

--- What was held back, of a text that ended otherwise.
function Stop:rest()
  local text = self.held
  self.held = ""
  return text
end

return Stop
