/* tessera.core for the text of the IRs: tests and tools read and print graphs with it. */
#include <string.h>

#include "ir/graph_export.h"
#include "repl/lua_api.h"

static void (*const print[])(const TsGraph *, TsText *) = {ts_graph_text, ts_graph_text_places,
                                                          ts_graph_json, ts_graph_dot};

/* nil, message */
static int failed(lua_State *L, const TsError *e, const char *before) {
  lua_pushnil(L);
  lua_pushfstring(L, *e->hint ? "%s%s\n  hint: %s" : "%s%s", before, e->message, e->hint);
  return 2;
}

/* graph_parse(text [, "text"|"places"|"json"|"dot"]): the graph printed; nil and what is wrong
 * with it. A graph that was read and is not legal would be a defect of the reader. */
static int graph_parse(lua_State *L) {
  static const char *const forms[] = {"text", "places", "json", "dot", NULL};
  TsText t = {0};
  TsError e = {0};
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  int form = luaL_checkoption(L, 2, "text", forms);
  if (strlen(text) != len) {
    ts_error_set(&e, TS_ERR_format, "the text contains a zero byte");
    return failed(L, &e, "");
  }
  TsGraph *g = ts_graph_parse(text, &e);
  if (!g) return failed(L, &e, "");
  int illegal = ts_graph_check(g, &e);
  if (!illegal) print[form](g, &t);
  ts_graph_free(g);
  if (illegal) return failed(L, &e, "illegal: ");
  lua_pushlstring(L, t.at ? t.at : "", t.len);
  ts_text_free(&t);
  return 1;
}

void ts_lua_open_ir(lua_State *L) {
  static const luaL_Reg ir[] = {{"graph_parse", graph_parse}, {NULL, NULL}};
  luaL_register(L, NULL, ir);
}
