/* How a captured function runs over a mesh in time, as Lua says and asks it. */
#ifndef TS_REPL_LUA_PIPELINE_H
#define TS_REPL_LUA_PIPELINE_H

#include "ir/mesh/chunks.h"
#include "repl/lua_api.h"

/* The table {micro, chunks, axis, turns, again = {[chunk] = true}, seeds = {{tensor, chunk} ...}}
 * at index; axes and chunks count from 0. In memory of its own; raises. */
TsMeshHow *ts_lua_how(lua_State *L, int index);

/* Pushes a row {chunk, first} for each tensor of the list at `list`, first being the place of the first node
 * that reads it, false for what g has not captured; and {cost ...} of the forward pass by chunk. how: the
 * table's index. Raises. */
int ts_lua_push_chunks(lua_State *L, TsContext *c, const TsGraph *g, int how, int list);

#endif
