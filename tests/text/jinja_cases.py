"""Prints templates with variables and what jinja2 renders, a line of JSON each, for jinja.lua:
jinja_cases.py fuzz SEED COUNT (scopes: templates that set and read few names in every scope; safes: text that is
safe), or jinja_cases.py templates FOLDER.."""
import glob
import json
import os
import random
import sys

from _jinja_peer import render

TEXTS = ["", "Hello", " a\n b ", "it's", 'say "x"', "Ünï©ødé 字 🙂", "<|im_end|>", "a,b,,c", "  ", "\t\n", "x" * 40, "1.5", "12", "<think>\nhm\n</think>\n\nyes", "İß ǆ",
         "{{ x }}", "{% if %}", "back\\slash", "A Title of-it", "\u2028", "Él", "0x1F", "a\r\nb\rc"]


def text(r):
    return r.choice(TEXTS)


def value(r, depth=0):
    k = r.randrange(10 if depth < 2 else 6)
    if k < 3:
        return text(r)
    if k == 3:
        return r.choice([0, 1, -1, 7, 100, 12345])
    if k == 4:
        return r.choice([1.5, -0.25, 1e20 + 0.5, 3.14159, 1e-7, 2.0, 1e16])
    if k == 5:
        return r.choice([True, False, None])
    if k < 8:
        return [value(r, depth + 1) for _ in range(r.randrange(4))]
    return {r.choice(["role", "content", "a", "b", "name", "type"]): value(r, depth + 1) for _ in range(r.randrange(4))}


PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "description": "Which city's \"name\" <b>"}, "days": {"type": "integer", "enum": [1, 2, 3]},
              "deep": {"type": "array", "items": {"type": ["number", "null"]}}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather.\nOf today", "parameters": PARAMETERS}},
         {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}, "return": {"type": "string"}}}]


def call(r, as_text):
    args = r.choice([{"city": "Zürich"}, {}, {"city": "a\"b", "days": 2, "f": 1.0, "n": None, "l": [1, {"x": True}]}])
    return {"id": r.choice(["abcdefghi", "call_1", "123456789"]), "type": "function",
            "function": {"name": r.choice(["get_weather", "now"]), "arguments": json.dumps(args, ensure_ascii=False) if as_text else args}}


def conversation(r):
    messages = []
    as_text = r.random() < 0.3
    if r.random() < 0.5:
        messages.append({"role": r.choice(["system", "system", "developer"]), "content": text(r)})
    for _ in range(r.randrange(4)):
        content = text(r)
        k = r.randrange(9)
        if k == 0:
            content = [{"type": "text", "text": text(r)}]
            if r.random() < 0.6:
                content.append(r.choice([{"type": "image"}, {"type": "image_url", "image_url": {"url": "data:x"}}, {"type": "video"}, {"type": "audio"}, {"type": "image", "image": "a.png"}]))
        messages.append({"role": "user", "content": content})
        answer = {"role": "assistant", "content": text(r)}
        k = r.randrange(6)
        if k == 0:
            answer["reasoning_content"] = text(r)
        if k == 1:
            answer["thinking"] = text(r)
        if r.random() < 0.3:
            if r.random() < 0.6:
                answer["content"] = r.choice(["", None])
            if r.random() < 0.2:
                del answer["content"]
            answer["tool_calls"] = [call(r, as_text) for _ in range(r.choice([1, 1, 2]))]
            messages.append(answer)
            for c in answer["tool_calls"]:
                result = {"role": "tool", "content": r.choice([text(r), {"temp": 20.5, "unit": "C"}, [1, 2]])}
                if r.random() < 0.7:
                    result["tool_call_id"] = c["id"]
                if r.random() < 0.7:
                    result["name"] = c["function"]["name"]
                messages.append(result)
            if r.random() < 0.6:
                messages.append({"role": "assistant", "content": text(r)})
        else:
            messages.append(answer)
    if r.random() < 0.6:
        messages.append({"role": "user", "content": text(r)})
    if r.random() < 0.08 and messages:
        m = r.choice(messages)
        m.pop(r.choice(list(m)))
    if r.random() < 0.05:
        messages.append({"role": r.choice(["critic", "ipython", "user", "assistant"]), "content": text(r)})
    v = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": r.random() < 0.5}
    if r.random() < 0.4:
        v["tools"] = TOOLS[:r.randrange(1, 3)]
    if r.random() < 0.2:
        v["enable_thinking"] = r.random() < 0.5
    if r.random() < 0.1:
        v["reasoning_effort"] = r.choice(["low", "high"])
    if r.random() < 0.1:
        v["documents"] = [{"title": text(r), "text": text(r)}]
    return v


