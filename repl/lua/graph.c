/* Captured functions in Lua: their runs, texts, symbolic sizes. What lib/lua/graph.lua stands
 * on, with repl/lua/capture.c and repl/lua/tape.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "ir/graph/export.h"
#include "ir/graph/symbolic.h"
#include "ir/mesh/outline.h"
#include "jit/jit.h"
#include "jit/level.h"
#include "jit/mesh/run.h"
#include "lib/mesh.h"
#include "lib/text.h"
#include "repl/lua/choose.h"
#include "repl/lua/graph.h"
#include "repl/lua/pipeline.h"
#include "vm/compile.h"
#include "vm/core/defer.h"
#include "vm/code/lower.h"
#include "vm/mesh/expand.h"
#include "vm/core/overlap.h"
#include "vm/core/profile.h"
#include "vm/core/tape.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/planned.h"
#include "vm/write.h"

static const char *const TYPE = "tessera.graph";

/* A captured function: its graph, and its code when it ran. */
typedef struct Function {
  TsGraph *g;
  TsGraph *raw; /* before rewriting: what is generalised */
  bool sizes_read;
  bool *donated;         /* by parameter, or NULL */
  unsigned char **moves; /* by update: see ts_graph_moves; NULL until somebody asks */
  TsText rewrites;       /* a line for each rule that fired */
  TsCode *code;
  TsFrame *frame;
  TsJitFunction *hot;
  TsGraph *cut;           /* g with sums over declared leaves, which is what runs; or NULL */
  TsMeshRun *spread;      /* its pieces, once it was called on a mesh, or NULL; */
  int spread_leaves;      /* with so many leaves: whether that was tried; */
  int ncut;               /* how often */
  TsGraph *loose; /* where it has loops: with functions of what stands between them; or NULL */
  TsCode *loose_code;
  TsFrame *loose_frame;
  TsMeshHow *how;         /* in micro-batches, in a pipeline, or NULL */
  struct Function *whole; /* of a piece of it: all but its number is the run's; else NULL */
} Function;

void ts_lua_push_graph(lua_State *L, TsGraph *g) {
  Function *f = lua_newuserdata(L, sizeof *f);
  *f = (Function){.g = g};
  luaL_getmetatable(L, TYPE);
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
  Function *f = lua_touserdata(L, -1);
  f->rewrites = log;
  f->raw = raw;
  f->sizes_read = c->sizes_read;
}

/* ---- functions */
static Function *function_at(lua_State *L, int index) {
  Function *f = luaL_checkudata(L, index, TYPE);
  if (f->whole && f->whole->ncut != f->ncut)
    ts_lua_fail(L, TS_ERR_value, "the function has other pieces now, as leaves are others");
  return f;
}

static Function *check(lua_State *L) { return function_at(L, 1); }

static int ready(lua_State *L, Function *f) {
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
  Function *f = function_at(L, index);
  ready(L, f);
  return f->hot;
}

/* A part of an argument that is written is a new value of the whole, which fits nowhere where elements
 * overlap. */
static void check_update(lua_State *L, const TsTensor *t) {
  TsContext *c = ts_lua_context(L);
  char type[TS_META_TEXT];
  int overlap = t->contiguous ? 0 : ts_overlap_itself(c, t);
  if (overlap > 0) {
    ts_error_set(
        &c->err, TS_ERR_value,
        "elements of the destination overlap: an argument, a view %s, is changed in place, "
        "which cannot be captured",
        ts_meta_text(&t->meta, type));
    ts_error_hint(&c->err, "give the function a copy: x:clone()");
  }
  if (overlap || ts_write_check(c, t)) ts_lua_raise(L);
}

/* What is changed in place must not be seen through another parameter: the code reads
 * each where it stands. Captured tensors were compared when they were captured. Parts of one
 * tensor that have no element in common are as good as two tensors. */
