-- Repetitions behind a part of a grammar or a regular expression: * + ? {n} {n,} {n,m}.

local times = {}

local MOST = 10000

--- read(reader, pattern): the least and the most that stand where the reader is, which goes on behind them; most nil: any number.
--- nil: none stand there. pattern: how numbers are written: it gives the first, the comma, the second, and the place behind.
function times.read(reader, pattern)
  local c = reader:peek()
  local least, most
  if c == "*" then least = 0 elseif c == "+" then least = 1 elseif c == "?" then least, most = 0, 1 end
  if least then
    reader.at = reader.at + 1
    return least, most
  end
  local a, comma, b, stop = reader.text:match(pattern, reader.at)
  if not a then return nil end
  least = tonumber(a)
  most = b ~= "" and tonumber(b) or comma == "" and least or nil
  if most and most < least or math.max(least, most or 0) > MOST then
    reader:fail("repetitions are at most %d, and the second number is not below the first", MOST)
  end
  reader.at = stop
  return least, most
end

return times
