/* Capture in Lua: parameters, regions and control operators, derivatives, places. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/graph/control.h"
#include "ir/graph/recursion.h"
#include "repl/lua/graph.h"
#include "repl/report.h"
#include "vm/core/capture.h"
#include "vm/compile.h"
#include "vm/core/tape.h"

static int need_capture(lua_State *L, TsContext *c) {
  if (!c->capture) return luaL_error(L, "no function is being captured");
  return 0;
}

static int capture_begin(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  if (c->capture) return luaL_error(L, "a function is already being captured");
  c->sizes_read = false;
  return ts_lua_raise_unless(L, !ts_capture_begin(c, luaL_checkstring(L, 1)));
}

static int capture_param(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor *t = ts_lua_check_tensor(L, 1, "capture_param");
  need_capture(L, c);
  TsTensor *s = ts_capture_param(c, &t->meta, luaL_optstring(L, 2, NULL));
  if (!s) return ts_lua_raise(L);
  s->requires_grad = ts_tape_asks(t);
  ts_lua_push(L, s);
  return 1;
}

static int capture_name(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  need_capture(L, c);
  return ts_lua_raise_unless(L, !ts_capture_name(c, ts_lua_check_tensor(L, 1, "capture_name"),
                                                 luaL_checkstring(L, 2)));
}

static int capture_end(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor **t;
  need_capture(L, c);
  int n = ts_lua_list(L, 1, NULL, &t);
  TsGraph *raw = ts_capture_end(c, n, t);
  if (!raw) return ts_lua_raise(L);
  ts_lua_push_captured(L, c, raw);
  return 1;
}

static int capturing(lua_State *L) {
  TsGraph *g = ts_capture_graph(ts_lua_context(L));
  if (!g) return 0;
  lua_pushstring(L, g->name);
  return 1;
}

/* ---- values of what is captured */
TsGraph *ts_lua_graph_here(lua_State *L, TsContext *c) {
  need_capture(L, c);
  TsGraph *g = ts_capture_graph(c);
  const char *place = c->where ? c->where(c->where_arg) : NULL; /* none in an adjoint */
  g->b.failed = false;
  if (place) g->line = ts_graph_place(g->module, place);
  return g;
}

TsVal *ts_lua_values(lua_State *L, TsContext *c, int n, TsTensor *const *t) {
  TsVal *v = lua_newuserdata(L, sizeof *v * (size_t)(n + 1));
  for (int i = 0; i < n; i++)
    if (!(v[i] = t[i] ? ts_capture_value(c, t[i]) : NULL) && t[i]) ts_lua_raise(L);
  return v;
}

static int values_of(lua_State *L, TsContext *c, int table, TsVal **out) {
  TsTensor **t;
  int n = ts_lua_list(L, table, NULL, &t);
  *out = ts_lua_values(L, c, n, t);
  return n;
}

int ts_lua_push_values(lua_State *L, TsContext *c, int n, const TsVal *v) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    TsTensor *t = v[i] ? ts_capture_symbol(c, v[i]) : NULL;
    if (v[i] && !t) return ts_lua_raise(L);
    if (t)
      ts_lua_push(L, t);
    else
      lua_pushboolean(L, 0);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

int ts_lua_push_outputs(lua_State *L, TsContext *c, TsNode *n) {
  luaL_checkstack(L, n->nout + 4, "results");
  for (int i = 0; i < n->nout; i++) {
    TsTensor *t = ts_capture_symbol(c, &n->out[i]);
    if (!t) return ts_lua_raise(L);
    ts_lua_push(L, t);
  }
  return n->nout;
}

/* ---- regions: light userdata until the node that holds them is made */
/* region_begin(name [, region]): one that runs instead of that one draws where it does. */
static int region_begin(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  need_capture(L, c);
  const char *name = luaL_checkstring(L, 1);
  return ts_lua_raise_unless(L, !ts_capture_region(c, name, lua_touserdata(L, 2)));
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
  int n = ts_lua_list(L, 1, NULL, &t);
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
               {"fixed_point", TS_NODE_fixed_point},
               {"recursive", TS_NODE_recursive}};
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