static int check_apart(lua_State *L, const Function *f, TsTensor *const *all, int narg,
                       TsTensor *const *arg) {
  for (int u = 0; u < f->g->nupdate; u++) {
    int p = f->g->update[u].param, seen = 0;
    bool bound = f->code->bound[p] != NULL;
    for (int i = 0; i < (bound ? narg : f->code->nparam); i++) {
      const TsTensor *t = bound ? arg[i] : all[i];
      if (t->storage == all[p]->storage)
        seen += (i == p && !bound) || ts_tensors_overlap(t, all[p]);
    }
    if (seen > !bound)
      return ts_lua_fail(
          L, TS_ERR_value,
          "%s: two arguments share elements, and one of them is changed in place", f->g->name);
  }
  return 0;
}

/* ---- runs on the tape */
typedef struct Taped {
  TsRecord *call, **update; /* by update: NULL where nothing with gradients is written */
} Taped;

/* Whether what update u gives, or replaces, has gradients. */
static int update_asks(Function *f, int u, TsTensor *const *all) {
  const TsGraph *g = f->g;
  if (ts_tape_asks(all[g->update[u].param])) return 1;
  if (!f->moves && !(f->moves = calloc((size_t)g->nupdate, sizeof *f->moves))) return -1;
  if (!f->moves[u] && !(f->moves[u] = ts_graph_moves(g, g->update[u].value))) return -1;
  for (int i = 0; i < g->nparam; i++)
    if (f->moves[u][i] && ts_tape_asks(all[i])) return 1;
  return 0;
}

static int refuse_update(TsContext *c, const Function *f) {
  ts_error_set(&c->err, TS_ERR_value, "%s changes a tensor that requires gradients in place",
               f->g->name);
  return ts_error_hint(&c->err, "use graph.training_step, or call it by tessera.no_grad");
}

static void drop_taped(const Function *f, Taped *t) {
  for (int u = 0; t->update && u < f->g->nupdate; u++) ts_record_free(t->update[u]);
  free(t->update);
  ts_record_free(t->call);
}

/* What the run reads, and what its updates replace. */
static int begin_taped(TsContext *c, Function *f, TsTensor *const *all, Taped *t) {
  /* Strict: the gradients of what the program wrote, as captured ones are. */
  TsGraph *g = f->raw && c->profile == TS_PROFILE_strict ? f->raw : f->g;
  int failed = 0;
  *t = (Taped){NULL, calloc((size_t)f->g->nupdate + 1, sizeof *t->update)};
  if (!t->update) failed = ts_error_set(&c->err, TS_ERR_memory, "out of memory");
  for (int u = 0; u < f->g->nupdate && !failed; u++) {
    TsTensor *x = all[f->g->update[u].param];
    int asks = update_asks(f, u, all);
    if (x->storage->leaf) failed = refuse_update(c, f);
    if (asks < 0) failed = ts_error_set(&c->err, TS_ERR_memory, "out of memory");
    if (asks && !failed) failed = !(t->update[u] = ts_tape_begin_write(c, x));
  }
  if (!failed) failed = !(t->call = ts_tape_begin_function(c, g, all));
  if (failed) drop_taped(f, t);
  return failed;
}

static int end_taped(TsContext *c, Taped *t, TsTensor *const *all, TsTensor *const *results) {
  int failed = ts_tape_end_function(c, t->call, all, results, t->update);
  free(t->update);
  return failed;
}

/* Whoever has kept values of what is changed can tell. */
static void note_updates(const Function *f, TsTensor *const *all) {
  for (int u = 0; u < f->g->nupdate; u++) all[f->g->update[u].param]->storage->version++;
}

/* Cuts it into pieces, with the leaves that are declared, if that is possible; -1 with the error. */
static int cut(TsContext *c, Function *f) {
  if (f->spread_leaves && f->spread_leaves == 1 + c->leaves) return 0;
  ts_mesh_run_free(f->spread);
  f->spread = NULL, f->spread_leaves = 0, f->ncut++;
  if (!(f->spread = ts_mesh_run_new(c, f->g, f->how)) && c->err.code) return -1;
  f->spread_leaves = 1 + c->leaves;
  return 0;
}

const TsGraph *ts_lua_graph_at(lua_State *L, int index) { return function_at(L, index)->g; }

