-- Generated programs in every way (tests/fuzz/programs): a slice of fixed seeds; `make fuzz` has all others.
-- LONG or FUZZ_COUNT makes it longer, FUZZ_SEED chooses another slice. A program that fails is printed, shrunk.
local count, first = tonumber(os.getenv "FUZZ_COUNT" or ""), tonumber(os.getenv "FUZZ_SEED" or "")
count = count or os.getenv "LONG" and 2000 or 300
local r = dofile "tests/fuzz/programs/_drive.lua" { first = first or 1, count = count, ways = 4, jobs = 2, shrink = 10, each = 1 }
for sort, n in pairs(r.sorts) do print(n .. " " .. sort) end
assert(r.programs > 0.9 * count and r.runs > 4 * r.programs, "hardly anything ran")
print(r.mismatches == 0 and "the same" or r.mismatches .. " differ") --> the same
