/* Lists and types between Lua and C. */
#include "repl/lua_api.h"

int ts_lua_list(lua_State *L, int table, const char *function, TsTensor ***out) {
  luaL_checktype(L, table, LUA_TTABLE);
  int n = (int)lua_objlen(L, table);
  TsTensor **t = lua_newuserdata(L, sizeof *t * (size_t)(n + 1));
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, table, i + 1);
    t[i] = function ? ts_lua_check_tensor(L, -1, function) : ts_lua_tensor(L, -1);
    lua_pop(L, 1);
  }
  *out = t;
  return n;
}

void ts_lua_push_sizes(lua_State *L, int n, const int64_t *size) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushnumber(L, (double)size[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

void ts_lua_push_types(lua_State *L, int n, const TsMeta *m) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, ts_dtype_name((TsDtype)m[i].dtype));
    lua_setfield(L, -2, "dtype");
    ts_lua_push_sizes(L, m[i].ndim, m[i].dim);
    lua_setfield(L, -2, "shape");
    lua_rawseti(L, -2, i + 1);
  }
}

void ts_lua_check_shape(lua_State *L, TsMeta *m, const char *name) {
  TsContext *c = ts_lua_context(L);
  if (!lua_istable(L, -1))
    ts_lua_fail(L, TS_ERR_argument, "%s: a shape is a list of sizes, not a %s", name,
                luaL_typename(L, -1));
  int n = (int)lua_objlen(L, -1);
  if (n > TS_MAX_RANK) ts_lua_fail(L, TS_ERR_shape, "%s: a shape of %d axes", name, n);
  m->ndim = (uint8_t)n;
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    double v = lua_tonumber(L, -1);
    if (!lua_isnumber(L, -1) || v < 0 || v > 0x1p53 || !ts_lua_whole(v, &m->dim[i]))
      ts_lua_fail(L, TS_ERR_shape, "%s: size %d of a shape is not a whole number", name, i + 1);
    lua_pop(L, 1);
  }
  if (ts_meta_check_size(m, name, &c->err)) ts_lua_raise(L);
}

void ts_lua_metatable(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  luaL_register(L, NULL, methods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
