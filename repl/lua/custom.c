/* Functions from outside as operators in Lua: Lua functions, C functions (repl/lua/foreign.c) and
 * kernels of Tile IR (repl/lua/kernel.c). lib/lua/foreign.lua and kernel.lua stand on it.
 *
 * An operator's call has a TsCustom of its own, which knows the Lua functions of that call
 * (with the arguments that are no tensors) by a reference into the registry. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph/control.h"
#include "ir/adjoint/adjoint.h"
#include "ir/graph/custom.h"
#include "jit/user/kernel.h"
#include "repl/lua/graph.h"
#include "lib/clock.h"
#include "vm/core/capture.h"
#include "vm/core/profile.h"
#include "vm/code/control.h"
#include "vm/core/defer.h"
#include "vm/foreign.h"
#include "vm/core/tape.h"
#include "vm/core/region.h"

static const char CUSTOM[] = "tessera.custom", OUTSIDE[] = "a function from outside";

enum { MOST_RESULTS = 64 };

typedef struct Custom {
  TsCustom base;
  int functions;        /* registry: {forward = f, adjoint = f} */
  TsForeign *foreign;   /* instead of forward */
  TsUserKernel *kernel; /* likewise, with the sizes that the call gives */
  int64_t size[TS_TILE_DIMS];
  bool eager; /* it runs once, on the program's own tensors */
  double option[TS_FOREIGN_PARAMS];
  char name[];
} Custom;

/* ---- the state in which functions run: that of the entry into C that is open. Released
 * references wait for the next call, since the collector may run anywhere. */
static lua_State *state_of(TsContext *c) { return c->where_arg; }

static struct {
  int *ref;
  int n, cap;
} released;

static void release(TsCustom *base) {
  Custom *f = (Custom *)base;
  ts_foreign_unref(f->foreign);
  ts_user_kernel_unref(f->kernel);
  if (released.n == released.cap) {
    int cap = released.cap ? released.cap * 2 : 64;
    int *more = realloc(released.ref, sizeof *more * (size_t)cap);
    if (more) released.ref = more, released.cap = cap;
  }
  if (released.n < released.cap) released.ref[released.n++] = f->functions; /* or it stays */
  free(f);
}

static void clear_released(lua_State *L) {
  while (released.n) luaL_unref(L, LUA_REGISTRYINDEX, released.ref[--released.n]);
}

/* The Lua error on the stack as the context's, its hint apart. */
static int take_error(lua_State *L, TsContext *c, const char *name) {
  const char *text = lua_tostring(L, -1);
  const char *hint = text ? strstr(text, "\n  hint: ") : NULL;
  char message[400];
  snprintf(message, sizeof message, "%.*s", hint ? (int)(hint - text) : 390,
           text ? text : "an error that is no text");
  ts_error_set(&c->err, TS_ERR_value, "%s: %s", name, message);
  if (hint) ts_error_hint(&c->err, "%.200s", hint + 9);
  lua_pop(L, 1);
  return -1;
}

/* Calls `body` with `arg` protected, outside of what is captured and recorded. */
static int call_protected(TsContext *c, const char *name, lua_CFunction body, void *arg) {
  lua_State *L = state_of(c);
  int no_grad = c->no_grad;
  uint8_t autocast = c->autocast;
  c->autocast = 0; /* captured, it runs when nobody asks for casts any more */
  if (!lua_checkstack(L, 40))
    return ts_error_set(&c->err, TS_ERR_memory, "%s: too many calls inside each other", name);
  lua_pushcfunction(L, body);
  lua_pushlightuserdata(L, arg);
  int status = lua_pcall(L, 1, 0, 0);
  c->where_arg = L;
  c->no_grad = no_grad;
  c->autocast = autocast;
  return status ? take_error(L, c, name) : 0;
}

static void push_tensors(lua_State *L, int n, TsTensor *const *t) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    ts_lua_push(L, ts_tensor_ref(t[i]));
    lua_rawseti(L, -2, i + 1);
  }
}

