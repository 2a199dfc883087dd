-- A polynomial through noisy points in three ways that must agree: QR, the normal
-- equations, and the singular value decomposition.

local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng

rng.seed(5)
local truth = tessera.tensor({ 0.5, -2, 0, 3 }, { dtype = "f64" })
local x = op.linspace(-1, 1, 200, { dtype = "f64" })
local powers = op.arange(4):cast("f64")
local A = op.pow(x:unsqueeze(1), powers)
local y = op.matmul(A, truth) + rng.normal({ 200 }, { std = 0.05, dtype = "f64" })

local q, r = op.qr(A)
local by_qr = op.tri_solve(r, op.matmul(q:T(), y):unsqueeze(1), { lower = false }):squeeze()
local by_normal = op.solve(op.matmul(A:T(), A), op.matmul(A:T(), y))
local u, s, vh = op.svd(A)
local by_svd = op.matmul(vh:T(), op.matmul(u:T(), y) / s)

print("truth   ", truth)
print("QR      ", by_qr)
print("condition number", (s:max() / s:min()):item())
assert((by_qr - by_normal):abs():max():item() < 1e-10)
assert((by_qr - by_svd):abs():max():item() < 1e-10)
assert((by_qr - truth):abs():max():item() < 0.05)
return { by_qr }
