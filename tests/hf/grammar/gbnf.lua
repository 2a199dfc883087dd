-- GBNF: what is read, and what is an error with its line.
local Grammar = require "tessera.hf.grammar.grammar"

-- Of texts, those that a grammar has.
local function of(text, ...)
  local g, list = Grammar.of("grammar", text), {}
  for _, s in ipairs { ... } do
    if g:matches(s) then list[#list + 1] = s end
  end
  return table.concat(list, " ")
end

of('root ::= "ab" "c"?', "ab", "abc", "abcc", "") --> ab abc
of('root ::= "a"+ | [x-z]*', "a", "aa", "xyz", "ax") --> a aa xyz
of('root ::= "a"{2} "b"{1,} "c"{0,1}', "aab", "aabbc", "ab", "aabcc") --> aab aabbc
of('# a comment\nroot ::= a | # one\n  b\na ::= "x"\nb ::= (\n "y"\n | "z" )\n', "x", "y", "z") --> x y z
of('root ::= "a"\n  | "b"\nother ::= "c"', "a", "b", "c") --> a b
of([[root ::= "\x41\u00e4\U0001F600\"\\\n."]], 'Aä😀"\\\n.') --> Aä😀"\
--> .
of([[root ::= [^a-c\]\n-]+]], "d", "]", "-", "ä😀", "a") --> d ä😀
of([[root ::= [a\-z] [-x]+]], "a-", "-x", "bx") --> a- -x
of('root ::= . .', "ab", "äö", "a") --> ab äö
Grammar.of("grammar", "root ::= ."):matches "\n" --> true
of("root ::= under_score\nunder_score ::= \"a\"\r\n", "a") --> a
of('root ::= ""', "", "a") -->

local function wrong(text) return Grammar.of("grammar", text) end
wrong 'a ::= "x"' --! there is no rule 'root'
wrong 'root ::= "x' --! line 1: a text or a class has no end
wrong 'root ::= "a"\nroot ::= "b"' --! line 2: the rule 'root' stands twice
wrong 'root = "a"' --! '::=' is missing behind 'root'
wrong 'root ::= "a" ]' --! ']' is not understood
wrong 'root ::= ("a"' --! ')' is missing
wrong 'root ::= [b-a]' --! goes backwards
wrong 'root ::= []' --! a class has no characters
wrong 'root ::= "\\q"' --! the escape '\q' is unknown
wrong 'root ::= "\\ud800"' --! d800 is no character
wrong 'root ::= "a"{2,1}' --! the second number is not below the first
wrong 'root ::= "a"{x}' --! repetitions are {n}, {n,} or {n,m}
wrong 'root ::= "\255"' --! it is no UTF-8
wrong(5) --! a text in GBNF is needed
