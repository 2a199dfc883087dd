-- Chat templates: stored small ones with what jinja2 3.1.6 renders (jinja_cases.py), hostile ones, and values of Lua.
package.path = "tests/text/?.lua;" .. package.path
local tessera = require "tessera"
local jinja = require "_jinja"
local hf = tessera.hf

local count = 0
for line in io.lines "tests/text/jinja.jsonl" do
  local why = jinja.case(line)
  assert(not why, why)
  count = count + 1
end
count > 200 --> true

-- ---- values of Lua
local chat = hf.chat_template "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}\n{% endfor %}{{ tools }}{{ bos_token }}"
(chat:render{ messages = { { role = "user", content = " Hi " } }, bos_token = "<s>" }) --> <user>Hi
--> None<s>
(hf.chat_template "{{ x }}{{ x is none }}":render{ x = hf.null }) --> NoneTrue
(hf.chat_template "{{ messages[0] }}":render{ messages = '[{"b": 1, "a": 1.0}]' }) --> {'b': 1, 'a': 1.0}
select(2, hf.chat_template "a{% generation %}bc{% endgeneration %}":render{})[1][2] --> 3

-- A name that is set below is undefined until then where nothing reads it above; what is set in an 'if' is the render's until then.
(hf.chat_template "{% for i in [1, 2] %}{{ a }}{% endfor %}{% set a = 3 %}{{ a }}":render{ a = "x" }) --> 3
(hf.chat_template "{% for i in [1, 2] %}{{ a }}{% endfor %}{% if b %}{% set a = 3 %}{% endif %}{{ a }}":render{ a = "x" }) --> xxx
(hf.chat_template "{% macro f() %}{{ a }}{% endmacro %}{{ f() }}{% set a = 3 %}{{ f() }}":render{ a = "x" }) --> 3
(hf.chat_template "{{ 1e99999_000 }} {{ '1e-99999000'|float }}":render{}) --> inf 0.0
(hf.chat_template "{{ [{'b': 1}, {'b': 2}]|sort(attribute='a') }}":render{}) --> [{'b': 1}, {'b': 2}]
(hf.chat_template "{% if true %}a{% elif 1|nofilter %}b{% endif %}":render{}) --> a
hf.chat_template "{% if 1|nofilter %}b{% endif %}":render{} --! No filter named 'nofilter'
-- Safe text makes what is joined to it safe.
(hf.chat_template "{{ '<'|safe + '<' }} {{ '<'|safe ~ '<' }} {{ '<'|e|e }} {{ ['<'|e] }} {{ '<%s>'|safe % '<' }} {{ ('<'|safe).upper() + '&' }}":render{}) --> <&lt; << &lt; [Markup('&lt;')] <&lt;> <&amp;
(hf.chat_template "{{ '<'|safe == '<' }} {{ '<'|safe is escaped }} {{ '<'|safe|tojson }} {{ {'<'|safe: 1}['<'] }}":render{}) --> True True "<" 1
hf.chat_template "{{ missing|float }}":render{} --! 'missing' is undefined
hf.chat_template "{{ missing|int }}":render{} --! 'missing' is undefined
hf.chat_template "{{ 1.5|indent }}":render{} --! it is no text
hf.chat_template "{{ 5|truncate(2) }}":render{} --! has no len()
(hf.chat_template "{{ [1, 2]|truncate(9) }}":render{}) --> [1, 2]

-- ---- errors and bounds
hf.chat_template "a\n{% fro x in y %}" --! line 2: Encountered unknown tag 'fro'
hf.chat_template "{% include 'x' %}" --! a chat template has no other templates
hf.chat_template "\n{{ raise_exception('no') }}":render{} --! line 2: no
hf.chat_template "{{ a.b.c }}":render{} --! 'a' is undefined
hf.chat_template "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}":render{} --! the template takes more than 30 million steps
hf.chat_template "{{ 'a' * 1000000000 }}":render{} --! a text of 1000000000 bytes is made
hf.chat_template "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}":render{} --! maximum recursion depth exceeded
hf.chat_template(("{{ " .. ("("):rep(1000))) --! stand more than 180 deep
hf.chat_template(5) --! the text of a template or a path is needed, not a number
