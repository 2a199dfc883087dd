/* Captured functions in Lua: their life, texts, what is chosen for their kernels. What
 * lib/lua/graph.lua stands on, with graph_run.c, symbolic.c, capture.c and tape.c. */
#include <stdlib.h>
#include <string.h>

#include "ir/graph/export.h"
#include "ir/text/size.h"
#include "jit/level.h"
#include "repl/lua/choose.h"
#include "repl/lua/function.h"
#include "repl/lua/pipeline.h"
#include "repl/lua/text.h"
#include "vm/code/lower.h"
#include "vm/compile.h"
#include "vm/core/profile.h"
#include "vm/mesh/expand.h"

void ts_lua_push_graph(lua_State *L, TsGraph *g) {
  TsLuaFunction *f = lua_newuserdata(L, sizeof *f);
  *f = (TsLuaFunction){.g = g};
  luaL_getmetatable(L, TS_LUA_FUNCTION);
  lua_setmetatable(L, -2);
}

void ts_lua_push_captured(lua_State *L, TsContext *c, TsGraph *raw) {
  TsText log = {0};
  if (raw->module->recognised.at) ts_text_str(&log, raw->module->recognised.at);
  TsGraph *g = ts_compile_rewrite(c, raw, &log);
  if (!g || log.failed || raw->module->lacking || g->module->lacking) {
    if (g) ts_error_memory(&c->err);
    ts_capture_release(g);
    ts_capture_release(raw);
    ts_text_free(&log);
    ts_lua_raise(L);
  }
  ts_lua_push_graph(L, g);
  TsLuaFunction *f = lua_touserdata(L, -1);
  f->rewrites = log;
  f->raw = raw;
  f->sizes_read = c->sizes_read;
}

/* ---- functions */
TsLuaFunction *ts_lua_function_at(lua_State *L, int index) {
  TsLuaFunction *f = luaL_checkudata(L, index, TS_LUA_FUNCTION);
  if (f->whole && f->whole->ncut != f->ncut)
    ts_lua_fail(L, TS_ERR_value, "the function has other pieces now, as dist.leaves or dist.overlap are others");
  return f;
}

int ts_lua_function_ready(lua_State *L, TsLuaFunction *f) {
  TsContext *c = ts_lua_context(L);
  if (f->hot) return 0;
  TsActivity *w = ts_activity_begin_call(c, TS_ACTIVITY_capture, f->g->name);
  bool cuts = c->leaves > 1 && !f->cut && !f->code && !ts_mesh_spreads(f->g);
  if (cuts && !(f->cut = ts_mesh_leaved(c, f->g))) return ts_lua_raise(L);
  const TsGraph *g = f->cut ? f->cut : f->g;
  if (!f->code && !(f->code = ts_lower_donating(c, g, f->donated))) return ts_lua_raise(L);
  if (!f->frame && !(f->frame = ts_frame_new(c, f->code))) return ts_lua_raise(L);
  if (!f->hot && !(f->hot = ts_jit_function(c->jit, g, f->donated)))
    return luaL_error(L, "out of memory");
  ts_activity_end_call(w, NULL);
  return 0;
}

TsJitFunction *ts_lua_graph_hot(lua_State *L, int index) {
  TsLuaFunction *f = ts_lua_function_at(L, index);
  ts_lua_function_ready(L, f);
  return f->hot;
}

const TsGraph *ts_lua_graph_at(lua_State *L, int index) {
  return ts_lua_function_at(L, index)->g;
}

bool ts_lua_graph_spread(lua_State *L, int index, TsMeshRun **run) {
  TsLuaFunction *f = ts_lua_function_at(L, index);
  *run = NULL;
  if (f->whole || !ts_mesh_spreads(f->g)) return false;
  if (ts_lua_function_cut(ts_lua_context(L), f)) ts_lua_raise(L);
  *run = f->spread;
  return true;
}

void ts_lua_push_piece(lua_State *L, int index, int at) {
  TsLuaFunction *whole = ts_lua_function_at(L, index);
  TsLuaFunction f = {.whole = whole, .ncut = whole->ncut};
  f.g = ts_mesh_run_plan(whole->spread)->piece[at].g;
  f.hot = ts_mesh_run_piece(whole->spread, at, &f.code, &f.frame);
  if (!f.hot) ts_lua_raise(L);
  ts_lua_push_graph(L, NULL);
  *(TsLuaFunction *)lua_touserdata(L, -1) = f;
  lua_createtable(L, 1, 0); /* which holds the whole */
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, 1);
  lua_setfenv(L, -2);
}

/* f:marks(on): its kernels get profile marks, or run as they were; gives whether they have
 * them. */
static int marks(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  int marked = f->hot ? ts_jit_marks(f->hot, lua_toboolean(L, 2)) : 0;
  if (marked < 0) return ts_lua_raise(L);
  lua_pushboolean(L, marked > 0);
  return 1;
}

