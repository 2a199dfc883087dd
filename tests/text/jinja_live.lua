-- Random templates, and random conversations by the templates of templates/, beside the package jinja2 (scripts/python.sh), rendered
-- now: FUZZ_COUNT of them from FUZZ_SEED on, LONG=1 many.
package.path = "tests/text/?.lua;" .. package.path
local jinja = require "_jinja"
local own = io.popen("ls -d build/python/lib/python3*/site-packages/jinja2 2>/dev/null"):read "*l"
local python = os.getenv "PYTHON" or own and "build/python/bin/python3"

if not python then
  print "skipped: the package jinja2 is not in build/python"
else
  local count = tonumber(os.getenv "FUZZ_COUNT" or "") or os.getenv "LONG" and 200000 or 300
  local seed = tonumber(os.getenv "FUZZ_SEED" or "") or 20
  local n, wrong = 0, {}
  local commands = { ("fuzz %d %d"):format(seed, count), ("scopes %d %d"):format(seed, count), ("safes %d %d"):format(seed, count), "templates tests/text/templates" }
  for _, command in ipairs(commands) do
    local pipe = io.popen(("CASES=%d %s tests/text/jinja_cases.py %s"):format(math.max(60, count / 20), python, command))
    for line in pipe:lines() do
      local why = jinja.case(line)
      if why then wrong[#wrong + 1] = why end
      n = n + 1
    end
    pipe:close()
  end
  assert(#wrong == 0, ("%d of %d differ:\n%s"):format(#wrong, n, table.concat(wrong, "\n", 1, math.min(#wrong, 5))))
  assert(n > count)
end
