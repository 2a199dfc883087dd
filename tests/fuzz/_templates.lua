-- Templates changed by tokens and blocks, and expressions made by a grammar: of operators, filters and methods whose work and memory grow
-- with what they are given, so that what bounds them is met.
local fuzz = dofile "tests/fuzz/_text.lua"
local M = {}

local random, pick = fuzz.random, fuzz.pick
--- Another generator, so that one seed governs all.
function M.by(other) random, pick = other.random, other.pick end

-- ---- expressions
local NAMES = { "messages", "messages[0]", "messages[0].content", "tools", "bos_token", "m", "x", "y", "ns", "ns.a", "loop", "loop.index", "loop.previtem", "caller()", "f", "f(1)", "undefined_", "range", "self",
  "varargs", "kwargs", "cycler(1, 2)", "joiner(',')", "dict(a=1)", "namespace(a=1)", "lipsum", "strftime_now('%Y')", "raise_exception", "true", "none", "False" }
local NUMBERS = { "0", "1", "-1", "2", "3", "7", "100", "1000", "99999", "100000", "100001", "2147483648", "1e308", "1e-308", "9007199254740993", "0.1", "-0.0", "1.5" }
local TEXTS = { "''", "'a'", "'ab'", "'é你'", "'%s'", "'%d%%'", "'%1000000s'", "'%*d'", "'{}'", "'{0:>999999}'", "'{a.b[0]!r:^10}'", "'<&>'", "'\\n'", "'\\x00'", "' a b '", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'" }
local OPERATORS = { "+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "and", "or" }
local FILTERS = { "abs", "attr('a')", "batch(3)", "batch(100000)", "capitalize", "center(80)", "center(1000000)", "count", "default('x')", "dictsort", "e", "escape", "filesizeformat", "first", "float", "forceescape",
  "format(1, 2)", "groupby('role')", "groupby(0)", "indent", "indent(100000)", "int", "int(0, 36)", "items", "join", "join('aaaaaaaa')", "last", "length", "list", "lower", "map('upper')",
  "map(attribute='role')", "max", "min", "pprint", "random", "reject", "rejectattr('a')", "replace('a', 'bbbbbbbbbb')", "replace('', 'x')", "reverse", "round", "round(9)", "safe", "select", "select('odd')",
  "selectattr('role', 'equalto', 'user')", "slice(3)", "slice(100000)", "sort", "sort(attribute='role')", "string", "striptags", "sum", "title", "tojson", "tojson(indent=4)", "tojson(indent=100000)",
  "trim", "trim('a')", "truncate(9)", "unique", "upper", "urlencode", "urlize", "wordcount", "wordwrap(1)", "wordwrap(79)", "xmlattr" }
local METHODS = { "upper()", "split()", "split('a')", "rsplit('a', 1)", "join(messages)", "replace('a', 'aa')", "strip()", "lstrip('a')", "startswith('a')", "find('ab')", "rfind('b')", "count('a')", "format(1, a=2)",
  "zfill(1000000)", "ljust(99999)", "items()", "keys()", "values()", "get('a')", "index('a')", "splitlines()", "title()", "partition('a')", "append(1)", "update({})", "__class__", "isdigit()", "encode()", "swapcase()",
  "expandtabs(1000)", "translate({})", "center(7, '你')", "copy()", "pop()" }
local TESTS = { "defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "odd", "even", "divisibleby(0)", "divisibleby 3", "eq 1", "in [1]", "sameas none", "callable", "escaped", "lower", "filter", "test" }

local expression

local function listed(depth, n)
  local out = {}
  for i = 1, n do out[i] = expression(depth) end
  return table.concat(out, ", ")
end

function expression(depth)
  local k = depth <= 0 and random(4) or random(18)
  if k == 0 then return pick(NUMBERS) end
  if k == 1 then return pick(TEXTS) end
  if k <= 3 then return pick(NAMES) end
  if k <= 6 then return "(" .. expression(depth - 1) .. " " .. pick(OPERATORS) .. " " .. expression(depth - 1) .. ")" end
  if k <= 9 then return expression(depth - 1) .. " | " .. pick(FILTERS) end
  if k <= 11 then return expression(depth - 1) .. "." .. pick(METHODS) end
  if k == 12 then return "[" .. listed(depth - 1, random(4)) .. "]" end
  if k == 13 then return "(" .. listed(depth - 1, 1 + random(3)) .. ",)" end
  if k == 14 then return "{" .. pick { "", "'a': " .. expression(depth - 1), expression(depth - 1) .. ": 1, 'b': " .. expression(depth - 1) } .. "}" end
  if k == 15 then return expression(depth - 1) .. pick { "[" .. expression(depth - 1) .. "]", "[::-1]", "[1:]", "[:" .. pick(NUMBERS) .. "]", "[" .. pick(NUMBERS) .. "::" .. pick(NUMBERS) .. "]" } end
  if k == 16 then return "(" .. expression(depth - 1) .. " if " .. expression(depth - 1) .. " else " .. expression(depth - 1) .. ")" end
  return "(" .. expression(depth - 1) .. " is " .. pick { "", "not " } .. pick(TESTS) .. ")"
end

-- ---- what grows: by a step again and again
local STEPS = { "x + x", "[x, x]", "(x, x)", "x ~ x", "x * 2", "{'a': x, 'b': x}", "x | replace('a', 'aa')", "x | tojson", "x | string", "x | list", "x | indent(9)", "[x] + x", "x | urlencode", "x.split('a')", "x | join(x)",
  "x | pprint", "x | escape", "dict(a=x, b=x)", "namespace(a=x)", "x.center(x | length * 2)", "'%s%s' % (x, x)", "'{0}{0}'.format(x)", "x | batch(2) | list", "x | map('string') | list", "x.replace('', 'ab')" }
local USES = { "x == y", "x < y", "x in y", "{x: 1}", "x | sort", "x | unique | list", "x | groupby(0)", "x | length", "x | tojson | length", "x.count(y)", "y.find(x)", "y.rfind(x)", "x.replace(y, 'b')", "x.split(y)", "x | max", "x.strip(y)",
  "x | wordwrap(1)", "x | title", "x.startswith(y)", "x | striptags", "x | urlize", "x | int", "x.rsplit(y)", "x.partition(y)", "x | wordcount", "x.splitlines()", "x | trim(y)", "x.isdigit()", "x.lower() == y", "[x] * 9999", "x | dictsort", "x[::-1]", "x | sum",
  "x | select('in', y) | list", "x | truncate(99)", "x | float", "x.index(y)", "x | xmlattr" }
local BEGINS = { "'a'", "'ab'", "[]", "[1]", "('a', 'b')", "{}", "1", "'a' * 100000", "range(1000) | list", "messages", "'<a> &'", "' a'", "'a\\n'" }

local function growing()
  local n = pick { 3, 10, 20, 30, 60, 150 }
  local begin, step, use = pick(BEGINS), pick(STEPS), pick(USES)
  local again = ("{%% set ns.y = ns.x %%}{%% set x = ns.x %%}{%% set ns.x = %s %%}"):format(step)
  return ("{%% set ns = namespace(x=%s, y=%s) %%}{%% for i in range(%d) %%}%s{%% endfor %%}{%% set x, y = ns.x, %s %%}{{ %s }}"):format(begin, begin, n, again,
    pick { "ns.y", "ns.x", "ns.x ~ ''", "ns.x[1:]", "ns.x | string" }, use)
end

local STATEMENTS = { "{%% for m in %s %%}{{ m }}{%% endfor %%}", "{%% for m in %s recursive %%}{{ loop(%s) }}{%% endfor %%}", "{%% if %s %%}a{%% elif %s %%}b{%% else %%}c{%% endif %%}", "{%% set x = %s %%}", "{%% set x %%}%s{%% endset %%}",
  "{%% macro f(x, y=%s) %%}{{ f(x) }}{%% endmacro %%}{{ f(%s) }}", "{%% macro f(x) %%}{{ x }}{{ caller(x) }}{%% endmacro %%}{%% call(z) f(%s) %%}{{ z }}{%% endcall %%}", "{%% filter upper %%}{{ %s }}{%% endfilter %%}",
  "{%% with x = %s, y = %s %%}{{ x }}{%% endwith %%}", "{%% for m in range(%s) %%}{%% for n in %s %%}{{ n }}{%% endfor %%}{%% endfor %%}", "{%% set ns = namespace(a=%s) %%}{%% for i in range(50) %%}{%% set ns.a = [ns.a, %s] %%}{%% endfor %%}{{ ns.a }}",
  "{{ %s }}", "{%%- generation -%%}{{ %s }}{%%- endgeneration -%%}", "{%% raw %%}{{ %s }}{%% endraw %%}", "{%% for a, b in %s %%}{{ a }}{%% else %%}e{%% endfor %%}", "{%% block x %%}{{ %s }}{%% endblock %%}", "{{ raise_exception(%s) }}",
  "{%% for m in %s if %s %%}{{ loop.cycle(1, 2) }}{%% break %%}{%% endfor %%}" }

local function statement()
  if random(100) == 0 then return growing() end
  return (pick(STATEMENTS):format(expression(random(5)), expression(random(4))))
end

-- ---- pieces of a template: texts, tags, comments
local function pieces(s)
  local out, at = {}, 1
  while at <= #s do
    local from = s:find("{[{%%#]", at)
    if from ~= at then
      out[#out + 1] = s:sub(at, (from or #s + 1) - 1)
      if not from then break end
    end
    local close = ({ ["{"] = "}}", ["%"] = "%}", ["#"] = "#}" })[s:sub(from + 1, from + 1)]
    local _, to = s:find(close, from + 2, true)
    out[#out + 1] = s:sub(from, to or #s)
    at = (to or #s) + 1
  end
  return out
end

local function tokens(s)
  local out = {}
  for word in s:gmatch "[%w_]+" do out[#out + 1] = word end
  for sign in s:gmatch "[^%w_%s]+" do out[#out + 1] = sign end
  return out
end

local WRAPS = { { "{% if true %}", "{% endif %}" }, { "{% for q in [1] %}", "{% endfor %}" }, { "{% set q %}", "{% endset %}" }, { "{% filter upper %}", "{% endfilter %}" }, { "{% macro q() %}", "{% endmacro %}{{ q() }}" },
  { "{{ ", " }}" }, { "{% with %}", "{% endwith %}" }, { "{% raw %}", "{% endraw %}" }, { "{# ", " #}" } }
local INNER = { { "(", ")" }, { "[", "]" }, { "{'a': ", "}" }, { "not ", "" }, { "- ", "" }, { "f(", ")" }, { "1 + ", "" }, { "", "[0]" }, { "", ".a" }, { "", "|upper" }, { "", " if 1" }, { "1 if 1 else ", "" }, { "'a' ~ ", "" }, { "", " is string" } }

local CHANGES = {
  function(list) table.insert(list, 1 + random(#list + 1), statement()) end,
  function(list) table.insert(list, 1 + random(#list + 1), random(30) == 0 and growing() or statement()) end,
  function(list) table.remove(list, 1 + random(#list)) end,
  function(list) table.insert(list, 1 + random(#list), list[1 + random(#list)]) end,
  function(list, other) table.insert(list, 1 + random(#list), pick(other)) end,
  function(list)
    local a, b = 1 + random(#list), 1 + random(#list)
    list[a], list[b] = list[b], list[a]
  end,
  function(list, other) -- a token by another
    local at = 1 + random(#list)
    local own, theirs = tokens(list[at]), tokens(pick(other))
    if not own[1] or not theirs[1] then return end
    local word = pick(own)
    local from, to = list[at]:find(word, 1 + random(#list[at]), true)
    if from then list[at] = list[at]:sub(1, from - 1) .. pick(theirs) .. list[at]:sub(to + 1) end
  end,
  function(list) -- an expression in place of another
    local at = 1 + random(#list)
    if list[at]:sub(1, 2) == "{{" then list[at] = "{{ " .. expression(1 + random(5)) .. " }}" end
  end,
  function(list) -- blocks in blocks
    local w, n, at = pick(WRAPS), pick { 1, 3, 100, 300 }, 1 + random(#list)
    list[at] = w[1]:rep(n) .. list[at] .. w[2]:rep(n)
  end,
  function(list) -- expressions in expressions
    local w, n, at = pick(INNER), pick { 2, 100, 180, 4000 }, 1 + random(#list)
    list[at] = list[at] .. "{{ " .. w[1]:rep(n) .. pick { "x", "1", "''" } .. w[2]:rep(n) .. " }}"
  end,
  function(list)
    local at = 1 + random(#list)
    local s, i = list[at], 1 + random(#list[at] + 1)
    list[at] = s:sub(1, i - 1) .. string.char(random(256)) .. s:sub(i + random(3))
  end,
  function(list) -- all signs of white space at tags
    local at = 1 + random(#list)
    list[at] = list[at]:gsub("^({[{%%])", "%1" .. pick { "-", "+", "" }):gsub("([%%}]})$", pick { "-", "+", "" } .. "%1")
  end,
}

--- A template after one to four changes; other: one from which pieces come.
function M.changed(s, other)
  local list, theirs = pieces(s), pieces(other)
  for _ = 1, pick { 1, 1, 2, 3, 4 } do
    if #list == 0 then list[1] = statement() end
    pick(CHANGES)(list, theirs[1] and theirs or { "x" })
  end
  return table.concat(list)
end

return M