static int control(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsNodeOp op = control_op(L, luaL_checkstring(L, 1));
  TsGraph *region[2] = {NULL, NULL}, *g = ts_lua_graph_here(L, c);
  TsAttr attr[8] = {{0}};
  TsVal *in;
  int n = values_of(L, c, 2, &in), nregion = region_list(L, 3, region);
  control_attrs(L, 4, op, attr);
  TsNode *made = ts_graph_control(g, op, n, in, nregion, region, attr);
  if (!made) return ts_lua_raise(L);
  if (op != TS_NODE_call) ts_capture_behind(c, region[0]);
  return ts_lua_push_outputs(L, c, made);
}

/* recur({inputs}, {likes}, site) -> outputs of the types of likes: an inner call in the
 * function of a recursion that is being captured */
static int recur(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsGraph *g = ts_lua_graph_here(L, c);
  TsAttr site = ts_attr_int(luaL_checkinteger(L, 3));
  TsTensor **like;
  TsVal *in;
  int n = values_of(L, c, 1, &in), nout = ts_lua_list(L, 2, NULL, &like);
  TsMeta *out = lua_newuserdata(L, sizeof *out * (size_t)(nout + 1));
  for (int i = 0; i < nout; i++) out[i] = like[i]->meta, out[i].weak = out[i].device = 0;
  TsNode *made =
      ts_graph_node(g, TS_NODE_recur, n, in, 0, NULL, TS_RECUR_nattr, &site, nout, out, NULL);
  if (!made) return ts_lua_raise(L);
  return ts_lua_push_outputs(L, c, made);
}

/* capture_mark() -> graph, streams: for capture_reset, which gives up what was begun since */
static int capture_mark(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  need_capture(L, c);
  TsCaptureMark mark = ts_capture_mark(c);
  lua_pushlightuserdata(L, mark.g);
  lua_pushnumber(L, (double)mark.nrandom);
  return 2;
}

static int capture_reset(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  need_capture(L, c);
  luaL_checktype(L, 1, LUA_TLIGHTUSERDATA);
  ts_capture_reset(c, (TsCaptureMark){lua_touserdata(L, 1), (int64_t)luaL_checknumber(L, 2)});
  return 0;
}

/* ---- functions that run at once */
/* tensor_mark() -> a mark for tensor_own: tensors are older or younger. */
static int tensor_mark(lua_State *L) {
  lua_pushnumber(L, (double)ts_lua_context(L)->next_id);
  return 1;
}

static bool is_young(lua_State *L, const TsTensor *x) {
  return x->id >= (uint64_t)luaL_checknumber(L, 2);
}

/* tensor_young(x, mark) -> whether it was made since */
static int tensor_young(lua_State *L) {
  lua_pushboolean(L, is_young(L, ts_lua_check_tensor(L, 1, "tensor_young")));
  return 1;
}

/* tensor_own(x, mark) -> x if it was made since and nobody else has its bytes, else a copy. What
 * garbage still looks at is copied as well; of what is pending nobody knows. */
static int tensor_own(lua_State *L) {
  const TsTensor *x = ts_lua_check_tensor(L, 1, "tensor_own");
  const TsStorage *s = x->storage;
  bool young = is_young(L, x);
  int holders = 1 + (x->origin != NULL); /* the tape looks at what it has recorded */
  lua_settop(L, 1);
  if (s->symbolic || (young && !s->pending && s->refs <= holders && x->refs == 1)) return 1;
  return ts_lua_call(L, TS_OP_clone, 1, false);
}

/* ---- derivatives inside a capture */
/* The ys with what the program keeps beside them, recognised before they are differentiated.
 * kept: an index of a list, or 0. */
static int recognise(lua_State *L, TsContext *c, TsGraph *g, int ny, TsVal *y, int nx,
                     const TsVal *x, int kept) {
  TsVal *other = NULL;
  int n = ny, nother = kept ? values_of(L, c, kept, &other) : 0;
  TsVal *all =
      lua_newuserdata(L, sizeof *all * (size_t)(ny + nother + ts_capture_updated(c, NULL) + 1));
  memcpy(all, y, sizeof *y * (size_t)ny);
  for (int i = 0; i < nother; i++)
    if (other[i] && !other[i]->meta.weak) all[n++] = other[i];
  n += ts_capture_updated(c, all + n);
  if (ts_compile_jets(c, g, n, all, nx, x) || ts_compile_recognise(c, g, n, all, nx, x))
    return -1;
  memcpy(y, all, sizeof *y * (size_t)ny);
  return 0;
}