# ---- generated templates
NAMES = ["x", "y", "m", "xs", "d", "s", "n", "missing", "loop", "f"]
FILTERS = ["trim", "upper", "lower", "title", "capitalize", "length", "first", "last", "list", "string", "int", "float", "tojson", "join(',')", "join", "default('z')", "default('z', true)",
           "replace('a', 'b')", "items|list", "dictsort", "sort", "unique|list", "reverse|list", "map('upper')|list", "map(attribute='a')|list", "select|list", "reject|list", "select('string')|list",
           "selectattr('a')|list", "selectattr('a', 'equalto', 1)|list", "rejectattr('a', 'defined')|list", "tojson(indent=2)", "tojson(ensure_ascii=true)", "indent(2)", "indent(3, true)", "abs", "round", "round(1)",
           "sum", "min", "max", "batch(2)|list", "count", "safe", "e", "groupby('a')|list", "map('int')|list", "select('in', [1, 'a'])|list", "map('default', 'q')|list", "wordcount", "truncate(8)", "center(9)",
           "slice(2)|list", "tojson(separators=(',', ':'))", "tojson(sort_keys=true)", "sort(reverse=true)", "sort(attribute='a')", "format(1)", "nofilter", "attr('a')", "map(attribute='a', default=3)|list"]
METHODS = ["strip()", "split()", "split(',')", "upper()", "startswith('a')", "endswith(('x', 'b '))", "items()|list", "keys()|list", "values()|list", "get('a')", "get('a', 0)", "append(1)", "lstrip('\\n')",
           "rstrip()", "replace('a', 'b', 1)", "split('\\n')[0]", "title()", "find('b')", "count('a')", "splitlines()", "join(['a', 'b'])", "rsplit(',', 1)", "partition(',')", "format(1, a=2)", "isdigit()",
           "index(1)", "capitalize()", "zfill(5)", "removeprefix('a')", "swapcase()", "isalpha()", "center(8, '*')", "rsplit()", "rsplit(None, 1)", "split(None, 1)", "isspace()", "rfind('a')", "pop()"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "mapping", "sequence", "iterable", "boolean", "true", "false", "odd", "even", "divisibleby 2", "eq 1", "in [1, 2]", "sameas none",
         "callable", "lower", "upper", "equalto('a')", "not none", "not defined", "gt 0", "notest"]
CONSTS = ["1", "0", "2.0", "1.5", "'a'", "''", "true", "None", "[]", "{}", "[1, 'a', 2]", "{'a': 1, 'b': [2]}", "(1, 2)", "'x\\ny'", "-3", "10", "(1,)", "'%s-%d'", "1e3", "range(3)", "0x1f", "1_000"]


def expression(r, depth=0):
    k = r.randrange(16) if depth < 3 else r.randrange(4)
    e = lambda: expression(r, depth + 1)
    if k < 2:
        return r.choice(NAMES)
    if k < 4:
        return r.choice(CONSTS)
    if k == 4:
        return "%s %s %s" % (e(), r.choice(["+", "-", "*", "/", "//", "%", "~", "**"]), e())
    if k == 5:
        return "%s %s %s" % (e(), r.choice(["==", "!=", "<", ">", "<=", ">=", "in", "not in"]), e())
    if k == 6:
        return "(%s %s %s)" % (e(), r.choice(["and", "or"]), e())
    if k == 7:
        return "not %s" % e()
    if k < 10:
        return "%s|%s" % (e(), r.choice(FILTERS))
    if k == 10:
        return "%s is %s" % (e(), r.choice(TESTS))
    if k == 11:
        return "(%s).%s" % (e(), r.choice(METHODS))
    if k == 12:
        return "%s[%s]" % (r.choice(NAMES), r.choice(["0", "-1", "1:", ":-1", "::-1", "'a'", "5", "1:3", "::2", ":", "x", "'items'"]))
    if k == 13:
        return "%s.%s" % (r.choice(NAMES), r.choice(["a", "role", "content", "items", "index", "0", "first", "last", "length", "__class__", "b.a", "index0"]))
    if k == 14:
        return "(%s if %s%s)" % (e(), e(), " else " + e() if r.random() < 0.7 else "")
    return "(%s)" % e()


SPACES = ["", "", "\n", "  ", "\n  ", " \n\n ", "text", "\n\ttext ", "\n\n", "é\u3000"]


def tag(r, inside):
    return "{%%%s %s %s%%}" % (r.choice(["", "", "", "-", "+"]), inside, r.choice(["", "", "", "-", "+"]))


