/* C functions by signature in Lua: opening them, their parameters, the types of their results. They
 * are called as operators, repl/lua/custom.c. */
#include "repl/lua_api.h"
#include "vm/foreign.h"

static const char *const FOREIGN = "tessera.foreign";

TsForeign *ts_lua_foreign(lua_State *L, int at) {
  return *(TsForeign **)luaL_checkudata(L, at, FOREIGN);
}

/* foreign_open(library or nil, symbol, signature) */
static int foreign_open(lua_State *L) {
  TsForeign **box = lua_newuserdata(L, sizeof *box);
  *box = NULL;
  luaL_getmetatable(L, FOREIGN);
  lua_setmetatable(L, -2);
  *box = ts_foreign_open(&ts_lua_context(L)->err, ts_lua_word_or(L, 1, NULL), ts_lua_word(L, 2),
                         ts_lua_word(L, 3));
  return *box ? 1 : ts_lua_raise(L);
}

static int collect(lua_State *L) {
  TsForeign **box = lua_touserdata(L, 1);
  ts_foreign_unref(*box);
  *box = NULL;
  return 0;
}

/* f:params() -> {{name, kind, dtype, preset}...}, number of results */
static int params(lua_State *L) {
  static const char *const kind[] = {"in", "out", "each", "option", "size"};
  const TsForeign *f = ts_lua_foreign(L, 1);
  const TsForeignParam *p;
  int n = ts_foreign_params(f, &p);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_newtable(L);
    lua_pushstring(L, p[i].name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, kind[p[i].kind]);
    lua_setfield(L, -2, "kind");
    if (p[i].dtype != TS_DT_none)
      lua_pushstring(L, ts_dtype_name(p[i].dtype));
    else
      lua_pushnil(L);
    lua_setfield(L, -2, "dtype");
    if (p[i].has_preset)
      lua_pushnumber(L, p[i].preset);
    else
      lua_pushnil(L);
    lua_setfield(L, -2, "preset");
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, ts_foreign_nresult(f));
  return 2;
}

/* f:infer({inputs}, {shapes} or nil) -> {types} */
static int infer(lua_State *L) {
  const TsForeign *f = ts_lua_foreign(L, 1);
  TsContext *c = ts_lua_context(L);
  TsTensor **in;
  TsMeta shape[TS_FOREIGN_PARAMS] = {0}, out[TS_FOREIGN_PARAMS + 1];
  const char *name = ts_foreign_name(f);
  int n = ts_lua_list(L, 2, name, &in), nshape = 0;
  const TsMeta **m = lua_newuserdata(L, sizeof *m * (size_t)(n + 1));
  for (int i = 0; i < n; i++) m[i] = &in[i]->meta;
  if (lua_istable(L, 3)) {
    nshape = (int)lua_objlen(L, 3);
    if (nshape > TS_FOREIGN_PARAMS)
      return ts_lua_fail(L, TS_ERR_shape, "%s: shape gives %d shapes", name, nshape);
    for (int i = 0; i < nshape; i++) {
      lua_rawgeti(L, 3, i + 1);
      ts_lua_check_shape(L, &shape[i], name);
      lua_pop(L, 1);
    }
  }
  if (ts_foreign_infer(f, &c->err, n, m, nshape, shape, out)) return ts_lua_raise(L);
  ts_lua_push_types(L, ts_foreign_nresult(f), out);
  return 1;
}

void ts_lua_open_foreign(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"params", params}, {"infer", infer}, {"__gc", collect}, {NULL, NULL}};
  ts_lua_metatable(L, FOREIGN, methods);
  lua_pushcfunction(L, foreign_open);
  lua_setfield(L, -2, "foreign_open");
}
