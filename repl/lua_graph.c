/* Capture, graphs and their runs in Lua: what lib/lua/graph.lua stands on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/control.h"
#include "ir/graph_export.h"
#include "ir/symbolic.h"
#include "lib/text.h"
#include "repl/lua_api.h"
#include "vm/compile.h"
#include "vm/lower.h"
#include "vm/tape.h"

static const char *const TYPE = "tessera.graph";

/* A captured function: its graph, and its code when it ran. */
typedef struct Function {
  TsGraph *g;
  TsGraph *raw; /* before rewriting: what is generalised */
  bool sizes_read;
  bool *donated;   /* by parameter, or NULL */
  TsText rewrites; /* a line for each rule that fired */
  TsCode *code;
  TsFrame *frame;
} Function;

static int list_of(lua_State *L, int table, TsTensor ***out) {
  luaL_checktype(L, table, LUA_TTABLE);
  int n = (int)lua_objlen(L, table);
  TsTensor **t = lua_newuserdata(L, sizeof *t * (size_t)(n + 1));
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, table, i + 1);
    t[i] = ts_lua_tensor(L, -1);
    lua_pop(L, 1);
  }
  *out = t;
  return n;
}

/* ---- capture */
static int raise_unless(lua_State *L, bool fine) { return fine ? 0 : ts_lua_raise(L); }

static int need_capture(lua_State *L, TsContext *c) {
  if (!c->capture) return luaL_error(L, "no function is being captured");
  return 0;
}

static int capture_begin(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  if (c->capture) return luaL_error(L, "a function is already being captured");
  c->sizes_read = false;
  return raise_unless(L, !ts_capture_begin(c, luaL_checkstring(L, 1)));
}

static int capture_param(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor *t = ts_lua_check_tensor(L, 1, "capture_param");
  need_capture(L, c);
  TsTensor *s = ts_capture_param(c, &t->meta, luaL_optstring(L, 2, NULL));
  if (!s) return ts_lua_raise(L);
  s->requires_grad = t->requires_grad;
  ts_lua_push(L, s);
  return 1;
}

static int capture_name(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  need_capture(L, c);
  return raise_unless(L, !ts_capture_name(c, ts_lua_check_tensor(L, 1, "capture_name"),
                                          luaL_checkstring(L, 2)));
}

static int push_function(lua_State *L, TsGraph *g) {
  Function *f = lua_newuserdata(L, sizeof *f);
  *f = (Function){.g = g};
  luaL_getmetatable(L, TYPE);
  lua_setmetatable(L, -2);
  return 1;
}

/* raw is taken over. */
static int push_rewritten(lua_State *L, TsContext *c, TsGraph *raw) {
  TsText log = {0};
  TsGraph *g = ts_compile_rewrite(c, raw, &log);
  if (!g) {
    ts_capture_release(raw);
    ts_text_free(&log);
    return ts_lua_raise(L);
  }
  push_function(L, g);
  Function *f = lua_touserdata(L, -1);
  f->rewrites = log;
  f->raw = raw;
  return 1;
}

static int capture_end(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor **t;
  need_capture(L, c);
  int n = list_of(L, 1, &t);
  TsGraph *raw = ts_capture_end(c, n, t);
  if (!raw) return ts_lua_raise(L);
  push_rewritten(L, c, raw);
  ((Function *)lua_touserdata(L, -1))->sizes_read = c->sizes_read;
  return 1;
}

static int capture_abort(lua_State *L) {
  ts_capture_abort(ts_lua_context(L));
  return 0;
}

static int capturing(lua_State *L) {
  TsGraph *g = ts_capture_graph(ts_lua_context(L));
  if (!g) return 0;
  lua_pushstring(L, g->name);
  return 1;
}

/* ---- regions: light userdata until the node that holds them is made */
static int region_begin(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  need_capture(L, c);
  return raise_unless(L, !ts_capture_region(c, luaL_checkstring(L, 1)));
}

/* region_param(like [, slice]) -> a parameter of the region: of like's type, or of a slice
 * of it along axis 0 */
static int region_param(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor *t = ts_lua_check_tensor(L, 1, "region_param");
  TsMeta m = t->meta;
  need_capture(L, c);
  if (lua_toboolean(L, 2)) {
    if (m.ndim == 0)
      return ts_lua_fail(L, TS_ERR_shape, "scan: a scalar has no axis to scan along");
    m.ndim--;
    memmove(m.dim, m.dim + 1, sizeof *m.dim * m.ndim);
  }
  TsTensor *s = ts_capture_param(c, &m, NULL);
  if (!s) return ts_lua_raise(L);
  ts_lua_push(L, s);
  return 1;
}

