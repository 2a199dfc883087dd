/* Runs of captured functions: what is asked of their arguments, the tape, meshes. */
#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "ir/mesh/outline.h"
#include "repl/lua/function.h"
#include "vm/code/lower.h"
#include "vm/core/defer.h"
#include "vm/core/overlap.h"
#include "vm/core/profile.h"
#include "vm/core/tape.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/planned.h"
#include "vm/write.h"

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
static int check_apart(lua_State *L, const TsLuaFunction *f, TsTensor *const *all, int narg,
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
static int update_asks(TsLuaFunction *f, int u, TsTensor *const *all) {
  const TsGraph *g = f->g;
  if (ts_tape_asks(all[g->update[u].param])) return 1;
  if (!f->moves && !(f->moves = calloc((size_t)g->nupdate, sizeof *f->moves))) return -1;
  if (!f->moves[u] && !(f->moves[u] = ts_graph_moves(g, g->update[u].value))) return -1;
  for (int i = 0; i < g->nparam; i++)
    if (f->moves[u][i] && ts_tape_asks(all[i])) return 1;
  return 0;
}

static int refuse_update(TsContext *c, const TsLuaFunction *f) {
  ts_error_set(&c->err, TS_ERR_value, "%s changes a tensor that requires gradients in place",
               f->g->name);
  return ts_error_hint(&c->err, "use graph.training_step, or call it by tessera.no_grad");
}

static void drop_taped(const TsLuaFunction *f, Taped *t) {
  for (int u = 0; t->update && u < f->g->nupdate; u++) ts_record_free(t->update[u]);
  free(t->update);
  ts_record_free(t->call);
}

/* What the run reads, and what its updates replace. */
static int begin_taped(TsContext *c, TsLuaFunction *f, TsTensor *const *all, Taped *t) {
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
static void note_updates(const TsLuaFunction *f, TsTensor *const *all) {
  for (int u = 0; u < f->g->nupdate; u++) all[f->g->update[u].param]->storage->version++;
}

/* ---- runs */
int ts_lua_function_cut(TsContext *c, TsLuaFunction *f) {
  if (f->spread_leaves && f->spread_leaves == 1 + c->leaves &&
      f->spread_overlap == c->overlap_said)
    return 0;
  ts_mesh_run_free(f->spread);
  f->spread = NULL, f->spread_leaves = 0, f->ncut++;
  if (!(f->spread = ts_mesh_run_new(c, f->g, f->how)) && c->err.code) return -1;
  f->spread_leaves = 1 + c->leaves, f->spread_overlap = c->overlap_said;
  return 0;
}

/* What stands between its loops runs in pieces, as the loops' functions do. */
static int loosen(TsContext *c, TsLuaFunction *f) {
  if (!f->loose && !(f->loose = ts_mesh_outline(f->g, &c->err))) return -1;
  if (!f->loose_code && !(f->loose_code = ts_lower(c, f->loose))) return -1;
  if (!f->loose_frame && !(f->loose_frame = ts_frame_new(c, f->loose_code))) return -1;
  return 0;
}

/* On a mesh: piece by piece, or where it cannot be cut into pieces, round by round. */
static int run_spread(TsContext *c, TsLuaFunction *f, TsTensor *const *all,
                      TsTensor **results) {
  if (ts_lua_function_cut(c, f)) return -1;
  if (!c->planning && ts_mesh_plans(c, f->code->nparam, all))
    return ts_frame_run(f->frame, all, results);
  if (f->spread)
    return c->planning ? ts_mesh_run_tell(f->spread, all)
                       : ts_mesh_run(f->spread, all, results);
  return loosen(c, f) ? -1 : ts_frame_run(f->loose_frame, all, results);
}

/* The tensors of all parameters: those that the list at 2 gives, and the captured ones. Behind them
 * is room for the results. The arguments are in args, *nargs of them. */
static TsTensor **take_arguments(lua_State *L, const TsLuaFunction *f, TsTensor ***args,
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
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  TsTensor **args;
  ts_lua_function_ready(L, f);
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

/* A run that failed and has changed nothing can be done again, with the draws that it would have had. */
static int fail_run(lua_State *L, uint64_t stream, uint64_t commits) {
  TsContext *c = ts_lua_context(L);
  if (c->commits == commits) c->stream = stream;
  return ts_lua_raise(L);
}

/* f:run({arguments}) -> results; the arguments are the parameters that are not captured. */
static int run(lua_State *L) {
  TsLuaFunction *f = ts_lua_function_at(L, 1);
  TsTensor **args;
  ts_lua_function_ready(L, f);
  const TsCode *code = f->code;
  int k;
  TsTensor **all = take_arguments(L, f, &args, &k), **results = all + code->nparam;
  TsContext *c = ts_lua_context(L);
  Taped taped = {NULL, NULL};
  uint64_t stream = c->stream, commits = c->commits;
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
  if (failed) return fail_run(L, stream, commits);
  if (record && end_taped(c, &taped, all, results)) {
    for (int i = 0; i < code->nresult; i++) ts_tensor_unref(results[i]);
    return fail_run(L, stream, commits);
  }
  luaL_checkstack(L, code->nresult + 4, "results");
  for (int i = 0; i < code->nresult; i++) ts_lua_push(L, results[i]);
  return code->nresult;
}

const luaL_Reg ts_lua_run_methods[] = {
    {"run", run}, {"collectives", collectives}, {NULL, NULL}};
