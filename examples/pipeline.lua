-- A product through a pipeline of operators, and one of functions.

local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng

rng.seed(2)
local X = rng.normal { 64, 64 }
local Z = op.pipeline { op.matmul(X, X:T()), op.relu, op.layernorm }
print(Z)
local mean, std = Z:mean { axis = -1 }, Z:std { axis = -1 }
print(("rows have mean %.1e and deviation %.4f"):format(mean:abs():max():item(), std:mean():item()))

local normalise = op.pipeline { op.relu, op.layernorm }
assert(normalise(op.matmul(X, X:T())):hash() == Z:hash())
return { Z }
