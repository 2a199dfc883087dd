/* See repl/lua/pipeline.h. */
#include "repl/lua/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "vm/mesh/expand.h"

static int number(lua_State *L, int index, const char *name, int otherwise) {
  lua_getfield(L, index, name);
  int n = lua_isnil(L, -1) ? otherwise : (int)luaL_checkinteger(L, -1);
  lua_pop(L, 1);
  return n;
}

/* The userdata on the stack has the table's content, seeds behind it. */
static TsMeshHow *read(lua_State *L, int index) {
  static const char *const turns[] = {"gpipe", "1f1b", "interleaved", NULL};
  luaL_checktype(L, index, LUA_TTABLE);
  lua_getfield(L, index, "seeds");
  int seeds = lua_gettop(L), n = lua_istable(L, seeds) ? (int)lua_objlen(L, seeds) : 0;
  TsMeshHow *how = lua_newuserdata(L, sizeof *how + sizeof *how->seed * (size_t)n);
  *how = (TsMeshHow){.micro = number(L, index, "micro", 1),
                     .chunks = number(L, index, "chunks", 0),
                     .axis = number(L, index, "axis", 0),
                     .nseed = n,
                     .seed = (TsMeshSeed *)(how + 1)};
  lua_getfield(L, index, "turns");
  how->turns = (TsTurns)luaL_checkoption(L, -1, "1f1b", turns);
  lua_pop(L, 1);
  lua_getfield(L, index, "again");
  for (int i = 0; lua_istable(L, -1) && i < TS_CHUNKS; i++) {
    lua_rawgeti(L, -1, i);
    how->again[i] = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, seeds, i + 1);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    how->seed[i] = (TsMeshSeed){ts_lua_check_tensor(L, lua_gettop(L) - 1, "pipeline"),
                                (int)luaL_checkinteger(L, -1)};
    lua_pop(L, 3);
  }
  return how;
}

TsMeshHow *ts_lua_how(lua_State *L, int index) {
  const TsMeshHow *how = read(L, index);
  size_t seeds = sizeof *how->seed * (size_t)how->nseed;
  TsMeshHow *own = malloc(sizeof *own + seeds);
  if (!own) return luaL_error(L, "out of memory"), NULL;
  memcpy(own, how, sizeof *own + seeds);
  own->seed = (TsMeshSeed *)(own + 1);
  lua_pop(L, 2);
  return own;
}

/* ---- chunks */
static int first_reader(const TsGraph *g, const unsigned char *live, TsVal v) {
  for (int i = 0; i < g->nnode; i++)
    for (int k = 0; k < g->node[i]->nin && live[i]; k++)
      if (g->node[i]->in[k] == v) return i;
  return g->nnode;
}

/* A row for each tensor of the list at `list`, false for what g has not captured. */
static void push_params(lua_State *L, const TsGraph *g, const TsChunks *c,
                        const unsigned char *live, int list) {
  int n = (int)lua_objlen(L, list);
  lua_createtable(L, n, 0);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, list, k + 1);
    const TsTensor *t = ts_lua_check_tensor(L, lua_gettop(L), "pipeline");
    int i = 0;
    while (i < g->nparam && g->bound[i] != t) i++;
    lua_pop(L, 1);
    if (i == g->nparam) {
      lua_pushboolean(L, false);
    } else {
      lua_createtable(L, 0, 2);
      lua_pushinteger(L, c->param[i]);
      lua_setfield(L, -2, "chunk");
      lua_pushinteger(L, first_reader(g, live, g->param[i]));
      lua_setfield(L, -2, "first");
    }
    lua_rawseti(L, -2, k + 1);
  }
}

static void push_costs(lua_State *L, const TsGraph *g, const TsChunks *c,
                       const unsigned char *live, int chunks) {
  double *cost = lua_newuserdata(L, sizeof *cost * (size_t)(chunks + 1));
  memset(cost, 0, sizeof *cost * (size_t)(chunks + 1));
  for (int i = 0; i < g->nnode; i++)
    if (live[i] && c->phase[i] == TS_PHASE_forward && c->chunk[i] >= 0 && c->chunk[i] < chunks)
      cost[c->chunk[i]] += ts_chunks_cost(g->node[i]);
  lua_newtable(L);
  for (int i = 0; i < chunks; i++) {
    lua_pushnumber(L, cost[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_remove(L, -2);
}

int ts_lua_push_chunks(lua_State *L, TsContext *c, const TsGraph *g, int at, int list) {
  const TsMeshHow *how = read(L, at);
  TsGraph *expanded = ts_mesh_expand(c, g);
  unsigned char *live = expanded ? ts_graph_live(expanded) : NULL;
  TsChunks chunks;
  if (!live || ts_chunks_find(&chunks, expanded, live, how, &c->err)) {
    free(live);
    if (expanded) ts_graph_free(expanded);
    return ts_lua_raise(L);
  }
  push_params(L, expanded, &chunks, live, list);
  push_costs(L, expanded, &chunks, live, how->chunks);
  ts_chunks_free(&chunks);
  free(live);
  ts_graph_free(expanded);
  return 2;
}
