/* Graphs with symbolic sizes in Lua: made of two cases of a captured function, and read back for
 * other sizes. */
#include "ir/graph/symbolic.h"
#include "lib/text.h"
#include "repl/lua/function.h"

static const char *const SYMBOLIC = "tessera.symbolic";

typedef struct Symbolic {
  TsSymbolic *raw, *shown; /* before and after rewriting; shown may be NULL */
} Symbolic;

static void refer(const TsGraph *g, bool more) {
  for (int i = 0; g && i < g->nparam; i++) {
    TsTensor *t = g->bound[i];
    if (!t || t == TS_GRAPH_UNBOUND) continue;
    if (more)
      ts_tensor_ref(t);
    else
      ts_tensor_unref(t);
  }
}

/* generalise(f, g) -> a symbolic graph; or nil and why there is none */
static int generalise(lua_State *L) {
  TsLuaFunction *a = ts_lua_function_at(L, 1), *b = luaL_checkudata(L, 2, TS_LUA_FUNCTION);
  TsText why = {0};
  Symbolic *s = lua_newuserdata(L, sizeof *s);
  *s = (Symbolic){NULL, NULL};
  luaL_getmetatable(L, SYMBOLIC);
  lua_setmetatable(L, -2);
  if (a->raw && b->raw) s->raw = ts_graph_generalise(a->raw, b->raw, &why);
  if (s->raw) {
    refer(s->raw->g, true);
    s->shown = ts_graph_generalise(a->g, b->g, NULL);
  } else {
    lua_pushnil(L);
    ts_lua_push_text(L, &why);
    return 2;
  }
  ts_text_free(&why);
  return 1;
}

static Symbolic *check_symbolic(lua_State *L) { return luaL_checkudata(L, 1, SYMBOLIC); }

/* s:solve({arguments}) -> {values of the symbols}, or nil */
static int solve(lua_State *L) {
  Symbolic *s = check_symbolic(L);
  TsTensor **t;
  int64_t value[TS_SYMBOLS];
  int n = ts_lua_list(L, 2, NULL, &t);
  const TsMeta **m = lua_newuserdata(L, sizeof *m * (size_t)(n + 1));
  for (int i = 0; i < n; i++) {
    if (!t[i]) return 0;
    m[i] = &t[i]->meta;
  }
  if (!ts_symbolic_solve(s->raw, n, m, value)) return 0;
  lua_createtable(L, TS_SYMBOLS, 0);
  for (int i = 0; i < TS_SYMBOLS; i++) {
    lua_pushnumber(L, (double)value[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* s:at({values}) -> the function for these sizes; or nil and why they are no case of it */
static int at(lua_State *L) {
  Symbolic *s = check_symbolic(L);
  TsContext *c = ts_lua_context(L);
  int64_t value[TS_SYMBOLS];
  for (int i = 0; i < TS_SYMBOLS; i++) {
    lua_rawgeti(L, 2, i + 1);
    if (!ts_lua_whole(lua_tonumber(L, -1), &value[i])) value[i] = 0; /* has none */
    lua_pop(L, 1);
  }
  TsGraph *raw = ts_symbolic_at(s->raw, value, &c->err);
  if (!raw && c->err.code == TS_ERR_memory) return ts_lua_raise(L);
  if (!raw) {
    lua_pushnil(L);
    lua_pushstring(L, c->err.message);
    ts_error_clear(&c->err);
    return 2;
  }
  refer(raw, true);
  ts_lua_push_captured(L, c, raw);
  return 1;
}

static int symbolic_text(lua_State *L) {
  Symbolic *s = check_symbolic(L);
  const TsSymbolic *shown = s->shown ? s->shown : s->raw;
  TsText t = {0};
  ts_symbolic_constraints(shown, &t);
  bool any = t.len != 0;
  TsText all = {0};
  if (any) ts_text_format(&all, "// %s\n", t.at);
  ts_graph_text(shown->g, &all);
  all.failed |= t.failed;
  ts_text_free(&t);
  ts_lua_push_text(L, &all);
  return 1;
}

static int collect_symbolic(lua_State *L) {
  Symbolic *s = check_symbolic(L);
  if (s->raw) refer(s->raw->g, false);
  ts_symbolic_free(s->raw);
  ts_symbolic_free(s->shown);
  *s = (Symbolic){NULL, NULL};
  return 0;
}

static const luaL_Reg symbolic_methods[] = {{"solve", solve},
                                            {"at", at},
                                            {"text", symbolic_text},
                                            {"__gc", collect_symbolic},
                                            {NULL, NULL}};

static const luaL_Reg functions[] = {{"generalise", generalise}, {NULL, NULL}};

void ts_lua_open_symbolic(lua_State *L) {
  ts_lua_metatable(L, SYMBOLIC, symbolic_methods);
  luaL_register(L, NULL, functions);
}