bool ts_lua_graph_spread(lua_State *L, int index, TsMeshRun **run) {
  Function *f = function_at(L, index);
  *run = NULL;
  if (f->whole || !ts_mesh_spreads(f->g)) return false;
  if (cut(ts_lua_context(L), f)) ts_lua_raise(L);
  *run = f->spread;
  return true;
}

void ts_lua_push_piece(lua_State *L, int index, int at) {
  Function *whole = function_at(L, index);
  Function f = {.whole = whole, .ncut = whole->ncut};
  f.g = ts_mesh_run_plan(whole->spread)->piece[at].g;
  f.hot = ts_mesh_run_piece(whole->spread, at, &f.code, &f.frame);
  if (!f.hot) ts_lua_raise(L);
  ts_lua_push_graph(L, NULL);
  *(Function *)lua_touserdata(L, -1) = f;
  lua_createtable(L, 1, 0); /* which holds the whole */
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, 1);
  lua_setfenv(L, -2);
}

/* What stands between its loops runs in pieces, as the loops' functions do. */
static int loosen(TsContext *c, Function *f) {
  if (!f->loose && !(f->loose = ts_mesh_outline(f->g, &c->err))) return -1;
  if (!f->loose_code && !(f->loose_code = ts_lower(c, f->loose))) return -1;
  if (!f->loose_frame && !(f->loose_frame = ts_frame_new(c, f->loose_code))) return -1;
  return 0;
}

/* On a mesh: piece by piece, or where it cannot be cut into pieces call by call. */
static int run_spread(TsContext *c, Function *f, TsTensor *const *all, TsTensor **results) {
  if (cut(c, f)) return -1;
  if (!c->planning && ts_mesh_plans(c, f->code->nparam, all))
    return ts_frame_run(f->frame, all, results);
  if (f->spread)
    return c->planning ? ts_mesh_run_tell(f->spread, all)
                       : ts_mesh_run(f->spread, all, results);
  return loosen(c, f) ? -1 : ts_frame_run(f->loose_frame, all, results);
}

/* The tensors of all parameters: those that the list at 2 gives, and the captured ones. Behind them
 * is room for the results. The arguments are in args, *nargs of them. */
static TsTensor **take_arguments(lua_State *L, const Function *f, TsTensor ***args,
                                 int *nargs) {
  const TsCode *code = f->code;
  int n = ts_lua_list(L, 2, NULL, args), k = 0;
  if (ts_defer_force_all(n, *args)) ts_lua_raise(L);
  TsTensor **all = lua_newuserdata(L, sizeof *all * (size_t)(code->nparam + code->nresult + 1));
  for (int i = 0; i < code->nparam; i++) {
    all[i] = code->bound[i];
    if (all[i]) continue;
    if (k == n || !(*args)[k])
      ts_lua_fail(L, TS_ERR_argument, "run: argument %d is missing", k + 1);
    const TsMeta *want = &code->reg[i].meta, *have = &(*args)[k]->meta;
    char a[TS_META_TEXT], b[TS_META_TEXT];
    if (want->dtype != have->dtype || !ts_meta_same_shape(want, have))
      ts_lua_fail(L, TS_ERR_argument, "run: argument %d is %s, not %s", k + 1,
                  ts_meta_text(have, a), ts_meta_text(want, b));
    all[i] = (*args)[k++];
  }
  *nargs = k;
  return all;
}

/* f:collectives({arguments}): what devices of meshes would send each other in a run on these: it
 * is planned, and computes and changes nothing of what lies on them. Gives whether f runs on a
 * mesh. */
static int collectives(lua_State *L) {
  Function *f = check(L);
  TsTensor **args;
  ready(L, f);
  int k;
  TsTensor **all = take_arguments(L, f, &args, &k), **results = all + f->code->nparam;
  TsContext *c = ts_lua_context(L);
  int device = ts_frame_place(c, f->code, all);
  if (device < 0) return ts_lua_raise(L);
  lua_pushboolean(L, device == TS_DEVICE_MESH);
  if (device != TS_DEVICE_MESH) return 1;
  uint64_t stream = c->stream, commits = c->commits;
  bool before = c->planning;
  c->where_arg = L;
  c->planning = true;
  ts_collective_plan_begin();
  memset(results, 0, sizeof *results * (size_t)f->code->nresult);
  int failed = run_spread(c, f, all, results);
  c->planning = before;
  c->stream = stream, c->commits = commits;
  if (failed) return ts_lua_raise(L);
  for (int i = 0; i < f->code->nresult; i++) ts_tensor_unref(results[i]);
  return 1;
}

