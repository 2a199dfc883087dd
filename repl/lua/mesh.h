/* Meshes in Lua: objects that x.device gives, and that stand where devices do. */
#ifndef TS_REPL_LUA_MESH_H
#define TS_REPL_LUA_MESH_H

#include "lib/mesh.h"
#include "repl/lua_api.h"

void ts_lua_push_mesh(lua_State *L, const TsMesh *m);
const TsMesh *ts_lua_mesh(lua_State *L, int at); /* NULL: no mesh stands there */
/* {kind, operator, axes, bytes, from, to, place} */
struct TsCollective;
void ts_lua_push_collective(lua_State *L, const struct TsCollective *k);
/* A view that shows what x was split by: writing through it would be lost. */
bool ts_lua_mesh_view_is_copy(TsTensor *view);
/* x[key] = value where that is so: of all of x, on one device. */
int ts_lua_mesh_assign(lua_State *L, TsTensor *x, int key, int value);
/* Pushes x as all devices of the mesh have it. */
int ts_lua_to_mesh(lua_State *L, TsTensor *x, const TsMesh *m);

/* What Lua is about to read of x. In the function of dist.map, which each process runs for all parts, its
 * elements are those that the process has whose part runs, and who has them tells all others; so what
 * the function then does is the same in all of them. x itself, or a tensor that stays alive until the
 * next call; raises. */
TsTensor *ts_lua_told(lua_State *L, TsTensor *x);

/* The mesh, the layout of the number at `at`; raises. */
const TsMesh *ts_lua_check_mesh(lua_State *L, int at);
const TsLayout *ts_lua_check_layout(lua_State *L, int at);

/* Puts what repl/lua/mesh_sent.c has into the table on top, for ts_lua_open_mesh. */
void ts_lua_open_sent(lua_State *L);

#endif