/* ---- forward in Lua */
/* A result that others have too, as when the function returns what it was given: an operator's
 * results are tensors of their own. mark: tensors before it are older than the call. */
static bool is_others(const TsTensor *t, uint64_t mark, int n, TsTensor *const *before) {
  if (t->id < mark || t->storage->refs > 1 || ts_tape_asks(t) || t->origin) return true;
  for (int i = 0; i < n; i++)
    if (before[i] == t) return true;
  return false;
}

typedef struct Forward {
  Custom *f;
  uint64_t mark;
  int nin, nout;
  TsTensor *const *in;
  TsTensor **out;
} Forward;

static int forward_body(lua_State *L) {
  Forward *k = lua_touserdata(L, 1);
  TsContext *c = ts_lua_context(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, k->f->functions);
  lua_getfield(L, -1, "forward");
  push_tensors(L, k->nin, k->in);
  lua_call(L, 1, 1);
  int n = lua_istable(L, -1) ? (int)lua_objlen(L, -1) : 0;
  if (n != k->nout)
    return luaL_error(L, "the function returns %d tensors, not %d as it was inferred", n,
                      k->nout);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    TsTensor *t = ts_lua_check_tensor(L, -1, k->f->name);
    if (ts_defer_force(t)) return ts_lua_raise(L);
    bool copy = !t->contiguous || is_others(t, k->mark, i, k->out);
    k->out[i] = copy ? ts_tensor_copy(c, t) : ts_tensor_ref(t);
    lua_pop(L, 1);
    if (!k->out[i]) return ts_lua_raise(L);
  }
  return 0;
}

/* A frame's tensors end with its run, and Lua may keep what it gets: it gets copies. */
static int copy_inputs(TsContext *c, bool eager, int n, TsTensor *const *in, TsTensor **own) {
  int failed = 0;
  for (int i = 0; i < n; i++) {
    own[i] = failed ? NULL : eager ? ts_tensor_ref(in[i]) : ts_tensor_copy(c, in[i]);
    failed |= !own[i];
  }
  return failed;
}

static int run_lua(TsCustom *base, TsContext *c, int nin, TsTensor *const *in, int nout,
                   const TsMeta *const *type, TsTensor **out) {
  TsTensor **own = calloc((size_t)nin + 1, sizeof *own);
  TsCapture *capture = c->capture;
  (void)type;
  if (!own) return ts_error_memory(&c->err);
  c->capture = NULL;
  c->no_grad++;
  for (int i = 0; i < nout; i++) out[i] = NULL;
  Forward k = {(Custom *)base, c->next_id, nin, nout, own, out};
  int failed = copy_inputs(c, ((Custom *)base)->eager, nin, in, own);
  TsRegion *r = failed ? NULL : ts_region_enter_foreign(c, base->name, nin, own);
  if (!failed) failed = !r || call_protected(c, base->name, forward_body, &k);
  if (r) ts_region_leave(c, r);
  c->capture = capture;
  c->no_grad--;
  for (int i = 0; i < nin; i++) ts_tensor_unref(own[i]);
  for (int i = 0; i < nout && failed; i++) ts_tensor_unref(out[i]);
  free(own);
  return failed ? -1 : 0;
}

static int run_foreign(TsCustom *base, TsContext *c, int nin, TsTensor *const *in, int nout,
                       const TsMeta *const *type, TsTensor **out) {
  Custom *f = (Custom *)base;
  return ts_foreign_call(f->foreign, c, nin, in, f->option, nout, type, out);
}

