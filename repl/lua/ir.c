/* tessera.core for the text of the IRs: tests and tools read and print graphs with it. */
#include <string.h>

#include "ir/graph/export.h"
#include "ir/sched/sched.h"
#include "repl/lua/text.h"
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
  if (ts_lua_text_whole(text, len, &e)) return failed(L, &e, "");
  TsGraph *g = ts_graph_parse(text, &e);
  if (!g) return failed(L, &e, "");
  int illegal = ts_graph_check(g, &e);
  if (!illegal) print[form](g, &t);
  ts_graph_free(g);
  if (illegal) return failed(L, &e, "illegal: ");
  ts_lua_push_text(L, &t);
  return 1;
}

enum { SCHED_TEXT, SCHED_FUSE, SCHED_UNCHECKED };

static TsSched *schedule(const TsGraph *g, const char *text, int form, TsError *e) {
  TsSched *s = form == SCHED_FUSE ? ts_sched_new(g, NULL, 1, e) : ts_sched_parse(g, text, e);
  if (!s || form == SCHED_UNCHECKED || !ts_sched_check(s, e)) return s;
  ts_sched_free(s);
  return NULL;
}

/* Printed, it reads back as what it was. */
static int print_schedule(const TsSched *s, TsText *t, TsError *e) {
  TsText why = {0};
  ts_graph_text(s->g, t);
  ts_text_char(t, '\n');
  size_t from = t->len;
  ts_sched_text(s, t);
  TsSched *again = ts_sched_parse(s->g, t->at + from, e);
  bool same = again && ts_sched_equal(s, again, &why);
  if (again && !same) ts_error_set(e, TS_ERR_value, "it reads back with %s", why.at);
  ts_sched_free(again);
  ts_text_free(&why);
  return same ? 0 : -1;
}

/* sched_parse(text [, "text"|"fuse"|"unchecked"]): a graph and behind it its schedule, read,
 * checked and printed; fuse: of a graph, with the schedule that it gets; unchecked: legal or not.
 * nil and what is wrong. */
static int sched_parse(lua_State *L) {
  static const char *const forms[] = {"text", "fuse", "unchecked", NULL};
  TsText t = {0};
  TsError e = {0};
  const char *text = luaL_checkstring(L, 1), *at = strstr(text, "\nschedule @");
  int form = luaL_checkoption(L, 2, "text", forms);
  if (at) lua_pushlstring(L, text, (size_t)(at + 1 - text));
  TsGraph *g = ts_graph_parse(at ? lua_tostring(L, -1) : text, &e);
  TsSched *s = g && !ts_graph_check(g, &e) ? schedule(g, at ? at + 1 : "", form, &e) : NULL;
  int bad = !s || print_schedule(s, &t, &e);
  ts_sched_free(s);
  ts_graph_free(g);
  if (!bad) return ts_lua_push_text(L, &t), 1;
  ts_text_free(&t);
  return failed(L, &e, "");
}

void ts_lua_open_ir(lua_State *L) {
  static const luaL_Reg ir[] = {
      {"graph_parse", graph_parse}, {"sched_parse", sched_parse}, {NULL, NULL}};
  luaL_register(L, NULL, ir);
}
