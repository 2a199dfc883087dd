/* A captured function as Lua holds it: what repl/lua/graph.c, graph_run.c and symbolic.c share. */
#ifndef TS_REPL_LUA_FUNCTION_H
#define TS_REPL_LUA_FUNCTION_H

#include "ir/mesh/how.h"
#include "jit/jit.h"
#include "jit/mesh/run.h"
#include "lib/text.h"
#include "repl/lua/graph.h"
#include "vm/code/bytecode.h"

#define TS_LUA_FUNCTION "tessera.graph" /* the name of its metatable */

/* Its graph, and its code when it ran. */
typedef struct TsLuaFunction {
  TsGraph *g;
  TsGraph *raw; /* before rewriting: what is generalised */
  bool sizes_read;
  bool *donated;         /* by parameter, or NULL */
  unsigned char **moves; /* by update: see ts_graph_moves; NULL until somebody asks */
  TsText rewrites;       /* a line for each rule that fired */
  TsCode *code;
  TsFrame *frame;
  TsJitFunction *hot;
  TsGraph *cut;      /* g with sums over declared leaves, which is what runs; or NULL */
  TsMeshRun *spread; /* its pieces, once it was called on a mesh, or NULL; */
  int spread_leaves; /* with so many leaves: whether that was tried; */
  unsigned spread_overlap; /* TsContext.overlap_said then */
  int ncut;          /* how often */
  TsGraph *loose; /* where it has loops: with functions of what stands between them; or NULL */
  TsCode *loose_code;
  TsFrame *loose_frame;
  TsMeshHow *how; /* in micro-batches, in a pipeline, or NULL */
  struct TsLuaFunction
      *whole; /* of a piece of it: all but its number is the run's; else NULL */
} TsLuaFunction;

/* The function at this index; an error where it is a piece of one that was cut anew since. */
TsLuaFunction *ts_lua_function_at(lua_State *L, int index);
/* It has code, a frame and what runs it; raises where it cannot. 0. */
int ts_lua_function_ready(lua_State *L, TsLuaFunction *f);

/* repl/lua/graph_run.c: its runs, as methods. */
extern const luaL_Reg ts_lua_run_methods[];
/* It has pieces for the leaves that are declared, if it can be cut; -1 with the error. */
int ts_lua_function_cut(TsContext *c, TsLuaFunction *f);

/* repl/lua/symbolic.c: graphs whose sizes are symbols. */
void ts_lua_open_symbolic(lua_State *L);

#endif