static int region_end(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor **t;
  need_capture(L, c);
  int n = list_of(L, 1, &t);
  TsGraph *g = ts_capture_region_end(c, n, t);
  if (!g) return ts_lua_raise(L);
  lua_pushlightuserdata(L, g);
  return 1;
}

/* control(kind, {inputs}, {regions}, {numbers}) -> outputs. The numbers are the attributes
 * in their order, false where absent. */
static TsNodeOp control_op(lua_State *L, const char *kind) {
  static const struct {
    const char *name;
    TsNodeOp op;
  } known[] = {{"call", TS_NODE_call},
               {"cond", TS_NODE_cond},
               {"while_loop", TS_NODE_while_loop},
               {"scan", TS_NODE_scan},
               {"fixed_point", TS_NODE_fixed_point}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(kind, known[i].name)) return known[i].op;
  return (TsNodeOp)luaL_error(L, "control: no operator %s", kind);
}

static int region_list(lua_State *L, int table, TsGraph **region) {
  int n = (int)lua_objlen(L, table);
  for (int i = 0; i < n && i < 2; i++) {
    lua_rawgeti(L, table, i + 1);
    region[i] = lua_touserdata(L, -1);
    lua_pop(L, 1);
  }
  return n;
}

static void control_attrs(lua_State *L, int table, TsNodeOp op, TsAttr *attr) {
  for (int i = 0; i < (int)lua_objlen(L, table); i++) {
    lua_rawgeti(L, table, i + 1);
    bool real = op == TS_NODE_fixed_point && i == TS_FIXED_tol,
         flag = op == TS_NODE_scan && i == TS_SCAN_reverse;
    if (flag)
      attr[i] = ts_attr_bool(lua_toboolean(L, -1));
    else if (lua_isnumber(L, -1))
      attr[i] = real ? ts_attr_f(lua_tonumber(L, -1)) : ts_attr_int(lua_tointeger(L, -1));
    lua_pop(L, 1);
  }
}

static int values_of(lua_State *L, TsContext *c, int table, TsVal **out);

static int control(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsNodeOp op = control_op(L, luaL_checkstring(L, 1));
  TsGraph *region[2] = {NULL, NULL}, *g = ts_capture_graph(c);
  TsAttr attr[8] = {{0}};
  TsVal *in;
  need_capture(L, c);
  g->b.failed = false;
  const char *place = c->where(c->where_arg);
  if (place) g->line = ts_graph_place(g->unit, place);
  int n = values_of(L, c, 2, &in), nregion = region_list(L, 3, region);
  control_attrs(L, 4, op, attr);
  TsNode *made = ts_graph_control(g, op, n, in, nregion, region, attr);
  if (!made) return ts_lua_raise(L);
  luaL_checkstack(L, made->nout + 4, "results");
  for (int i = 0; i < made->nout; i++) {
    TsTensor *t = ts_capture_own_symbol(c, &made->out[i]);
    if (!t) return ts_lua_raise(L);
    ts_lua_push(L, t);
  }
  return made->nout;
}

/* ---- derivatives inside a capture */
static int push_values(lua_State *L, TsContext *c, int n, TsVal const *v) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    TsTensor *t = v[i] ? ts_capture_own_symbol(c, v[i]) : NULL;
    if (v[i] && !t) return ts_lua_raise(L);
    if (t)
      ts_lua_push(L, t);
    else
      lua_pushboolean(L, 0);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int values_of(lua_State *L, TsContext *c, int table, TsVal **out) {
  TsTensor **t;
  int n = list_of(L, table, &t);
  TsVal *v = lua_newuserdata(L, sizeof *v * (size_t)(n + 1));
  for (int i = 0; i < n; i++)
    if (!(v[i] = t[i] ? ts_capture_value(c, t[i]) : NULL) && t[i]) return ts_lua_raise(L);
  *out = v;
  return n;
}

