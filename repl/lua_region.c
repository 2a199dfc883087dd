/* Control operators that run eagerly (lib/lua/control.lua): what their functions may change, and
 * which random numbers they draw. See vm/write.h. */
#include <string.h>

#include "repl/lua_graph.h"
#include "vm/control.h"
#include "vm/defer.h"
#include "vm/write.h"

static const char *const REGION = "tessera.region";

static TsRegion *check(lua_State *L) { return luaL_checkudata(L, 1, REGION); }

/* The region on the stack is the innermost from here on. */
static TsRegion *enter(lua_State *L, TsContext *c, const char *name) {
  TsRegion *r = lua_newuserdata(L, sizeof *r);
  luaL_getmetatable(L, REGION);
  lua_setmetatable(L, -2);
  *r = (TsRegion){.up = c->region,
                  .name = name,
                  .since = c->next_id,
                  .level = c->region ? c->region->level + 1 : 0,
                  .nested = c->region ? c->region->nested + 1 : 0,
                  .inside = c->inside,
                  .depth = c->stream_depth,
                  .before = c->stream,
                  .moved = c->region ? c->region->moved : 0};
  r->origin = r->before - r->moved;
  lua_createtable(L, 2, 0); /* what `given` lies in */
  lua_setfenv(L, -2);
  c->region = r;
  return r;
}

/* The call of a recursion that r is in, or NULL. */
static TsRegion *recursion_of(TsRegion *r) {
  while (r && r->first >= 0) r = r->up;
  return r;
}

/* region_enter(name [, plain]) -> region, how many are around it. What was put off before gets its
 * bytes: when they were asked for would otherwise say when a tensor was made. */
static int region_enter(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const char *name = luaL_checkstring(L, 1);
  if (ts_defer_settle(c, true)) return ts_lua_raise(L);
  bool plain = lua_toboolean(L, 2);
  TsRegion *r = enter(L, c, name);
  r->plain = plain;
  TsRegion *of = strcmp(name, "recursive") ? recursion_of(r->up) : NULL;
  r->first = of ? of->sites : strcmp(name, "recursive") ? 0 : -1;
  lua_pushinteger(L, r->nested);
  return 2;
}

/* region_inner(region) -> as region_enter: a call of a recursion in itself. Its random calls are
 * those of the outermost one, moved. */
static int region_inner(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsRegion *outer = check(L);
  TsRegion *r = enter(L, c, outer->name);
  r->inner = true;
  r->origin = outer->origin;
  r->level = outer->level;
  r->first = -1;
  r->moved += ts_control_distance(c->stream_depth++, outer->sites++);
  c->stream = r->origin + r->moved;
  lua_pushinteger(L, r->nested);
  return 2;
}

/* region_round(region, round or false, {tensors}): the functions run with these tensors. A number
 * says which round of a loop it is. */
static int region_round(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsRegion *r = check(L);
  TsTensor **given;
  bool moves = lua_type(L, 2) == LUA_TNUMBER;
  lua_settop(L, 3);
  int n = ts_lua_list(L, 3, NULL, &given);
  lua_getfenv(L, 1);
  lua_insert(L, -2);
  lua_rawseti(L, -2, 1);
  lua_pushvalue(L, 3);
  lua_rawseti(L, -2, 2);
  r->given = given, r->ngiven = n;
  r->since = c->next_id;
  TsRegion *of = recursion_of(r);
  if (of && of != r) of->sites = r->first;
  if (!r->inner) {
    r->moved = r->up ? r->up->moved : 0;
    if (moves) r->moved += ts_control_distance(r->depth, (int64_t)lua_tonumber(L, 2));
    c->stream_depth = r->depth + moves;
    c->stream = r->origin + r->moved;
  }
  return 0;
}

/* region_leave(region): those inside of it as well, if an error broke them off. */
static int region_leave(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsRegion *r = check(L);
  c->region = r->up;
  c->stream_depth = r->depth;
  if (r->inner) c->stream = r->before;
  if (!r->inner && !r->plain) c->stream = r->before + ts_control_block(r->level);
  return 0;
}

/* region_own({tensors}) -> whether some were replaced: results are tensors of their own, those
 * from outside and those that share elements with others are copied. */
static int region_own(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor **t;
  lua_settop(L, 1);
  int n = ts_lua_list(L, 1, NULL, &t);
  bool any = false;
  for (int i = 0; i < n; i++) {
    bool copy = ts_write_is_outside(c, t[i]);
    for (int k = 0; k < i && !copy; k++)
      copy = t[k] == t[i] || (t[k]->storage == t[i]->storage && !t[i]->storage->pending);
    if (!copy) continue;
    TsTensor *own = ts_vm_call1(c, TS_OP_clone, 1, &t[i], NULL);
    if (!own) return ts_lua_raise(L);
    ts_lua_push(L, own);
    lua_rawseti(L, 1, i + 1);
    t[i] = own;
    any = true;
  }
  lua_pushboolean(L, any);
  return 1;
}

void ts_lua_open_region(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"region_enter", region_enter}, {"region_inner", region_inner},
      {"region_round", region_round}, {"region_leave", region_leave},
      {"region_own", region_own},     {NULL, NULL}};
  luaL_newmetatable(L, REGION);
  lua_pop(L, 1);
  luaL_register(L, NULL, functions);
}