static int run_kernel(TsCustom *base, TsContext *c, int nin, TsTensor *const *in, int nout,
                      const TsMeta *const *type, TsTensor **out) {
  Custom *f = (Custom *)base;
  (void)type;
  /* Called at once, it is an instruction of its own. */
  bool timed = c->spans && !c->spans->depth;
  TsActivity *a = ts_activity_begin_call(c, TS_ACTIVITY_operator, base->name);
  int64_t start = timed ? ts_clock_nsec() : 0;
  if (timed) c->spans->depth++;
  int failed = ts_user_kernel_call(f->kernel, c, nin, in, f->size, out);
  if (timed) c->spans->depth--;
  TsCall call = {.ctx = c, .op = TS_OP_COUNT, .nin = nin, .nout = nout, .in = in, .out = out};
  if (timed && !failed) ts_spans_step(c->spans, &call, base->name, NULL, start, 0);
  ts_activity_end_call(a, failed ? NULL : &call);
  return failed;
}

/* ---- adjoints in Lua: they build with symbols in the graph that is being differentiated */
static int wrong_gradient(lua_State *L, int i, TsTensor *t, const TsMeta *x) {
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (!t)
    return luaL_error(L, "the adjoint's gradient %d is a %s, not a tensor", i + 1,
                      luaL_typename(L, -1));
  return luaL_error(L, "the adjoint's gradient %d is %s, its input is %s", i + 1,
                    ts_meta_text(&t->meta, a), ts_meta_text(x, b));
}

static void push_wanted(lua_State *L, const TsAdjoint *a) {
  lua_createtable(L, a->nin, 0);
  for (int i = 0; i < a->nin; i++) lua_pushboolean(L, a->wanted[i]), lua_rawseti(L, -2, i + 1);
}

typedef struct Backward {
  Custom *f;
  TsAdjoint *a;
} Backward;

static int adjoint_body(lua_State *L) {
  Backward *k = lua_touserdata(L, 1);
  TsAdjoint *a = k->a;
  TsContext *c = ts_lua_context(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, k->f->functions);
  lua_getfield(L, -1, "adjoint");
  ts_lua_push_values(L, c, a->nin, a->in);
  ts_lua_push_values(L, c, a->nout, a->out);
  ts_lua_push_values(L, c, a->nout, a->grad);
  push_wanted(L, a);
  lua_call(L, 4, 1);
  for (int i = 0; i < a->nin; i++) {
    lua_rawgeti(L, -1, i + 1);
    TsTensor *t = ts_lua_tensor(L, -1);
    if (a->wanted[i] && lua_toboolean(L, -1)) {
      const TsMeta *x = a->b->meta(a->b, a->in[i]);
      if (!t || !ts_meta_same_shape(&t->meta, x)) return wrong_gradient(L, i, t, x);
      if (!(a->grad_in[i] = ts_capture_value(c, t))) return ts_lua_raise(L);
    }
    lua_pop(L, 1);
  }
  return 0;
}

static TsContext *the_context; /* adjoints of ir/ know none; one Lua state has one */

static int adjoint_lua(TsCustom *base, TsAdjoint *a) {
  TsContext *c = the_context;
  Backward k = {(Custom *)base, a};
  TsCaptureInto before;
  TsGraph *g = (TsGraph *)a->b;
  int line = g->line, failed = ts_capture_into(c, g, &before);
  if (!failed) {
    failed = call_protected(c, base->name, adjoint_body, &k);
    ts_capture_back(c, &before);
  }
  g->line = line;
  a->b->failed = failed;
  if (failed && a->b->err != &c->err) *a->b->err = c->err;
  return failed;
}

/* ---- making them */
static Custom *check_custom(lua_State *L, int at) {
  return *(Custom **)luaL_checkudata(L, at, CUSTOM);
}

