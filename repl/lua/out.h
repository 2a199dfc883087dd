/* The option out = spec of operators on tensors over a mesh. */
#ifndef TS_REPL_LUA_OUT_H
#define TS_REPL_LUA_OUT_H

#include "lib/mesh.h"
#include "repl/lua/args.h"

int ts_lua_out_set(TsLuaArgs *a, int index); /* the value at index is it: 0, or -1 */
void ts_lua_out_release(TsLuaArgs *a);
/* The layout that it says, once all arguments are read; NULL with the error. */
const TsLayout *ts_lua_out_layout(TsLuaArgs *a);
/* Results of the call come to lie so. 0 or -1. */
int ts_lua_out_move(TsLuaArgs *a, const TsLayout *l, TsTensor **out);
/* A tensor that was made for a mesh: all devices have it. */
int ts_lua_out_spread(TsLuaArgs *a, TsTensor **out);

#endif