/* gradient({y...}, {dy or false...}, {x...}) -> {dx or false...} */
static int gradient(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsVal *y, *dy, *x;
  need_capture(L, c);
  int ny = values_of(L, c, 1, &y);
  if (values_of(L, c, 2, &dy) < ny) return luaL_error(L, "gradient: a dy for each y");
  int nx = values_of(L, c, 3, &x);
  TsVal *dx = lua_newuserdata(L, sizeof *dx * (size_t)(nx + 1));
  TsGraph *g = ts_capture_graph(c);
  g->b.failed = false;
  if (ts_graph_gradient(g, ny, y, dy, nx, x, dx)) return ts_lua_raise(L);
  return push_values(L, c, nx, dx);
}

/* jvp({x...}, {v...}, {y...}) -> {dy or false...} */
static int jvp(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsVal *y, *v, *x;
  need_capture(L, c);
  int nx = values_of(L, c, 1, &x);
  if (values_of(L, c, 2, &v) != nx) return luaL_error(L, "jvp: a direction for each x");
  int ny = values_of(L, c, 3, &y);
  TsVal *dy = lua_newuserdata(L, sizeof *dy * (size_t)(ny + 1));
  TsGraph *g = ts_capture_graph(c);
  g->b.failed = false;
  if (ts_graph_jvp(g, nx, x, v, ny, y, dy)) return ts_lua_raise(L);
  return push_values(L, c, ny, dy);
}

/* ---- functions */
static Function *check(lua_State *L) { return luaL_checkudata(L, 1, TYPE); }

static int ready(lua_State *L, Function *f) {
  TsContext *c = ts_lua_context(L);
  if (!f->code && !(f->code = ts_lower_donating(c, f->g, f->donated))) return ts_lua_raise(L);
  if (!f->frame && !(f->frame = ts_frame_new(c, f->code))) return ts_lua_raise(L);
  return 0;
}

/* What is changed in place must not be seen through another parameter: the code reads
 * each where it stands. Captured tensors were compared when they were captured. */
static int check_apart(lua_State *L, const Function *f, TsTensor *const *all, int narg,
                       TsTensor *const *arg) {
  for (int u = 0; u < f->g->nupdate; u++) {
    int p = f->g->update[u].param, seen = 0;
    bool bound = f->code->bound[p] != NULL;
    for (int i = 0; i < (bound ? narg : f->code->nparam); i++)
      seen += (bound ? arg[i] : all[i])->storage == all[p]->storage;
    if (seen > !bound)
      return luaL_error(L,
                        "%s: two arguments share elements, and one of them is changed in place",
                        f->g->name);
  }
  return 0;
}

/* The tape holds what the run read: copies of what it is about to change. */
static int save_updated(lua_State *L, const Function *f, TsTensor **before) {
  for (int u = 0; u < f->g->nupdate; u++) {
    TsTensor **t = &before[f->g->update[u].param];
    if ((*t)->requires_grad) {
      ts_error_set(&ts_lua_context(L)->err, TS_ERR_value,
                   "%s changes a tensor that requires gradients in place", f->g->name);
      ts_error_hint(&ts_lua_context(L)->err,
                    "use graph.training_step, or call it by tessera.no_grad");
      return ts_lua_raise(L);
    }
    if (!(*t = ts_tensor_copy(ts_lua_context(L), *t))) return ts_lua_raise(L);
    ts_lua_push(L, *t); /* the stack owns it */
  }
  return 0;
}

static int record_run(TsContext *c, const Function *f, TsTensor *const *before,
                      TsTensor *const *all, TsTensor **results, uint64_t stream) {
  for (int i = 0; i < f->code->nresult;
       i++) /* a parameter that comes out is no result of the call */
    for (int k = 0; k < f->code->nparam; k++) {
      TsTensor *t = results[i];
      if (t != all[k]) continue;
      if (!(results[i] = ts_tensor_view(t, &t->meta, t->stride, t->offset)))
        return results[i] = t, -1;
      ts_tensor_unref(t);
      break;
    }
  return ts_tape_record_function(c, f->g, before, results, stream);
}