/* f:run({arguments}) -> results; the arguments are the parameters that are not captured. */
static int run(lua_State *L) {
  Function *f = check(L);
  TsTensor **args;
  ready(L, f);
  const TsCode *code = f->code;
  int k;
  TsTensor **all = take_arguments(L, f, &args, &k), **results = all + code->nparam;
  TsContext *c = ts_lua_context(L);
  Taped taped = {NULL, NULL};
  bool record = ts_tape_wants(c, code->nparam, all);
  check_apart(L, f, all, k, args);
  for (int u = 0; u < f->g->nupdate; u++) check_update(L, all[f->g->update[u].param]);
  int device = ts_frame_place(c, code, all);
  if (device < 0 || (record && begin_taped(c, f, all, &taped))) return ts_lua_raise(L);
  c->where_arg = L;
  TsActivity *w = ts_activity_begin_call(c, TS_ACTIVITY_function, f->g->name);
  bool spread = device == TS_DEVICE_MESH;
  TsFrame *frame = spread ? f->frame : ts_jit_enter(f->hot, f->frame, device);
  int failed = spread ? run_spread(c, f, all, results) : ts_frame_run(frame, all, results);
  if (!spread) ts_jit_leave(f->hot, frame, device, failed);
  ts_activity_end_call(w, NULL);
  if (!failed) note_updates(f, all);
  if (failed && record) drop_taped(f, &taped);
  if (failed) return ts_lua_raise(L);
  if (record && end_taped(c, &taped, all, results)) {
    for (int i = 0; i < code->nresult; i++) ts_tensor_unref(results[i]);
    return ts_lua_raise(L);
  }
  luaL_checkstack(L, code->nresult + 4, "results");
  for (int i = 0; i < code->nresult; i++) ts_lua_push(L, results[i]);
  return code->nresult;
}

/* f:marks(on): its kernels get profile marks, or run as they were; gives whether they have
 * them. */
static int marks(lua_State *L) {
  Function *f = check(L);
  int marked = f->hot ? ts_jit_marks(f->hot, lua_toboolean(L, 2)) : 0;
  if (marked < 0) return ts_lua_raise(L);
  lua_pushboolean(L, marked > 0);
  return 1;
}

/* f:tune(): measures the candidates of its kernels and runs the best from then on. */
static int tune(lua_State *L) {
  Function *f = check(L);
  ready(L, f);
  return ts_jit_tune(f->hot) ? ts_lua_raise(L) : 0;
}

/* f:groups() -> list of its groups, with what is chosen for their kernels and what could be */
static int groups(lua_State *L) {
  Function *f = check(L);
  ready(L, f);
  return ts_lua_groups(L, f->hot);
}

/* f:choose(group, "rows 64 stages 3" or nil): the kernel of a group, made anew. */
static int choose(lua_State *L) {
  Function *f = check(L);
  ready(L, f);
  return ts_lua_choose(L, f->hot, luaL_checkint(L, 2), 3);
}

/* f:pin(on) -> whether kernels run. */
static int pin(lua_State *L) {
  Function *f = check(L);
  ready(L, f);
  int live = ts_jit_pin(f->hot, lua_toboolean(L, 2));
  if (live < 0) return ts_lua_raise(L);
  lua_pushboolean(L, live);
  return 1;
}

/* Levels of the code that runs, or would run. */
static void code_text(lua_State *L, Function *f, const char *level, const TsTarget *target,
                      TsText *t) {
  ready(L, f);
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
  Function *f = check(L);
  TsText t = {0};
  const char *what = ts_lua_word(L, 2);
  const TsTarget *target = ts_lua_target(L, 3);
  if (ts_level_check(TS_LEVEL_function, what, target, &ts_lua_context(L)->err))
    return ts_lua_raise(L);
  ready(L, f);
  if (ts_jit_facts(f->hot, what, target, &t)) {
    ts_text_free(&t);
    return ts_lua_raise(L);
  }
  ts_lua_push_text(L, &t);
  return 1;
}

