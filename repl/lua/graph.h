/* Captured functions in Lua: what the files of their binding share. */
#ifndef TS_REPL_LUA_GRAPH_H
#define TS_REPL_LUA_GRAPH_H

#include <stdbool.h>

#include "ir/graph/graph.h"
#include "repl/lua_api.h"

/* Pushes a function of g, which is taken over. */
void ts_lua_push_graph(lua_State *L, TsGraph *g);
/* The same of what was captured, raw: it is rewritten first. */
void ts_lua_push_captured(lua_State *L, TsContext *c, TsGraph *raw);
static inline int ts_lua_raise_unless(lua_State *L, bool fine) {
  return fine ? 0 : ts_lua_raise(L);
}

/* The graph that is being captured, at the program's place. Raises if there is none. */
TsGraph *ts_lua_graph_here(lua_State *L, TsContext *c);
/* Values of n tensors in it, NULL for NULL; the array is on the stack. */
TsVal *ts_lua_values(lua_State *L, TsContext *c, int n, TsTensor *const *t);
int ts_lua_push_values(lua_State *L, TsContext *c, int n,
                       const TsVal *v);                         /* a list of symbols, */
int ts_lua_push_outputs(lua_State *L, TsContext *c, TsNode *n); /* or one by one */

/* What runs the function at this index; raises on errors. */
struct TsJitFunction *ts_lua_graph_hot(lua_State *L, int index);
const TsGraph *ts_lua_graph_at(lua_State *L, int index); /* of the function there */
/* Whether the function at this index is one over a mesh; *run: its pieces, for the leaves that are
 * declared, or NULL: it cannot be cut, and runs call by call. */
struct TsMeshRun;
bool ts_lua_graph_spread(lua_State *L, int index, struct TsMeshRun **run);
/* Pushes one of these pieces as a function, whose kernels can be looked at and changed. */
void ts_lua_push_piece(lua_State *L, int index, int at);
/* repl/lua/patch.c, repl/lua/pieces.c: methods of functions. */
extern const luaL_Reg ts_lua_patch_methods[], ts_lua_pieces_methods[];

/* Openers: each registers its part in the table on top. */
void ts_lua_open_capture(lua_State *L);
void ts_lua_open_region(lua_State *L);
void ts_lua_open_tape(lua_State *L);
void ts_lua_open_patch(lua_State *L);

#endif
