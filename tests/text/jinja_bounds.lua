-- Small templates whose work, memory or depth grows without bound: an error that says which bound is met, after a moment; and what looks
-- like one of them and is none.
local hf = require("tessera").hf
local function render(s) return (hf.chat_template("{##}" .. s):render {}) end
-- x becomes what `step` makes of it, n times; y is what x was before.
local function again(n, first, step, rest)
  return render(("{%% set ns = namespace(x=%s, y=1) %%}{%% for i in range(%d) %%}{%% set ns.y = ns.x %%}{%% set x = ns.x %%}{%% set ns.x = %s %%}{%% endfor %%}{%% set x, y = ns.x, ns.y %%}{{ %s }}")
    :format(first, n, step, rest))
end

-- Lists that hold a list twice, again and again, are compared for ever, and as keys they are texts without end.
local function twice(n, rest) return again(n, "(1,)", "(x, x)", rest) end
again(100, "[1]", "[x, x]", "[[x]] == [[y]]") --> False
render "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}" --! the template takes more than 30 million steps
twice(60, "{x: 1}") --! more than
again(100, "(1, 2)", "(x,)", "{x: 1}[x]") --> 1
again(300, "(1,)", "(x,)", "{x: 1}") --! maximum recursion depth exceeded
render "{{ {(1, ('a,b', 2)): 3}[(1, ('a,b', 2))] }}" --> 3
render "{{ {('a', 'b'): 1, ('a,string:b',): 2} | length }}" --> 2

-- Texts and lists in memory, of which each is small enough.
again(225, "[]", "x + ['a' * 1000000 ~ i]", "1") --! the template takes more than 160 MiB
again(21, "'a\\n'", "x ~ x", "x | sort | length") --! the template takes more than
render("{{ " .. ("["):rep(20) .. ("]"):rep(20) .. " | tojson(indent='a' * 4000000) }}") --! the template takes more than 160 MiB
again(60, "['a' * 1000000]", "[x, x]", "x | string | length") --! more than
again(26, "'a'", "x ~ x", "('%s' * 40) % (x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x)") --! a text of
again(25, "'<'", "x ~ x", "x | escape | length") --! a text of

-- Searches for a long text in one that nearly has it, numbers that nearly are, cuts from the right.
local LONG = "{% set a = 'a' * 2000000 %}{% set b = 'a' * 1000000 ~ 'b' %}"
render(LONG .. "{{ b in a }} {{ a.find(b) }} {{ a.rfind(b) }} {{ a.count(b) }} {{ a.replace(b, 'c') == a }} {{ a.split(b) | length }} {{ a.partition(b) | length }}") --> False -1 -1 0 True 1 3
render(LONG .. "{{ a.rsplit(b) | length }}") --> 1
render "{{ ('1' * 1000000 ~ 'x') | int }} {{ ('1' * 1000000 ~ 'x') | float }} {{ '12.5e1' | float }} {{ '-.5' | float }} {{ '1e' | float(7) }} {{ '1.2.3' | int(7) }}" --> 0 0.0 125.0 -0.5 7 7
render(("{{ (('a ' * 200000).rsplit(none, 100000)) | length }}")) --! the template takes more than 30 million steps
render "{{ 'a b  c d '.rsplit(none, 2) }} {{ 'a-b-c'.rsplit('-', 1) }} {{ 'aaa'.rsplit('aa') }}" --> ['a b', 'c', 'd'] ['a-b', 'c'] ['a', '']

-- Calls in calls, each with much around it: the stack of Lua ends before.
local deep = ("("):rep(150) .. "f(n - 1)" .. (" + 0)"):rep(150)
render("{% macro f(n) %}{{ " .. deep .. " if n > 0 else 0 }}{% endmacro %}{{ f(140) }}") --! line 1