def body(r, depth=0, loop=False):
    out = []
    for _ in range(r.randrange(1, 4)):
        out.append(r.choice(SPACES))
        k = r.randrange(16) if depth < 3 else r.randrange(4)
        if k < 4:
            out.append("{{%s %s %s}}" % (r.choice(["", "", "-"]), expression(r), r.choice(["", "", "-"])))
        elif k < 6:
            out.append(tag(r, "if " + expression(r)) + body(r, depth + 1, loop))
            if r.random() < 0.3:
                out.append(tag(r, "elif " + expression(r)) + body(r, depth + 1, loop))
            if r.random() < 0.4:
                out.append(tag(r, "else") + body(r, depth + 1, loop))
            out.append(tag(r, "endif"))
        elif k < 9:
            head = r.choice(["for x in xs", "for m in xs", "for x, y in d.items()", "for m in %s" % expression(r), "for x in xs if x", "for x in xs if %s" % expression(r), "for y in range(3)", "for m in xs[::-1]"])
            inner = body(r, depth + 1, True) + r.choice(["", "{{ loop.index }}", "{{ loop.last }}", "{{ loop.previtem }}|{{ loop.nextitem is defined }}", "{{ loop.cycle('a', 'b') }}", "{{ loop.revindex0 }}"])
            out.append(tag(r, head) + inner)
            if r.random() < 0.2:
                out.append(tag(r, "else") + body(r, depth + 1, loop))
            out.append(tag(r, "endfor"))
        elif k < 11:
            out.append(tag(r, "set %s = %s" % (r.choice(["x", "y", "m", "new", "n", "x, y"]), expression(r))))
        elif k == 11:
            out.append(tag(r, "set " + r.choice(["y", "new", "y | upper"])) + body(r, depth + 1, loop) + tag(r, "endset") + "{{ y }}{{ new }}")
        elif k == 12:
            out.append(tag(r, "set ns = namespace(a=1, b=x)") + tag(r, "for q in xs") + tag(r, "set ns.a = ns.a ~ q") + tag(r, "endfor") + "{{ ns.a }}{{ ns.c }}")
        elif k == 13:
            out.append(tag(r, "macro f(a, b=%s)" % expression(r)) + "{{ a }}{{ b }}" + body(r, depth + 1) + tag(r, "endmacro") + r.choice(["{{ f(x) }}", "{{ f(1, b=2) }}", "{{ f(1, 2, 3) }}", "{{ f() }}", "{{ f(q=1) }}"]))
        elif k == 14:
            out.append(r.choice(["{# note #}", "{#- note -#}", "{% raw %} {{ x }} {% endraw %}", "{%- raw -%} {% if %} {%- endraw -%}", "{#\n#}\n", "{% generation %}{{ x }}{% endgeneration %}",
                                 "{% filter upper %}a{{ s }}{% endfilter %}", "{% with a = 1, b = x %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% call(z) f(1) %}{{ z }}{% endcall %}", "{{ raise_exception('bad ' ~ s) }}",
                                 "{% macro g(a) %}{{ caller(a) }}{% endmacro %}{% call(z) g('q') %}<{{ z }}{{ x }}>{% endcall %}", "{% for q in [1, [2, [3]]] recursive %}{{ loop(q) if q is iterable else q }}{% endfor %}",
                                 "{{ strftime_now('%d %b %Y %H') }}", "{{ dict(a=1, b=x) }}", "{{ '%s is %d' % (s, 3) }}"]))
        elif loop:
            out.append(tag(r, "if loop.index > 1") + tag(r, r.choice(["break", "continue"])) + tag(r, "endif"))
        else:
            out.append("{{ %s }}" % expression(r))
    out.append(r.choice(SPACES))
    return "".join(out)


def fuzz(seed, count):
    for i in range(count):
        r = random.Random(seed * 1000003 + i)
        v = {"x": value(r), "y": value(r), "m": {"role": text(r), "content": value(r), "a": value(r)}, "xs": [value(r) for _ in range(r.randrange(4))],
             "d": {k: value(r) for k in ["a", "b", "c"][:r.randrange(4)]}, "s": text(r), "n": r.choice([0, 1, 2, 5, 2.5])}
        yield body(r), v