/* f:run({arguments}) -> results; the arguments are the parameters that are not captured. */
static int run(lua_State *L) {
  Function *f = check(L);
  TsTensor **args, **results;
  ready(L, f);
  const TsCode *code = f->code;
  int n = list_of(L, 2, &args), k = 0;
  TsTensor **all = lua_newuserdata(L, sizeof *all * (size_t)(code->nparam + code->nresult + 1));
  results = all + code->nparam;
  for (int i = 0; i < code->nparam; i++) {
    all[i] = code->bound[i];
    if (all[i]) continue;
    if (k == n || !args[k]) return luaL_error(L, "run: argument %d is missing", k + 1);
    const TsMeta *want = &code->reg[i].meta, *have = &args[k]->meta;
    char a[TS_META_TEXT], b[TS_META_TEXT];
    if (want->dtype != have->dtype || !ts_meta_same_shape(want, have))
      return luaL_error(L, "run: argument %d is %s, not %s", k + 1, ts_meta_text(have, a),
                        ts_meta_text(want, b));
    all[i] = args[k++];
  }
  TsContext *c = ts_lua_context(L);
  TsTensor **before = all;
  bool record = ts_tape_wants(c, code->nparam, all);
  check_apart(L, f, all, k, args);
  if (record && f->g->nupdate) {
    luaL_checkstack(L, f->g->nupdate + 4, "updates");
    before = lua_newuserdata(L, sizeof *before * (size_t)(code->nparam + 1));
    memcpy(before, all, sizeof *before * (size_t)code->nparam);
    save_updated(L, f, before);
  }
  uint64_t stream = c->stream;
  if (ts_frame_run(f->frame, all, results)) return ts_lua_raise(L);
  if (record && record_run(c, f, before, all, results, stream)) {
    for (int i = 0; i < code->nresult; i++) ts_tensor_unref(results[i]);
    return ts_lua_raise(L);
  }
  luaL_checkstack(L, code->nresult + 4, "results");
  for (int i = 0; i < code->nresult; i++) ts_lua_push(L, results[i]);
  return code->nresult;
}

static int text_of(lua_State *L) {
  Function *f = check(L);
  TsText t = {0};
  const char *what = luaL_optstring(L, 2, "graph");
  if (!strcmp(what, "rewrites")) {
    ts_text_str(&t, f->rewrites.at ? f->rewrites.at : "");
  } else if (!strcmp(what, "dot")) {
    ts_graph_dot(f->g, &t);
  } else if (!strcmp(what, "json")) {
    ts_graph_json(f->g, &t);
  } else if (!strcmp(what, "places")) {
    ts_graph_text_places(f->g, &t);
  } else if (!strcmp(what, "bytecode")) {
    ready(L, f);
    ts_code_text(f->code, &t);
  } else if (!strcmp(what, "captured")) {
    ts_graph_text(f->raw ? f->raw : f->g, &t);
  } else if (!strcmp(what, "graph")) {
    ts_graph_text(f->g, &t);
  } else {
    return luaL_error(L,
                      "there is no level '%s'; levels are captured, rewrites, graph, concrete, "
                      "bytecode, dot, json, places",
                      what);
  }
  lua_pushlstring(L, t.at ? t.at : "", t.len);
  ts_text_free(&t);
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
  Function *f = check(L);
  ts_frame_free(f->frame);
  ts_code_free(f->code);
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
    symbol[i] = (int64_t)lua_tonumber(L, -1);
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
  push_rewritten(L, c, g);
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
    lua_pushlstring(L, why.at ? why.at : "", why.len);
  }
  ts_text_free(&why);
  return s->raw ? 1 : 2;
}

static Symbolic *check_symbolic(lua_State *L) { return luaL_checkudata(L, 1, SYMBOLIC); }

