-- make fuzz: an hour of programs, or FUZZ_SECONDS or FUZZ_COUNT of them from FUZZ_SEED on. DEV=cuda:0:
-- on that
-- device beside the CPU. FUZZ_KINDS=loops,rows: only such; FUZZ_WAYS: ways for each program, by turns
-- (all);
-- FUZZ_JOBS: programs at a time; FUZZ_KEEP: where those that fail go.
local function number(name) return tonumber(os.getenv("FUZZ_" .. name) or "") end
local device = os.getenv "DEV" or ""
local count = number "COUNT"
local r = dofile "tests/fuzz/programs/_drive.lua" {
  first = number "SEED" or os.time() % 1000000 * 1000,
  count = count,
  seconds = number "SECONDS" or (not count and 3600 or nil),
  device = device ~= "" and (device == "cuda" and "cuda:0" or device) or nil,
  kinds = os.getenv "FUZZ_KINDS",
  ways = number "WAYS",
  jobs = number "JOBS" or 2,
  shrink = number "SHRINK",
  each = number "EACH",
  most = 200,
  keep = os.getenv "FUZZ_KEEP" or "build/fuzz",
  chatty = os.getenv "FUZZ_CHATTY" ~= nil,
}
local names = {}
for sort in pairs(r.sorts) do names[#names + 1] = sort end
table.sort(names, function(a, b) return r.sorts[a] > r.sorts[b] or (r.sorts[a] == r.sorts[b]
  and a < b) end)
for _, sort in ipairs(names) do print(("%5d %s"):format(r.sorts[sort], sort)) end
print(("%d runs"):format(r.runs))
print(("%d programs, %d mismatches"):format(r.programs, r.mismatches))
print(("checks %d failed %d"):format(r.programs, r.mismatches))
os.exit(r.mismatches == 0 and 0 or 1, true)