static int type_list(lua_State *L, int at, TsMeta *m, const char *name) {
  luaL_checktype(L, at, LUA_TTABLE);
  int n = (int)lua_objlen(L, at);
  if (n > MOST_RESULTS)
    return ts_lua_fail(L, TS_ERR_argument, "%s: more than %d results", name, MOST_RESULTS);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, at, i + 1);
    lua_getfield(L, -1, "dtype");
    const char *word = lua_isstring(L, -1) ? ts_lua_word(L, -1) : NULL;
    TsDtype d = word ? ts_dtype_parse(word, (int)strlen(word)) : TS_DT_none;
    if (d == TS_DT_none)
      return ts_lua_fail(L, TS_ERR_dtype, "%s: result %d has no dtype '%s'", name, i + 1,
                         word ? word : "nil");
    m[i] = (TsMeta){.dtype = (uint8_t)d};
    lua_getfield(L, -2, "shape");
    ts_lua_check_shape(L, &m[i], name);
    lua_getfield(L, -3, "layout"); /* over a mesh */
    m[i].layout = (uint16_t)lua_tointeger(L, -1);
    lua_pop(L, 4);
  }
  return n;
}

/* What the function calls: its own options, or sizes, stand at 5. */
static int take_callee(lua_State *L, TsContext *c, Custom *f, TsForeign *foreign,
                       TsUserKernel *kernel) {
  if (kernel) {
    f->kernel = ts_user_kernel_ref(kernel);
    ts_lua_kernel_sizes(L, 5, f->size);
  }
  if (!foreign) return 0;
  f->foreign = ts_foreign_ref(foreign);
  for (int i = 0; i < TS_FOREIGN_PARAMS; i++) {
    lua_rawgeti(L, 5, i + 1);
    f->option[i] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  return ts_foreign_check(foreign, &c->err, f->option);
}

/* custom(name, identity, {forward, adjoint}, foreign, kernel or nil, {options by parameter} or
 * {sizes} or nil) */
static int custom(lua_State *L) {
  size_t len;
  const char *name = luaL_checklstring(L, 1, &len);
  TsContext *c = ts_lua_context(L);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 5);
  TsUserKernel *kernel = ts_lua_kernel(L, 4);
  TsForeign *foreign = kernel || lua_isnil(L, 4) ? NULL : ts_lua_foreign(L, 4);
  clear_released(L);
  Custom **box = lua_newuserdata(L, sizeof *box), *f = calloc(1, sizeof *f + len + 1);
  *box = NULL;
  if (!f) return luaL_error(L, "out of memory");
  *box = f;
  f->functions = LUA_NOREF;
  memcpy(f->name, name, len);
  f->base = (TsCustom){.refs = 1,
                       .identity = (uint64_t)luaL_checknumber(L, 2),
                       .name = f->name,
                       .release = release};
  luaL_getmetatable(L, CUSTOM);
  lua_setmetatable(L, -2);
  lua_getfield(L, 3, "forward");
  f->base.run = kernel ? run_kernel : foreign ? run_foreign : lua_isnil(L, -1) ? NULL : run_lua;
  lua_getfield(L, 3, "adjoint");
  f->base.adjoint = lua_isnil(L, -1) ? NULL : adjoint_lua;
  lua_pushvalue(L, 3);
  f->functions = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pop(L, 2);
  return take_callee(L, c, f, foreign, kernel) ? ts_lua_raise(L) : 1;
}

static int collect(lua_State *L) {
  Custom **box = lua_touserdata(L, 1);
  if (*box) ts_custom_unref(&(*box)->base);
  *box = NULL;
  return 0;
}

/* ---- calling them */
static int push_results(lua_State *L, int n, TsTensor **t) {
  luaL_checkstack(L, n + 4, "results");
  for (int i = 0; i < n; i++) ts_lua_push(L, t[i]);
  return n;
}

static int capture_call(lua_State *L, TsContext *c, Custom *f, int nin, TsTensor *const *in,
                        int nout, const TsMeta *type) {
  TsVal *v = ts_lua_values(L, c, nin, in);
  TsGraph *g = ts_lua_graph_here(L, c);
  TsAttr name = ts_b_str(f->name);
  TsNode *n = ts_graph_node(g, TS_NODE_custom, nin, v, 0, NULL, 1, &name, nout, type, &f->base);
  return n ? ts_lua_push_outputs(L, c, n) : ts_lua_raise(L);
}