/* text(level, [target]): a target is for levels of code */
static int text_of(lua_State *L) {
  Function *f = check(L);
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
  Function *f = check(L);
  ready(L, f);
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
  Function *f = check(L);
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
  Function *f = luaL_checkudata(L, 1, TYPE);
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
  TsGraph *g = strlen(text) == len ? ts_graph_parse_at(text, symbol, e) : NULL;
  if (!g || ts_graph_check(g, e)) {
    ts_graph_free(g);
    lua_pushnil(L);
    lua_pushfstring(L, *e->hint ? "%s%s\n  hint: %s" : "%s%s",
                    strlen(text) == len ? "" : "a zero byte", e->message, e->hint);
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
  Function *f = check(L);
  int n = (int)luaL_checkinteger(L, 2), at = 0;
  if (!f->donated) f->donated = calloc((size_t)f->g->nparam + 1, sizeof *f->donated);
  if (!f->donated) return luaL_error(L, "out of memory");
  for (int i = 0; i < f->g->nparam; i++)
    if (!f->g->bound[i] && ++at == n) f->donated[i] = true;
  return 0;
}

/* f:reads_sizes() -> whether its Lua code asked for sizes; f:same(other) before rewriting */
static int reads_sizes(lua_State *L) {
  lua_pushboolean(L, check(L)->sizes_read);
  return 1;
}

static int same(lua_State *L) {
  Function *f = check(L), *other = luaL_checkudata(L, 2, TYPE);
  lua_pushboolean(L, f->raw && other->raw && ts_graph_equal(f->raw, other->raw, NULL));
  return 1;
}

/* ---- graphs with symbolic sizes */
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
  Function *a = check(L), *b = luaL_checkudata(L, 2, TYPE);
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

/* f:how(table): it runs on a mesh as ts_lua_how says from now on. */
static int how(lua_State *L) {
  Function *f = check(L);
  TsMeshHow *given = ts_lua_how(L, 2);
  free(f->how);
  f->spread_leaves = 0, f->how = given;
  return 0;
}

/* f:chunks(table, {tensor...}): see ts_lua_push_chunks. */
static int chunks(lua_State *L) {
  Function *f = check(L);
  return ts_lua_push_chunks(L, ts_lua_context(L), f->g, 2, 3);
}

static const luaL_Reg methods[] = {{"groups", groups},
                                   {"how", how},
                                   {"chunks", chunks},
                                   {"collectives", collectives},
                                   {"choose", choose},
                                   {"tune", tune},
                                   {"pin", pin},
                                   {"marks", marks},
                                   {"run", run},
                                   {"text", text_of},
                                   {"facts", facts_of},
                                   {"stats", stats},
                                   {"captured", captured},
                                   {"donate", donate},
                                   {"reads_sizes", reads_sizes},
                                   {"same", same},
                                   {"__gc", collect},
                                   {NULL, NULL}};
static const luaL_Reg symbolic_methods[] = {{"solve", solve},
                                            {"at", at},
                                            {"text", symbolic_text},
                                            {"__gc", collect_symbolic},
                                            {NULL, NULL}};

static const luaL_Reg functions[] = {
    {"generalise", generalise}, {"graph_load", graph_load}, {NULL, NULL}};

void ts_lua_open_graph(lua_State *L) {
  ts_lua_metatable(L, TYPE, methods);
  luaL_getmetatable(L, TYPE);
  luaL_register(L, NULL, ts_lua_patch_methods);
  luaL_register(L, NULL, ts_lua_pieces_methods);
  lua_pop(L, 1);
  ts_lua_metatable(L, SYMBOLIC, symbolic_methods);
  luaL_register(L, NULL, functions);
  ts_lua_open_capture(L);
  ts_lua_open_region(L);
  ts_lua_open_tape(L);
  ts_lua_open_patch(L);
}