/* s:solve({arguments}) -> {values of the symbols}, or nil */
static int solve(lua_State *L) {
  Symbolic *s = check_symbolic(L);
  TsTensor **t;
  int64_t value[TS_SYMBOLS];
  int n = list_of(L, 2, &t);
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

/* s:at({values}) -> the function for these sizes */
static int at(lua_State *L) {
  Symbolic *s = check_symbolic(L);
  TsContext *c = ts_lua_context(L);
  int64_t value[TS_SYMBOLS];
  for (int i = 0; i < TS_SYMBOLS; i++) {
    lua_rawgeti(L, 2, i + 1);
    value[i] = (int64_t)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  TsGraph *raw = ts_symbolic_at(s->raw, value, &c->err);
  if (!raw) return ts_lua_raise(L);
  refer(raw, true);
  return push_rewritten(L, c, raw);
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
  lua_pushlstring(L, all.at ? all.at : "", all.len);
  ts_text_free(&t);
  ts_text_free(&all);
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

/* ---- the place of the program, for nodes */
static const char *where(void *arg) {
  static char text[160];
  lua_State *L = arg;
  lua_Debug ar;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline > 0 && strncmp(ar.source, "=tessera", 8)) {
      snprintf(text, sizeof text, "%.120s:%d", ar.short_src, ar.currentline);
      return text;
    }
  }
  return NULL;
}

/* ---- the tape */
/* y:backward(dy): gradients of y, a single number unless dy is given, into x.grad of all x
 * below it that require them. */
static int backward(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor *y = ts_lua_check_tensor(L, 1, "backward"), *dy = ts_lua_tensor(L, 2);
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (c->capture)
    return ts_lua_fail(
        L, TS_ERR_value,
        "backward: use graph.grad or graph.training_step in a captured function");
  if (!dy && ts_tensor_numel(y) != 1)
    return ts_lua_fail(L, TS_ERR_shape,
                       "backward: %s is not one number; give its gradient, y:backward(dy)",
                       ts_meta_text(&y->meta, a));
  if (dy && (!ts_meta_same_shape(&y->meta, &dy->meta) || y->meta.dtype != dy->meta.dtype))
    return ts_lua_fail(L, TS_ERR_shape, "backward: the gradient is %s, the tensor %s",
                       ts_meta_text(&dy->meta, b), ts_meta_text(&y->meta, a));
  return raise_unless(L, !ts_tape_backward(c, y, dy));
}

/* tape_graph(y) -> the backward graph of y, as a function without arguments; its leaves */
static int tape_graph(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor **leaf = NULL;
  int n = 0;
  TsGraph *g =
      ts_tape_graph(c, ts_lua_check_tensor(L, 1, "tape_graph"), ts_lua_tensor(L, 2), &n, &leaf);
  if (!g) return ts_lua_raise(L);
  push_function(L, g);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    ts_lua_push(L, leaf[i]);
    lua_rawseti(L, -2, i + 1);
  }
  free(leaf);
  return 2;
}

/* no_grad_enter(), no_grad_leave(): calls in between are not recorded. */
static int no_grad_enter(lua_State *L) {
  ts_lua_context(L)->no_grad++;
  return 0;
}

static int no_grad_leave(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  if (c->no_grad) c->no_grad--;
  return 0;
}

static int recording(lua_State *L) {
  lua_pushboolean(L, !ts_lua_context(L)->no_grad);
  return 1;
}

/* type_text(tensor) -> "f32[2,3]" */
static int type_text(lua_State *L) {
  char text[TS_META_TEXT];
  lua_pushstring(L, ts_meta_text(&ts_lua_check_tensor(L, 1, "type_text")->meta, text));
  return 1;
}

/* trap(on): the NaN trap; returns what it was. */
static int trap(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  lua_pushboolean(L, c->trap);
  if (!lua_isnoneornil(L, 1)) c->trap = lua_toboolean(L, 1);
  return 1;
}

static const luaL_Reg methods[] = {
    {"run", run},           {"text", text_of},  {"stats", stats},
    {"captured", captured}, {"donate", donate}, {"reads_sizes", reads_sizes},
    {"same", same},         {"__gc", collect},  {NULL, NULL}};
static const luaL_Reg symbolic_methods[] = {{"solve", solve},
                                            {"at", at},
                                            {"text", symbolic_text},
                                            {"__gc", collect_symbolic},
                                            {NULL, NULL}};

static const luaL_Reg functions[] = {{"capture_begin", capture_begin},
                                     {"capture_param", capture_param},
                                     {"capture_name", capture_name},
                                     {"capture_end", capture_end},
                                     {"capture_abort", capture_abort},
                                     {"capturing", capturing},
                                     {"region_begin", region_begin},
                                     {"region_param", region_param},
                                     {"region_end", region_end},
                                     {"control", control},
                                     {"gradient", gradient},
                                     {"jvp", jvp},
                                     {"generalise", generalise},
                                     {"graph_load", graph_load},
                                     {"type_text", type_text},
                                     {"tape_graph", tape_graph},
                                     {"no_grad_enter", no_grad_enter},
                                     {"no_grad_leave", no_grad_leave},
                                     {"recording", recording},
                                     {"trap", trap},
                                     {NULL, NULL}};

void ts_lua_open_graph(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  c->where = where;
  c->where_arg = L;
  const struct {
    const char *type;
    const luaL_Reg *method;
  } types[] = {{TYPE, methods}, {SYMBOLIC, symbolic_methods}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    luaL_newmetatable(L, types[i].type);
    luaL_register(L, NULL, types[i].method);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
  }
  luaL_register(L, NULL, functions);
  ts_lua_push_methods(L);
  lua_pushcfunction(L, backward);
  lua_setfield(L, -2, "backward");
  lua_pop(L, 1);
}