# ---- who sees what: few names, set and read in scopes of every kind
def scoped(r, depth=0):
    out = []
    name = lambda: r.choice("abc")
    for _ in range(r.randrange(1, 5)):
        k = r.randrange(14) if depth < 4 else r.randrange(6)
        if k < 3:
            out.append("{{ %s }}," % name())
        elif k < 5:
            out.append("{%% set %s = %s ~ '%s' %%}" % (name(), r.choice(["1", "'q'", name()]), r.choice("xyz")))
        elif k == 5:
            out.append("{%% set %s, %s = 1, 2 %%}" % (name(), name()))
        elif k < 8:
            out.append("{%% if %s %%}%s" % (r.choice(["true", "false", name() + " is defined"]), scoped(r, depth + 1)))
            for _ in range(r.choice([0, 0, 1, 2])):
                out.append("{%% elif %s %%}%s" % (r.choice(["true", "false"]), scoped(r, depth + 1)))
            if r.random() < 0.5:
                out.append("{% else %}" + scoped(r, depth + 1))
            out.append("{% endif %}")
        elif k < 10:
            out.append("{%% for %s in %s%s %%}%s%s{%% endfor %%}" % (r.choice(["i", name()]), r.choice(["[1, 2]", "[]", "'ab'"]), r.choice(["", "", " if %s is defined" % name()]),
                                                             scoped(r, depth + 1), r.choice(["", "{% else %}" + scoped(r, depth + 1)])))
        elif k == 10:
            m = r.choice("fg")
            out.append("{%% macro %s(%s) %%}%s{%% endmacro %%}%s" % (m, r.choice(["", "a", "b, c=a", "c='d'"]), scoped(r, depth + 1), r.choice(["", "{{ %s(5) }}" % m, "{{ %s() }}" % m])))
        elif k == 11:
            out.append("{%% with %s = %s %%}%s{%% endwith %%}" % (name(), r.choice(["1", name()]), scoped(r, depth + 1)))
        elif k == 12:
            out.append("{%% set %s %%}%s{%% endset %%}" % (name(), scoped(r, depth + 1)))
        else:
            out.append(r.choice(["{% filter upper %}" + scoped(r, depth + 1) + "{% endfilter %}", "{% generation %}" + scoped(r, depth + 1) + "{% endgeneration %}",
                                 "{% macro h() %}{{ caller() }}{% endmacro %}{% call h() %}" + scoped(r, depth + 1) + "{% endcall %}"]))
    return "".join(out)


def scopes(seed, count):
    for i in range(count):
        r = random.Random(seed * 1000003 + i)
        yield scoped(r), {k: "<%s>" % k for k in "abc" if r.random() < 0.7}


# ---- text that is safe, joined to text that is not
def safe_text(r, depth=0):
    e = lambda: safe_text(r, depth + 1)
    k = r.randrange(16) if depth < 3 else r.randrange(4)
    if k < 2:
        return r.choice(["a", "b", "'<x>'", "'&'", "\"it's\"", "'p %s'"])
    if k < 5:
        return "(%s)|%s" % (e(), r.choice(["safe", "e", "escape", "forceescape"]))
    if k < 8:
        return "(%s %s %s)" % (e(), r.choice(["+", "+", "~", "%"]), e())
    if k < 11:
        return "(%s)|%s" % (e(), r.choice(["upper", "trim", "replace('x', '<')", "string", "default('<')", "indent", "truncate(3)", "length", "list", "first", "capitalize", "center(9)", "reverse", "tojson", "join('<')",
                                           "format('<')", "title"]))
    if k < 14:
        return "(%s).%s" % (e(), r.choice(["upper()", "strip()", "replace('x', '<')", "split('x')", "join(['<', 'y'])", "startswith('<')", "partition('x')", "format('<')", "title()", "find('&')"]))
    if k == 14:
        return "(%s|safe)[%s]" % (r.choice("ab"), r.choice(["0", ":2", "1:"]))
    return r.choice(["[%s, %s]", "(%s if %s else '<')", "(%s == %s)", "(%s in %s)", "(%s or %s)", "{%s: %s}"]) % (e(), e())


def safes(seed, count):
    for i in range(count):
        r = random.Random(seed * 1000003 + i)
        yield "{%% set c = %s %%}{{ c }},{{ c is string }},{{ c is escaped }},{{ %s }}" % (safe_text(r), safe_text(r)), {"a": "<a&b>", "b": "plain 'x'"}


def emit(source, v, name):
    kind, out = render(source, v)
    if kind != "late" and " at 0x" not in out:  # a place in memory
        print(json.dumps({"name": name, "template": source, "json": json.dumps(v), "kind": kind, "out": out}))


if __name__ == "__main__":
    if sys.argv[1] == "fuzz":
        for source, v in fuzz(int(sys.argv[2]), int(sys.argv[3])):
            emit(source, v, "fuzz")
    elif sys.argv[1] == "safes":
        for source, v in safes(int(sys.argv[2]), int(sys.argv[3])):
            emit(source, v, "safes")
    elif sys.argv[1] == "scopes":
        for source, v in scopes(int(sys.argv[2]), int(sys.argv[3])):
            emit(source, v, "scopes")
    else:
        count = int(os.environ.get("CASES", "60"))
        files = sorted(f for folder in sys.argv[2:] for f in glob.glob(folder + "/**/*.jinja", recursive=True))
        for at, f in enumerate(files):
            source = open(f, encoding="utf-8", newline="").read()
            for i in range(count):
                emit(source, conversation(random.Random(i * 7919 + at)), os.path.basename(f))
