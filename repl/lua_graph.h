/* Captured functions in Lua: what the files of their binding share. */
#ifndef TS_REPL_LUA_GRAPH_H
#define TS_REPL_LUA_GRAPH_H

#include "ir/graph.h"
#include "repl/lua_api.h"

/* The tensors of a list, NULL where it has none; the array is on the stack. */
int ts_lua_list(lua_State *L, int table, TsTensor ***out);
/* Pushes a function of g, which is taken over. */
void ts_lua_push_graph(lua_State *L, TsGraph *g);
/* The same of what was captured, raw: it is rewritten first. */
void ts_lua_push_captured(lua_State *L, TsContext *c, TsGraph *raw);
static inline int ts_lua_raise_unless(lua_State *L, bool fine) {
  return fine ? 0 : ts_lua_raise(L);
}

/* Openers: each registers its part in the table on top. */
void ts_lua_open_capture(lua_State *L);
void ts_lua_open_region(lua_State *L);
void ts_lua_open_tape(lua_State *L);

#endif
