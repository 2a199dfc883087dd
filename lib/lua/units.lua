-- Numbers with units as people read them: three digits, and the unit that fits.
--
--   units.time(1234)           -- microseconds: "1.23 ms"
--   units.size(2 ^ 20)         -- "1.00 MiB"
--   units.rate(3e12, "FLOP/s") -- "3.00 TFLOP/s"

local units = {}

-- Three digits. The limits are those from which a number would be rounded to one more.
local function digits(x)
  return (x >= 99.95 and "%.0f" or x >= 9.995 and "%.1f" or "%.2f"):format(x)
end

-- rows: {factor, unit} from the largest on; one that a number would round up to counts as reached.
local function scaled(x, rows)
  for i, row in ipairs(rows) do
    if x >= 0.9995 * row[1] or i == #rows then return digits(x / row[1]) .. " " .. row[2] end
  end
end

local times = { { 1e6, "s" }, { 1e3, "ms" }, { 1, "us" }, { 1e-3, "ns" } }

--- The text of microseconds.
function units.time(usec)
  return usec == 0 and "0 us" or scaled(usec, times)
end

local sizes = { { 2 ^ 40, "TiB" }, { 2 ^ 30, "GiB" }, { 2 ^ 20, "MiB" }, { 2 ^ 10, "KiB" } }

--- The text of bytes; below a KiB their number.
function units.size(n)
  return n < 1023.5 and ("%.0f bytes"):format(n) or scaled(n, sizes)
end

local letters = { { 1e15, "P" }, { 1e12, "T" }, { 1e9, "G" }, { 1e6, "M" }, { 1e3, "k" }, { 1, "" } }

--- The text of so many B or FLOP a second, unit being "B/s" or "FLOP/s".
function units.rate(x, unit)
  return scaled(x, letters) .. unit
end

--- A part of 1 in percent.
function units.percent(x) return ("%.0f%%"):format(100 * x) end

return units
