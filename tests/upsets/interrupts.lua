-- Ctrl-C at any point: the error "interrupted" with its line, and everything goes on. See
-- _scenarios.lua.
package.path = "tests/upsets/?.lua;" .. package.path
local walk = require "_walk"

walk "interrupt" --> all is well
walk "look" --> all is well
walk "instruction" --> all is well