/* custom_call(f, {inputs}, {types}) -> results */
static int custom_call(lua_State *L) {
  Custom *f = check_custom(L, 1);
  TsContext *c = ts_lua_context(L);
  TsTensor **in, *out[MOST_RESULTS];
  TsMeta type[MOST_RESULTS];
  const TsMeta *each[MOST_RESULTS];
  int nin = ts_lua_list(L, 2, OUTSIDE, &in), nout = type_list(L, 3, type, f->name);
  if (c->capture) return capture_call(L, c, f, nin, in, nout, type);
  for (int i = 0; i < nout; i++) each[i] = &type[i];
  f->eager = true;
  c->no_grad++;
  int failed = ts_control_custom(c, &f->base, nin, in, nout, each, out, false);
  c->no_grad--;
  if (failed) return ts_lua_raise(L);
  if (ts_tape_wants(c, nin, in) && ts_tape_record_custom(c, &f->base, nin, in, nout, out)) {
    for (int i = 0; i < nout; i++) ts_tensor_unref(out[i]);
    return ts_lua_raise(L);
  }
  return push_results(L, nout, out);
}

/* custom_region(f, {inputs}, region) -> results of a call whose derivative f gives */
static int custom_region(lua_State *L) {
  Custom *f = check_custom(L, 1);
  TsContext *c = ts_lua_context(L);
  TsTensor **in;
  luaL_checktype(L, 3, LUA_TLIGHTUSERDATA);
  TsGraph *region = lua_touserdata(L, 3);
  TsGraph *g = ts_lua_graph_here(L, c);
  int nin = ts_lua_list(L, 2, OUTSIDE, &in);
  TsVal *v = ts_lua_values(L, c, nin, in);
  TsNode *n = ts_graph_control(g, TS_NODE_call, nin, v, 1, &region, NULL);
  if (!n || ts_graph_set_ref(g, n, &f->base)) return ts_lua_raise(L);
  return ts_lua_push_outputs(L, c, n);
}

/* custom_record(f, {inputs}, {outputs}, mark) -> the outputs as made by f: copies where they are
 * older than the mark or have bytes of others */
static int custom_record(lua_State *L) {
  Custom *f = check_custom(L, 1);
  TsContext *c = ts_lua_context(L);
  TsTensor **in, **out;
  int nin = ts_lua_list(L, 2, OUTSIDE, &in), nout = ts_lua_list(L, 3, OUTSIDE, &out),
      failed = 0;
  TsTensor **own = lua_newuserdata(L, sizeof *own * (size_t)(nout + 1));
  uint64_t mark = (uint64_t)luaL_checknumber(L, 4);
  int n = 0;
  for (; n < nout && !failed; n++) {
    if ((failed = ts_defer_force(out[n]))) break;
    bool copy = is_others(out[n], mark, n, own);
    for (int i = 0; i < nin; i++) copy |= out[n] == in[i];
    own[n] = copy ? ts_tensor_copy(c, out[n]) : ts_tensor_ref(out[n]);
    failed = !own[n];
  }
  if (!failed && ts_tape_wants(c, nin, in))
    failed = ts_tape_record_custom(c, &f->base, nin, in, nout, own);
  if (!failed) return push_results(L, nout, own);
  while (n-- > 0) ts_tensor_unref(own[n]);
  return ts_lua_raise(L);
}

void ts_lua_open_custom(lua_State *L) {
  static const luaL_Reg methods[] = {{"__gc", collect}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"custom", custom},
                                       {"custom_call", custom_call},
                                       {"custom_region", custom_region},
                                       {"custom_record", custom_record},
                                       {NULL, NULL}};
  the_context = ts_lua_context(L);
  ts_lua_metatable(L, CUSTOM, methods);
  luaL_register(L, NULL, functions);
}