/* f:tune(): measures the candidates of its kernels and runs the best from then on. */
static int tune(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  ts_lua_function_ready(L, f);
  return ts_jit_tune(f->hot) ? ts_lua_raise(L) : 0;
}

/* f:groups() -> list of its groups, with what is chosen for their kernels and what could be */
static int groups(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  ts_lua_function_ready(L, f);
  return ts_lua_groups(L, f->hot);
}

/* f:choose(group, {rows = 64, stages = 3} or nil): the kernel of a group, made anew. */
static int choose(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  ts_lua_function_ready(L, f);
  return ts_lua_choose(L, f->hot, luaL_checkint(L, 2), 3);
}

/* f:pin(on) -> whether kernels run. */
static int pin(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  ts_lua_function_ready(L, f);
  int live = ts_jit_pin(f->hot, lua_toboolean(L, 2));
  if (live < 0) return ts_lua_raise(L);
  lua_pushboolean(L, live);
  return 1;
}

/* Levels of the code that runs, or would run. */
static void code_text(lua_State *L, TsLuaFunction *f, const char *level, const TsTarget *target,
                      TsText *t) {
  ts_lua_function_ready(L, f);
  if (ts_jit_text(f->hot, level, target, t)) {
    ts_text_free(t);
    ts_lua_raise(L);
  }
  if (strcmp(level, "bytecode") || ts_jit_live(f->hot)) return;
  ts_code_text(f->code, t);
  ts_text_str(t, "// tier 0\n");
}

/* facts(level, [target]): of "why", "tiles" and levels of kernels, as JSON */
static int facts_of(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  TsText t = {0};
  const char *what = ts_lua_word(L, 2);
  const TsTarget *target = ts_lua_target(L, 3);
  if (ts_level_check(TS_LEVEL_function, what, target, &ts_lua_context(L)->err))
    return ts_lua_raise(L);
  ts_lua_function_ready(L, f);
  if (ts_jit_facts(f->hot, what, target, &t)) {
    ts_text_free(&t);
    return ts_lua_raise(L);
  }
  ts_lua_push_text(L, &t);
  return 1;
}

/* text(level, [target]): a target is for levels of code */
static int text_of(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  TsText t = {0};
  const char *what = ts_lua_word_or(L, 2, "graph");
  const TsTarget *target = ts_lua_target(L, 3);
  if (ts_level_check(TS_LEVEL_function, what, target, &ts_lua_context(L)->err))
    return ts_lua_raise(L);
  if (!strcmp(what, "rewrites")) {
    ts_text_str(&t, f->rewrites.at ? f->rewrites.at : "");
  } else if (!strcmp(what, "dot")) {
    ts_graph_dot(f->g, &t);
  } else if (!strcmp(what, "json")) {
    ts_graph_json(f->g, &t);
  } else if (!strcmp(what, "places")) {
    ts_graph_text_places(f->g, &t);
  } else if (!strcmp(what, "captured")) {
    ts_graph_text(f->raw ? f->raw : f->g, &t);
  } else if (!strcmp(what, "graph")) {
    ts_graph_text(f->g, &t);
  } else {
    code_text(L, f, what, target, &t);
  }
  ts_lua_push_text(L, &t);
  return 1;
}

/* f:stats() -> {nodes, instructions, slab, bound, sum} */
static int stats(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  ts_lua_function_ready(L, f);
  const struct {
    const char *name;
    double v;
  } row[] = {{"nodes", f->g->nnode},
             {"instructions", f->code->ninstr},
             {"slab", (double)f->code->slab_nbytes},
             {"bound", (double)f->code->bound_nbytes},
             {"sum", (double)f->code->sum_nbytes},
             {"registers", f->code->nreg}};
  lua_newtable(L);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    lua_pushnumber(L, row[i].v);
    lua_setfield(L, -2, row[i].name);
  }
  return 1;
}

