-- Regular expressions: what is read, and what is an error with its place.
local Grammar = require "tessera.hf.grammar.grammar"

local function of(text, ...)
  local g, list = Grammar.of("regex", text), {}
  for _, s in ipairs { ... } do
    if g:matches(s) then list[#list + 1] = s end
  end
  return table.concat(list, " ")
end

of("a|bc*", "a", "b", "bcc", "ac") --> a b bcc
of("^(?:ab){2,3}$", "abab", "ababab", "ab", "abababab") --> abab ababab
of("(a+?)(?<x>b)(?P<y>c)", "aabc", "bc") --> aabc
of([[\d+\.\d{2}]], "12.50", "1.5", "٣.٠٠") --> 12.50
of([[\w+\s\S]], "a_1 x", "a\tä", "é x") --> a_1 x a	ä
of([[[^\d\s]+]], "abc", "a1", "ab٣") --> abc
of([[\D\W]], "a!", "1!", "ab", "é!") --> a!
of([[[\w.-]+@[a-z]+\.com]], "a.b-c@de.com", "a@b.org") --> a.b-c@de.com
of([[\x41\u00e4\u{1F600}\t\/\-]], "Aä😀\t/-") --> Aä😀	/-
of([[.]], "a", "\n", "日") --> a 日
of([=[[\]\\]+[\b]x]=], "]\\\bx") == "]\\\bx" --> true
of("a{2}b{,3}", "aab{,3}") --> aab{,3}
of([[a\$]], "a$") --> a$
of([[a\\$]], "a\\") --> a\
of("", "", "a") -->

local function wrong(text) return Grammar.of("regex", text) end
wrong "a(?=b)" --! groups that look around, or set options, are not read
wrong [[\bword]] --! '\b' is not read
wrong [[(a)\1]] --! '\1' is not read
wrong [[\p{L}]] --! '\p' is not read
wrong "a**" --! a repetition of a repetition
wrong "*a" --! nothing is in front of '*'
wrong "a^b" --! '^' stands at the ends of the whole alone
wrong "^a|b$" --! are of one alternative alone
wrong "(a" --! ')' is missing
wrong "a)" --! ')' is too many
wrong "[b-a]" --! goes backwards
wrong "[a" --! a class has no end
wrong "a{3,2}" --! the second number is not below the first
wrong "a{20000}" --! at most 10000
