-- Memory that runs out at any point: an error, and everything goes on. See _scenarios.lua.
package.path = "tests/upsets/?.lua;" .. package.path
local walk = require "_walk"

walk "memory" --> all is well
walk "full" --> all is well
walk "lua" --> all is well
