/* Control operators that run eagerly (lib/lua/control.lua), for Lua: see vm/core/region.h.
 * Lua has the number of a region, under which it is found until it ends. */
#include "ir/graph/control.h"
#include "repl/lua/graph.h"
#include "vm/core/region.h"

static TsRegion *find(lua_State *L, TsContext *c) {
  return ts_region_find(c, (uint64_t)luaL_checknumber(L, 1));
}

/* -> the region, how many are around it, the thread that runs if it is not the main one. */
static int push_entered(lua_State *L, const TsRegion *r) {
  if (!r) return ts_lua_raise(L);
  lua_pushnumber(L, (double)r->id);
  lua_pushinteger(L, r->nested);
  if (lua_pushthread(L)) lua_pop(L, 1), lua_pushnil(L);
  return 3;
}

/* region_enter(name) */
static int region_enter(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  return push_entered(L, ts_region_enter(ts_lua_context(L), name));
}

/* region_enter_again(region): a call of a recursion in itself; nil if that has ended. */
static int region_enter_again(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsRegion *of = find(L, c);
  return of ? push_entered(L, ts_region_enter_again(c, of)) : 0;
}

/* region_round(region [, round]): a loop's functions run again. */
static int region_round(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsRegion *r = find(L, c);
  if (r) ts_region_round(c, r, (int64_t)luaL_optnumber(L, 2, -1));
  return 0;
}

/* region_leave(region) */
static int region_leave(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsRegion *r = find(L, c);
  if (r) ts_region_leave(c, r);
  return 0;
}

/* region_are_own(...) -> whether these results are tensors of their own as they are. What lies in
 * tables is not looked for. */
static int region_are_own(lua_State *L) {
  const TsContext *c = ts_lua_context(L);
  TsTensor *few[8];
  int n = 0;
  for (int i = 1; i <= lua_gettop(L); i++) {
    TsTensor *t = ts_lua_tensor(L, i);
    if (!t && !lua_istable(L, i)) continue;
    if (!t || n == (int)(sizeof few / sizeof *few)) return 0;
    few[n++] = t;
    if (!ts_region_is_own(c, few, n - 1)) return 0;
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* region_own({tensors}): those that are not are replaced by copies. */
static int region_own(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor **t;
  lua_settop(L, 1);
  int n = ts_lua_list(L, 1, NULL, &t);
  for (int i = 0; i < n; i++) {
    if (ts_region_is_own(c, t, i)) continue;
    TsTensor *own = ts_vm_call1(c, TS_OP_clone, 1, &t[i], NULL);
    if (!own) return ts_lua_raise(L);
    ts_lua_push(L, own);
    lua_rawseti(L, 1, i + 1);
    t[i] = own;
  }
  return 0;
}

/* ---- what functions give, as captured ones are checked (ir/graph/control.h) */

/* region_condition(name, ...) -> the one bool that a condition gives, and whether it is true where
 * that is known. */
static int region_condition(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const char *name = luaL_checkstring(L, 1);
  if (ts_control_check_count(&c->err, name, "the condition", lua_gettop(L) - 1, 1))
    return ts_lua_raise(L);
  TsTensor *t = ts_lua_tensor(L, 2);
  if (!t) {
    ts_error_set(&c->err, TS_ERR_dtype, "%s: the condition must be one bool, not a %s of Lua",
                 name, luaL_typename(L, 2));
    ts_error_hint(&c->err, "compare tensors, as in x:gt(0)");
    return ts_lua_raise(L);
  }
  if (ts_control_check_condition(&c->err, name, &t->meta)) return ts_lua_raise(L);
  if (t->storage->symbolic) return 1;
  ts_lua_push_element(L, t, 0);
  return 2;
}

/* region_alike({tensors}, ...) -> whether these are tensors of those types, as many. */
static int region_alike(lua_State *L) {
  int n = lua_gettop(L) - 1;
  if ((int)lua_objlen(L, 1) != n) return 0;
  for (int i = 1; i <= n; i++) {
    const TsTensor *now = ts_lua_tensor(L, i + 1);
    lua_rawgeti(L, 1, i);
    const TsTensor *before = now ? ts_lua_tensor(L, -1) : NULL;
    lua_pop(L, 1);
    if (!before || (now != before && !ts_control_same(&now->meta, &before->meta))) return 0;
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* region_check(name, who, what, {tensors}, {those of before}): of these types, as many. */
static int region_check(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const char *name = luaL_checkstring(L, 1), *what = luaL_checkstring(L, 3);
  TsTensor **now, **before;
  int n = ts_lua_list(L, 4, NULL, &now), want = ts_lua_list(L, 5, NULL, &before);
  int failed = ts_control_check_count(&c->err, name, luaL_checkstring(L, 2), n, want);
  for (int i = 0; i < n && !failed; i++)
    failed = ts_control_check_type(&c->err, name, what, i, &now[i]->meta, &before[i]->meta);
  return failed ? ts_lua_raise(L) : 0;
}

void ts_lua_open_region(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"region_enter", region_enter},         {"region_enter_again", region_enter_again},
      {"region_round", region_round},         {"region_leave", region_leave},
      {"region_are_own", region_are_own},     {"region_own", region_own},
      {"region_condition", region_condition}, {"region_alike", region_alike},
      {"region_check", region_check},         {NULL, NULL}};
  luaL_register(L, NULL, functions);
}
