/* Words, lists and types between Lua and C. */
#include "repl/lua_api.h"

#include <string.h>

const char *ts_lua_word(lua_State *L, int at) {
  size_t len;
  const char *word = luaL_checklstring(L, at, &len);
  if (strlen(word) == len) return word;
  luaL_Buffer b;
  if (at < 0) at += lua_gettop(L) + 1;
  luaL_buffinit(L, &b);
  for (size_t i = 0; i < len; i++)
    if (word[i])
      luaL_addchar(&b, word[i]);
    else
      luaL_addstring(&b, "\\x00");
  luaL_pushresult(&b);
  lua_replace(L, at);
  return lua_tostring(L, at);
}

const char *ts_lua_word_or(lua_State *L, int at, const char *otherwise) {
  return lua_isnoneornil(L, at) ? otherwise : ts_lua_word(L, at);
}

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

/* ---- sizes: lists that print as [3,4], and are equal where their numbers are */
static int sizes_text(lua_State *L) {
  luaL_Buffer b;
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_buffinit(L, &b);
  luaL_addchar(&b, '[');
  int n = (int)lua_objlen(L, 1);
  for (int i = 0; i < n; i++) {
    if (i) luaL_addchar(&b, ',');
    lua_rawgeti(L, 1, i + 1);
    if (!lua_isnumber(L, -1)) lua_pop(L, 1), lua_pushstring(L, "?");
    luaL_addvalue(&b);
  }
  luaL_addchar(&b, ']');
  luaL_pushresult(&b);
  return 1;
}

static int sizes_equal(lua_State *L) {
  int n = (int)lua_objlen(L, 1);
  bool same = n == (int)lua_objlen(L, 2);
  for (int i = 0; i < n && same; i++) {
    lua_rawgeti(L, 1, i + 1), lua_rawgeti(L, 2, i + 1);
    same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
  }
  lua_pushboolean(L, same);
  return 1;
}

static int sizes_joined(lua_State *L) {
  for (int i = 1; i <= 2; i++)
    if (lua_istable(L, i)) {
      lua_pushcfunction(L, sizes_text);
      lua_pushvalue(L, i);
      lua_call(L, 1, 1);
      lua_replace(L, i);
    }
  lua_settop(L, 2);
  lua_concat(L, 2);
  return 1;
}

static int sizes_called(lua_State *L) {
  return ts_lua_fail(L, TS_ERR_argument,
                     "a shape is a list, not a function: x.shape, x.shape[1]");
}

void ts_lua_push_sizes(lua_State *L, int n, const int64_t *size) {
  static const luaL_Reg methods[] = {{"__tostring", sizes_text},
                                     {"__eq", sizes_equal},
                                     {"__concat", sizes_joined},
                                     {"__call", sizes_called},
                                     {NULL, NULL}};
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushnumber(L, (double)size[i]);
    lua_rawseti(L, -2, i + 1);
  }
  if (luaL_newmetatable(L, "tessera.sizes")) luaL_register(L, NULL, methods);
  lua_setmetatable(L, -2);
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
