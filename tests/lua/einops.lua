local tessera = require "tessera"
local op = tessera.op
local x = op.arange(24):reshape(2, 3, 4)
op.rearrange(x, "a b c -> c (b a)").shape --> {4, 6}
op.rearrange(x, "a b (c d) -> a c b d", { c = 2 }):hash() == x:reshape(2, 3, 2, 2):permute(0, 2, 1, 3):hash() --> true
x:rearrange("... c -> c ...").shape --> {4, 2, 3}
x:rearrange("a b c -> a 1 (b c)").shape --> {2, 1, 12}
x:rearrange("a b -> b a") --! names 2 axes of [2,3,4]
x:rearrange("a b c -> a b") --! both sides must have the same names
x:rearrange("a b (c d) -> a b c d") --! sizes of 'c' and 'd' are both unknown
x:rearrange("a b (c d) -> a b c d", { c = 3 }) --! axis 2 of [2,3,4] cannot be split so

op.einsum(x:cast("f32"), x:cast("f32"), { equation = "abc,abd->acd" }).shape --> {2, 4, 4}
op.einsum("abc->b", x):totable() --> {60, 92, 124}
op.einsum("ii->i", op.arange(9):reshape(3, 3)):totable() --> {0, 4, 8}
op.einsum("ii", op.arange(9):reshape(3, 3)):item() --> 12
op.einsum("...ij->...ji", x):hash() == x:transpose():hash() --> true
op.einsum("ij,jk", op.ones { 2, 3 }, op.ones { 3, 4 }).shape --> {2, 4}
op.einsum("i,j,k->kij", op.ones { 2 }, op.ones { 3 }, op.ones { 4 }).shape --> {4, 2, 3}
op.einsum("ij,jk->iq", x[0], x[0]:T()) --! a letter of the result stands in no term
op.einsum("ij,jk->ik", op.ones { 2, 3 }, op.ones { 4, 2 }) --! a letter has two sizes
op.einsum("ijk,jk->i", x[0], x[0]) --! letters and axes differ in number