/* f:captured() -> the tensors that it captured, in order. */
static int captured(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  int n = 0;
  lua_newtable(L);
  for (int i = 0; i < f->g->nparam; i++) {
    TsTensor *t = f->g->bound[i];
    if (!t || t == TS_GRAPH_UNBOUND) continue;
    ts_lua_push(L, ts_tensor_ref(t));
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static int collect(lua_State *L) {
  TsLuaFunction *f = luaL_checkudata(L, 1, TS_LUA_FUNCTION);
  if (f->whole) return 0;
  ts_jit_function_free(f->hot);
  if (f->loose_frame) ts_frame_free(f->loose_frame);
  if (f->loose_code) ts_code_free(f->loose_code);
  if (f->loose) ts_graph_free(f->loose);
  ts_mesh_run_free(f->spread);
  free(f->how);
  ts_frame_free(f->frame);
  ts_code_free(f->code);
  for (int u = 0; f->moves && u < f->g->nupdate; u++) free(f->moves[u]);
  free(f->moves);
  ts_capture_release(f->cut);
  ts_capture_release(f->g);
  ts_capture_release(f->raw);
  ts_text_free(&f->rewrites);
  free(f->donated);
  memset(f, 0, sizeof *f);
  return 0;
}

/* graph_load(text, {values of B, T, N, M}) -> function, {types of its parameters}, name; or nil
 * and what is wrong. Captured parameters are ordinary ones. */
static int graph_load(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  TsError *e = &c->err;
  int64_t symbol[TS_SYMBOLS] = {0};
  for (int i = 0; i < TS_SYMBOLS && lua_istable(L, 2); i++) {
    char name[2] = {ts_size_symbol[i], 0};
    lua_getfield(L, 2, name);
    bool given = !lua_isnil(L, -1); /* 0: there is none */
    if (given && !(lua_isnumber(L, -1) && ts_lua_whole(lua_tonumber(L, -1), &symbol[i]) &&
                   symbol[i] >= 0))
      ts_lua_fail(L, TS_ERR_value, "graph.load: the size %s is a whole number from 1 on", name);
    lua_pop(L, 1);
  }
  TsGraph *g = ts_lua_text_whole(text, len, e) ? NULL : ts_graph_parse_at(text, symbol, e);
  if (!g || ts_graph_check(g, e)) {
    ts_graph_free(g);
    lua_pushnil(L);
    lua_pushfstring(L, *e->hint ? "%s\n  hint: %s" : "%s", e->message, e->hint);
    ts_error_clear(e);
    return 2;
  }
  for (int i = 0; i < g->nparam; i++) g->bound[i] = NULL;
  ts_lua_push_captured(L, c, g);
  lua_createtable(L, g->nparam, 0);
  for (int i = 0; i < g->nparam; i++) {
    char type[TS_META_TEXT];
    lua_pushstring(L, ts_meta_text(&g->param[i]->meta, type));
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushstring(L, g->name);
  return 3;
}

/* f:donate(n): result tensors may take over the bytes of argument n (from 1, as flattened). */
static int donate(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  int n = (int)luaL_checkinteger(L, 2), at = 0;
  if (!f->donated) f->donated = calloc((size_t)f->g->nparam + 1, sizeof *f->donated);
  if (!f->donated) return luaL_error(L, "out of memory");
  for (int i = 0; i < f->g->nparam; i++)
    if (!f->g->bound[i] && ++at == n) f->donated[i] = true;
  return 0;
}

/* f:reads_sizes() -> whether its Lua code asked for sizes; f:same(other) before rewriting */
static int reads_sizes(lua_State *L) {
  lua_pushboolean(L, ts_lua_function_at(L, 1)->sizes_read);
  return 1;
}

static int same(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1), *other = luaL_checkudata(L, 2, TS_LUA_FUNCTION);
  lua_pushboolean(L, f->raw && other->raw && ts_graph_equal(f->raw, other->raw, NULL));
  return 1;
}

/* f:how(table): it runs on a mesh as ts_lua_how says from now on. */
static int how(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  TsMeshHow *given = ts_lua_how(L, 2);
  free(f->how);
  f->spread_leaves = 0, f->how = given;
  return 0;
}

/* f:chunks(table, {tensor...}): see ts_lua_push_chunks. */
static int chunks(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  return ts_lua_push_chunks(L, ts_lua_context(L), f->g, 2, 3);
}

static const luaL_Reg methods[] = {{"groups", groups},
                                   {"how", how},
                                   {"chunks", chunks},
                                   {"choose", choose},
                                   {"tune", tune},
                                   {"pin", pin},
                                   {"marks", marks},
                                   {"text", text_of},
                                   {"facts", facts_of},
                                   {"stats", stats},
                                   {"captured", captured},
                                   {"donate", donate},
                                   {"reads_sizes", reads_sizes},
                                   {"same", same},
                                   {"__gc", collect},
                                   {NULL, NULL}};

static const luaL_Reg functions[] = {{"graph_load", graph_load}, {NULL, NULL}};

void ts_lua_open_graph(lua_State *L) {
  ts_lua_metatable(L, TS_LUA_FUNCTION, methods);
  luaL_getmetatable(L, TS_LUA_FUNCTION);
  luaL_register(L, NULL, ts_lua_run_methods);
  luaL_register(L, NULL, ts_lua_patch_methods);
  luaL_register(L, NULL, ts_lua_pieces_methods);
  lua_pop(L, 1);
  luaL_register(L, NULL, functions);
  ts_lua_open_symbolic(L);
  ts_lua_open_capture(L);
  ts_lua_open_region(L);
  ts_lua_open_tape(L);
  ts_lua_open_patch(L);
}