/* gradient({y...}, {dy or false...}, {x...} [, {kept...}]) -> {dx or false...}; kept: what
 * the function returns besides */
static int gradient(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsVal *y, *dy, *x;
  need_capture(L, c);
  lua_settop(L, 4);
  int ny = values_of(L, c, 1, &y);
  if (values_of(L, c, 2, &dy) < ny) return luaL_error(L, "gradient: a dy for each y");
  int nx = values_of(L, c, 3, &x);
  TsVal *dx = lua_newuserdata(L, sizeof *dx * (size_t)(nx + 1));
  TsGraph *g = ts_capture_graph(c);
  g->b.failed = false;
  if (ts_capture_use(c, ny, y)) return ts_lua_raise(L);
  if (ts_compile_jets_refused(c, g, ny, y)) return ts_lua_raise(L);
  if (recognise(L, c, g, ny, y, nx, x, lua_istable(L, 4) ? 4 : 0)) return ts_lua_raise(L);
  if (ts_graph_gradient(g, ny, y, dy, nx, x, dx)) return ts_lua_raise(L);
  return ts_lua_push_values(L, c, nx, dx);
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
  if (ts_capture_use(c, ny, y) || ts_compile_jets_refused(c, g, ny, y)) return ts_lua_raise(L);
  if (ts_graph_jvp(g, nx, x, v, ny, y, dy)) return ts_lua_raise(L);
  return ts_lua_push_values(L, c, ny, dy);
}

/* ---- the place of the program, for nodes */
static const char *where(void *arg) {
  static char text[LUA_IDSIZE + 20];
  return ts_report_place_of_program(arg, text, sizeof text) ? text : NULL;
}

/* Lua's ==, but -0 is another number than 0, and NaN is itself. */
static bool same_value(lua_State *L, int a, int b) {
  if (lua_type(L, a) != LUA_TNUMBER || lua_type(L, b) != LUA_TNUMBER)
    return lua_rawequal(L, a, b) != 0;
  double x = lua_tonumber(L, a), y = lua_tonumber(L, b);
  return x == y ? signbit(x) == signbit(y) : isnan(x) && isnan(y);
}

/* upvalue_differs({f, i, value, f, i, value, ..}, n) -> the first of the n triples whose
 * upvalue i of f is another value now, and that; nil: none is. What lib/lua/outside.lua asks
 * before each call. */
static int upvalue_differs(lua_State *L) {
  int n = (int)luaL_checkinteger(L, 2);
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  for (int k = 0; k < n; k++) {
    for (int i = 1; i <= 3; i++) lua_rawgeti(L, 1, 3 * k + i);
    lua_getupvalue(L, 2, (int)lua_tointeger(L, 3));
    if (!same_value(L, -1, 4)) {
      lua_pushinteger(L, k + 1);
      lua_insert(L, -2);
      return 2;
    }
    lua_settop(L, 1);
  }
  return 0;
}

static const luaL_Reg functions[] = {{"capture_begin", capture_begin},
                                     {"upvalue_differs", upvalue_differs},
                                     {"capture_param", capture_param},
                                     {"capture_name", capture_name},
                                     {"capture_end", capture_end},
                                     {"capturing", capturing},
                                     {"region_begin", region_begin},
                                     {"region_param", region_param},
                                     {"region_end", region_end},
                                     {"control", control},
                                     {"recur", recur},
                                     {"tensor_mark", tensor_mark},
                                     {"tensor_young", tensor_young},
                                     {"tensor_own", tensor_own},
                                     {"capture_mark", capture_mark},
                                     {"capture_reset", capture_reset},
                                     {"gradient", gradient},
                                     {"jvp", jvp},
                                     {NULL, NULL}};

void ts_lua_open_capture(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  c->where = where;
  c->where_arg = L;
  luaL_register(L, NULL, functions);
}
