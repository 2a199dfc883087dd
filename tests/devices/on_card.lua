-- scripts/bench/on_card.sh: it refuses without a card, and names what was looked for; with LONG=1 its whole table on the CPU,
-- of calls that take less than a millisecond.
local tessera = require "tessera"
local function run(environment, arguments)
  local p = io.popen(("%s TESSERA=%s sh scripts/bench/on_card.sh %s 2>&1; echo rc $?"):format(environment, arg[-1] or "bin/tessera", arguments))
  local out = p:read "*a"
  p:close()
  return out:match "^(.*)rc (%d+)\n$"
end
local missing = tessera.devices().missing
if missing.cuda and missing.hip and missing.level_zero then
  local out, rc = run("", "")
  assert(rc == "2" and out:find "^on_card: there is no GPU here:\n" and out:find("  hip: " .. missing.hip:gsub("\n.*", ""), 1, true), out)
end
local out, rc = run("", "nowhere:0")
assert(rc == "2" and out:find("on_card: there is no device 'nowhere:0'", 1, true), out)
out, rc = run("", "sim:0")
assert(rc == "2" and out:find("on_card: sim:0 runs nothing that could be measured", 1, true), out)
out, rc = run("", "--help")
assert(rc == "2" and out:find "^usage: ", out)
if os.getenv "LONG" then
  out, rc = run("SECONDS_A_ROW=0.001 RUNS=1", "cpu")
  assert(rc == "0", out)
  for _, row in ipairs { "product, bf16 | 256", "product, f32 | 256", "attention, bf16, heads of 64 | 16 heads, 256", "copy on it | 1 MiB",
    "gelu(x) * y, f32 | 1 MiB", "softmax, f32 | 256", "training step of a GPT | 2 layers" } do
    assert(out:find("| " .. row, 1, true), "no row of " .. row .. ":\n" .. out)
  end
  assert(out:find "right: (%d+) of %1 operators", out)
end
