/* The tensor type of Lua: metamethods, properties, methods. Its life: repl/lua/box.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/device.h"
#include "lib/text.h"
#include "repl/display.h"
#include "repl/interrupt.h"
#include "repl/lua/mesh.h"
#include "repl/lua_api.h"
#include "repl/guard.h"
#include "repl/lua/together.h"
#include "repl/report.h"
#include "repl/run.h"
#include "repl/tail.h"
#include "vm/core/defer.h"
#include "vm/core/mapped.h"
#include "vm/core/tape.h"

/* One Lua state has one context; the registry keys are the addresses of these. */
static char methods_key;
static int context_ref = LUA_NOREF; /* in the registry; by number it is fastest */

TsContext *ts_lua_context(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, context_ref);
  TsContext *c = lua_touserdata(L, -1);
  lua_pop(L, 1);
  c->where_arg = L; /* a coroutine's lines are its own, and what it calls runs in it */
  return c;
}

TsTensor *ts_lua_check_tensor(lua_State *L, int index, const char *function) {
  TsTensor *t = ts_lua_tensor(L, index);
  if (!t)
    ts_lua_fail(L, TS_ERR_argument, "%s: argument %d must be a tensor, not %s", function, index,
                luaL_typename(L, index));
  return t;
}

TsTensor *ts_lua_only(lua_State *L, int most, const char *method) {
  TsError *e = &ts_lua_context(L)->err;
  if (!ts_lua_tensor(L, 1)) {
    ts_error_set(e, TS_ERR_argument, "%s: argument 1 must be a tensor, not %s", method,
                 luaL_typename(L, 1));
    ts_error_hint(e, "methods are called with a colon, x:%s(%s)", method, most > 1 ? ".." : "");
    ts_lua_raise(L);
  }
  for (int i = most + 1; i <= lua_gettop(L); i++)
    if (!lua_isnil(L, i))
      ts_lua_fail(L, TS_ERR_argument, "%s: too many arguments, it takes %s", method,
                  most == 1 ? "none" : "one");
  return ts_lua_tensor(L, 1);
}

/* TsContext.collect: the collector knows nothing of how full a device is. Traces hold what
 * nobody else does (box.c); without them loops are slower for a while, so they go only where a
 * collection gave back next to nothing. */
static void collect_all(void *L, bool all) {
  if (!L) return;
  const TsContext *c = ts_lua_context(L);
  int64_t live = c->live_bytes;
  lua_gc(L, LUA_GCCOLLECT, 0);
  if (all && c->live_bytes > live - live / 16) ts_lua_release_traces(L);
}

/* ---- properties and methods */
/* A program that asks for sizes may branch on them: another shape is captured anew. */
static void note_sizes(TsTensor *x, const char *key) {
  static const char *const sizes[] = {"shape", "strides", "numel", "nbytes"};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (!strcmp(key, sizes[i])) x->storage->ctx->sizes_read = true;
}

static bool property(lua_State *L, TsTensor *x, const char *key) {
  if (x->storage->symbolic) note_sizes(x, key);
  if (!strcmp(key, "shape"))
    ts_lua_push_sizes(L, x->meta.ndim, x->meta.dim);
  else if (!strcmp(key, "strides"))
    ts_lua_push_sizes(L, x->meta.ndim, x->stride);
  else if (!strcmp(key, "dtype"))
    lua_pushstring(L, ts_dtype_name(ts_tensor_dtype(x)));
  else if (!strcmp(key, "ndim"))
    lua_pushinteger(L, x->meta.ndim);
  else if (!strcmp(key, "numel"))
    lua_pushnumber(L, (double)ts_tensor_numel(x));
  else if (!strcmp(key, "nbytes"))
    lua_pushnumber(L, (double)ts_meta_nbytes(&x->meta));
  else if (!strcmp(key, "device") && x->meta.layout)
    ts_lua_push_mesh(L, ts_layout_of(&x->meta)->mesh);
  else if (!strcmp(key, "device"))
    lua_pushstring(L, ts_device_at(x->meta.device)->name);
  else if (!strcmp(key, "requires_grad"))
    lua_pushboolean(L, ts_tape_asks(x));
  else if (!strcmp(key, "grad")) {
    if (x->grad)
      ts_lua_push(L, ts_tensor_ref(x->grad));
    else
      lua_pushnil(L);
  } else
    return false;
  return true;
}

static bool is_slice_text(const char *s) {
  return s[strspn(s, "0123456789:-.,+ newaxisNo")] == 0;
}

static const char *method_name(const void *arg, int i) {
  lua_State *L = *(lua_State *const *)arg;
  lua_rawgeti(L, -1, i + 1);
  const char *s = lua_tostring(L, -1);
  lua_pop(L, 1);
  return s;
}

/* Names of methods and properties, to suggest from. */
static const char *closest_method(lua_State *L, const char *key) {
  static const char *const names[] = {"shape",  "strides", "dtype",         "ndim", "numel",
                                      "nbytes", "device",  "requires_grad", "grad"};
  lua_newtable(L);
  int n = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    lua_pushstring(L, names[i]);
    lua_rawseti(L, -2, ++n);
  }
  lua_pushlightuserdata(L, &methods_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) continue;
    lua_pushvalue(L, -2);
    lua_rawseti(L, -5, ++n);
  }
  lua_pop(L, 1);
  const char *best = ts_text_closest(key, n, method_name, &L);
  lua_pop(L, 1);
  return best;
}

static int in_place(lua_State *L) {
  TsOp op = (TsOp)lua_tointeger(L, lua_upvalueindex(1));
  return ts_lua_call(L, op, 1, true);
}

/* x:name_ for every operator whose result can replace its first input. */
static bool in_place_method(lua_State *L, const char *key) {
  size_t len = strlen(key);
  char name[40];
  if (len < 2 || len >= sizeof name || key[len - 1] != '_') return false;
  memcpy(name, key, len - 1);
  name[len - 1] = 0;
  TsOp op = ts_op_find(name);
  if (op == TS_OP_COUNT || ts_op_info(op)->nin == 0) return false;
  lua_pushinteger(L, op);
  lua_pushcclosure(L, in_place, 1);
  ts_tail_keep(L, -1, false);
  return true;
}

const char *ts_lua_elsewhere(const char *table, const char *key) {
  static const char *const rows[][3] = {
#define ELSEWHERE(table, name, hint) {#table, #name, hint},
#include "repl/lua/elsewhere.def"
#undef ELSEWHERE
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i][0], table) && !strcmp(rows[i][1], key)) return rows[i][2];
  return NULL;
}

static int unknown_key(lua_State *L, const char *key) {
  TsError *e = &ts_lua_context(L)->err;
  const char *known = ts_lua_elsewhere("tensor", key),
             *guess = known ? NULL : closest_method(L, key);
  ts_error_set(e, TS_ERR_attribute, "a tensor has no field or method '%s'", key);
  if (known) ts_error_hint(e, "%s", known);
  if (guess) ts_error_hint(e, "did you mean '%s'?", guess);
  return ts_lua_raise(L);
}

/* Upvalue 1: the methods. */
static int get(lua_State *L) {
  if (lua_type(L, 2) == LUA_TSTRING) {
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    if (!lua_isnil(L, -1)) return 1;
    const char *key = lua_tostring(L, 2);
    TsTensor *x = ts_lua_check_tensor(L, 1, "index");
    if (property(L, x, key)) return 1;
    if (in_place_method(L, key)) {
      lua_pushvalue(L, 2);
      lua_pushvalue(L, -2);
      lua_rawset(L, lua_upvalueindex(1));
      return 1;
    }
    if (!is_slice_text(key)) return unknown_key(L, key);
  }
  return ts_lua_index(L, ts_lua_check_tensor(L, 1, "index"), 2);
}

static int set_grad(lua_State *L, TsTensor *x) {
  TsTensor *g = lua_isnil(L, 3) ? NULL : ts_lua_check_tensor(L, 3, "grad");
  if (g && !ts_meta_same_shape(&g->meta, &x->meta))
    return ts_lua_fail(L, TS_ERR_shape, "a gradient must have the tensor's shape");
  TsTensor *old = x->grad;
  x->grad = g ? ts_tensor_ref(g) : NULL;
  ts_tensor_unref(old);
  return 0;
}

/* Integers and truth values do not move, so nothing is differentiated by them. */
static int require_grad(lua_State *L, TsTensor *x, bool on) {
  char text[TS_META_TEXT];
  if (on && !ts_dtype_is(ts_tensor_dtype(x), TS_KIND_F | TS_KIND_C)) {
    TsError *e = &ts_lua_context(L)->err;
    ts_error_set(e, TS_ERR_dtype,
                 "requires_grad: %s; only floats and complex numbers have derivatives",
                 ts_meta_text(&x->meta, text));
    ts_error_hint(e, "cast it first, x:cast(\"f32\")");
    return ts_lua_raise(L);
  }
  if (ts_defer_force(x) || ts_tape_refresh(x)) return ts_lua_raise(L);
  if (!x->origin || x->storage->symbolic) {
    x->requires_grad = on;
    x->storage->leaf = on;
  } else if (!on) { /* as detach() */
    ts_record_unref(x->origin);
    x->origin = NULL;
    x->requires_grad = 0;
    x->apart = 1;
  }
  return 0;
}

static int set(lua_State *L) {
  TsTensor *x = ts_lua_check_tensor(L, 1, "assignment");
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "0";
  if (!strcmp(key, "requires_grad")) return require_grad(L, x, lua_toboolean(L, 3));
  if (!strcmp(key, "grad")) return set_grad(L, x);
  if (!is_slice_text(key))
    return ts_lua_fail(L, TS_ERR_attribute, "a tensor's '%s' cannot be assigned", key);
  return ts_lua_assign(L, x, 2, 3);
}

static int text(lua_State *L) {
  TsText t = {0};
  TsTensor *x = ts_lua_check_tensor(L, 1, "tostring");
  ts_display_tensor(ts_lua_context(L), ts_lua_told(L, x), ts_display_width(), &t);
  ts_lua_push_text(L, &t);
  return 1;
}

static int length(lua_State *L) {
  TsTensor *x = ts_lua_check_tensor(L, 1, "#");
  if (x->meta.ndim == 0) return ts_lua_fail(L, TS_ERR_shape, "#: a scalar has no length");
  lua_pushnumber(L, (double)x->meta.dim[0]);
  return 1;
}

static int join(lua_State *L) {
  lua_getglobal(L, "tostring");
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  lua_getglobal(L, "tostring");
  lua_pushvalue(L, 2);
  lua_call(L, 1, 1);
  lua_concat(L, 2);
  return 1;
}

static int order(lua_State *L) {
  ts_error_set(&ts_lua_context(L)->err, TS_ERR_argument,
               "Lua's < and <= give one boolean, not a tensor");
  ts_error_hint(&ts_lua_context(L)->err, "write x:lt(y), x:le(y), x:gt(y) or x:ge(y)");
  return ts_lua_raise(L);
}

/* Values are not known while a function is captured. */
static void need_values(lua_State *L, TsTensor *x) {
  if (x->storage->symbolic && !ts_tensor_read(x)) ts_lua_raise(L);
}

static int item(lua_State *L) {
  TsTensor *x = ts_lua_only(L, 1, "item");
  need_values(L, x);
  if (ts_tensor_numel(x) != 1) {
    char t[TS_META_TEXT];
    return ts_lua_fail(L, TS_ERR_shape, "item: %s does not have exactly one element",
                       ts_meta_text(&x->meta, t));
  }
  ts_lua_push_element(L, x, 0);
  return 1;
}

static void push_nested(lua_State *L, TsTensor *x, int axis, int64_t at) {
  if (axis == x->meta.ndim) {
    ts_lua_push_element(L, x, at);
    return;
  }
  luaL_checkstack(L, 4, "totable");
  lua_createtable(L, (int)x->meta.dim[axis], 0);
  for (int64_t i = 0; i < x->meta.dim[axis]; i++) {
    if (ts_cpu_interrupted()) ts_lua_fail(L, TS_ERR_interrupt, "totable: interrupted");
    push_nested(L, x, axis + 1, at * x->meta.dim[axis] + i);
    lua_rawseti(L, -2, (int)i + 1);
  }
}

/* Of numbers in row-major order; what lies behind them. */
static const double *push_numbers(lua_State *L, const TsMeta *m, int axis, const double *at) {
  luaL_checkstack(L, 4, "totable");
  lua_createtable(L, (int)m->dim[axis], 0);
  for (int64_t i = 0; i < m->dim[axis]; i++) {
    if (ts_cpu_interrupted()) ts_lua_fail(L, TS_ERR_interrupt, "totable: interrupted");
    if (axis + 1 < m->ndim)
      at = push_numbers(L, m, axis + 1, at);
    else
      lua_pushnumber(L, *at++);
    lua_rawseti(L, -2, (int)i + 1);
  }
  return at;
}

/* Elements that are numbers of Lua's are converted all at once. */
static int totable(lua_State *L) {
  TsTensor *x = ts_lua_only(L, 1, "totable");
  TsContext *c = ts_lua_context(L);
  TsDtype d = ts_tensor_dtype(x);
  need_values(L, x);
  if (!x->meta.ndim || x->meta.device || d == TS_DT_i64 ||
      ts_dtype_is(d, TS_KIND_B | TS_KIND_C)) {
    push_nested(L, x, 0, 0);
    return 1;
  }
  x = ts_lua_told(L, x);
  TsTensor *numbers = ts_tensor_cast(c, x, TS_DT_f64);
  if (!numbers || (ts_mapped_changed() && ts_mapped_check(c, 1, &x))) {
    ts_tensor_unref(numbers);
    return ts_lua_raise(L);
  }
  ts_lua_push(L, numbers);
  const double *at = ts_tensor_read(numbers);
  if (!at) return ts_lua_raise(L);
  push_numbers(L, &numbers->meta, 0, at);
  return 1;
}

/* x:T(): the last two axes swapped. */
static int transposed(lua_State *L) {
  ts_lua_only(L, 1, "T");
  lua_settop(L, 1);
  return ts_lua_call(L, TS_OP_transpose, 1, false);
}

/* x on another device; on the tape it is a view. */
static TsTensor *moved(TsContext *c, TsTensor *x, int device) {
  TsTensor *there = ts_tensor_to(c, x, device);
  if (!there || there == x || !ts_tape_wants(c, 1, &x)) return there;
  TsAttr shape = ts_attr_ints(x->meta.dim, x->meta.ndim);
  TsTensor *y = ts_vm_call1(c, TS_OP_reshape, 1, &x, &shape);
  if (y) y->meta.device = (uint8_t)device;
  ts_tensor_unref(there);
  return y;
}

static int to(lua_State *L) {
  TsTensor *x = ts_lua_only(L, 2, "to");
  TsContext *c = ts_lua_context(L);
  const TsMesh *mesh = ts_lua_mesh(L, 2);
  if (mesh) return ts_lua_to_mesh(L, x, mesh);
  if (lua_type(L, 2) != LUA_TSTRING)
    return ts_lua_fail(L, TS_ERR_attribute,
                       "to: a device or a dtype is needed, \"cuda:0\" or \"f64\", not %s",
                       luaL_typename(L, 2));
  const char *where = ts_lua_word(L, 2);
  TsDtype d = ts_dtype_parse(where, (int)strlen(where));
  TsDevice *dev = d == TS_DT_none ? ts_device_find(where, &c->err) : NULL;
  if (d == TS_DT_none && !dev) return ts_lua_raise(L);
  TsAttr a = ts_attr_dtype(d);
  TsTensor *y = dev ? moved(c, x, dev->index)
                : d == ts_tensor_dtype(x) && !x->meta.weak
                    ? ts_tensor_ref(x)
                    : ts_vm_call1(c, TS_OP_cast, 1, &x, &a);
  if (!y) return ts_lua_raise(L);
  ts_lua_push(L, y);
  return 1;
}

static int copy_from(lua_State *L) {
  TsTensor *x = ts_lua_only(L, 2, "copy_");
  TsContext *c = ts_lua_context(L);
  TsTensor *y = ts_lua_tensor(L, 2);
  y = y ? ts_tensor_ref(y) : ts_lua_element(L, 2, x, "copy_");
  int failed = !y || ts_vm_assign(c, x, y);
  ts_tensor_unref(y);
  if (failed) return ts_lua_raise(L);
  lua_settop(L, 1);
  return 1;
}

/* The address of the first element, for ffi.cast; the host copy becomes the only
 * valid one, since the caller may write. */
static int data_ptr(lua_State *L) {
  TsTensor *x = ts_lua_only(L, 1, "data_ptr");
  void *p = ts_tensor_write(x);
  if (!p) return ts_lua_raise(L);
  ts_tensor_expose(x);
  lua_pushlightuserdata(L, p);
  return 1;
}

static int is_contiguous(lua_State *L) {
  lua_pushboolean(L, ts_lua_only(L, 1, "is_contiguous")->contiguous);
  return 1;
}

static int hash(lua_State *L) {
  uint64_t h;
  char t[20];
  TsTensor *x = ts_lua_told(L, ts_lua_only(L, 1, "hash"));
  if (ts_tensor_hash(ts_lua_context(L), x, &h)) return ts_lua_raise(L);
  snprintf(t, sizeof t, "%016llx", (unsigned long long)h);
  lua_pushstring(L, t);
  return 1;
}

/* Bytes of the elements in row-major order as a Lua string. */
static int bytes(lua_State *L) {
  TsTensor *x = ts_lua_told(L, ts_lua_only(L, 1, "bytes"));
  TsTensor *y = ts_tensor_contiguous(ts_lua_context(L), x);
  const char *p = y ? ts_tensor_read(y) : NULL;
  if (p) lua_pushlstring(L, p, (size_t)ts_meta_nbytes(&y->meta));
  ts_tensor_unref(y);
  if (ts_mapped_changed() && ts_mapped_check(ts_lua_context(L), 1, &x)) return ts_lua_raise(L);
  return p ? 1 : ts_lua_raise(L);
}

static int requires_grad_(lua_State *L) {
  TsTensor *x = ts_lua_only(L, 2, "requires_grad_");
  require_grad(L, x, lua_isnoneornil(L, 2) || lua_toboolean(L, 2));
  lua_settop(L, 1);
  return 1;
}

/* x:detach(): the same bytes, without the calls that made them. */
static int detach(lua_State *L) {
  TsTensor *x = ts_lua_only(L, 1, "detach");
  if (x->storage->symbolic) return ts_lua_call(L, TS_OP_stop_gradient, 1, false);
  TsTensor *y = ts_tensor_view(x, &x->meta, x->stride, x->offset);
  if (!y) return ts_lua_raise(L);
  y->apart = 1;
  ts_lua_push(L, y);
  return 1;
}

static int metamethod(lua_State *L) {
  TsOp op = (TsOp)lua_tointeger(L, lua_upvalueindex(1));
  lua_settop(L, op == TS_OP_neg ? 1 : 2);
  return ts_lua_call(L, op, 1, false);
}

bool ts_lua_is_metamethod(lua_CFunction f) { return f == metamethod; }
bool ts_lua_is_getter(lua_CFunction f) { return f == get; }

void ts_lua_open_tensor(lua_State *L) {
  static const luaL_Reg method[] = {{"item", item},
                                    {"totable", totable},
                                    {"T", transposed},
                                    {"to", to},
                                    {"copy_", copy_from},
                                    {"data_ptr", data_ptr},
                                    {"is_contiguous", is_contiguous},
                                    {"hash", hash},
                                    {"bytes", bytes},
                                    {"requires_grad_", requires_grad_},
                                    {"detach", detach},
                                    {NULL, NULL}};
  static const struct {
    const char *name;
    TsOp op;
  } arithmetic[] = {{"__add", TS_OP_add}, {"__sub", TS_OP_sub}, {"__mul", TS_OP_mul},
                    {"__div", TS_OP_div}, {"__mod", TS_OP_mod}, {"__pow", TS_OP_pow},
                    {"__unm", TS_OP_neg}};
  static const luaL_Reg meta[] = {{"__newindex", set}, {"__tostring", text}, {"__len", length},
                                  {"__concat", join},  {"__lt", order},      {"__le", order},
                                  {NULL, NULL}};
  lua_pushlightuserdata(L, &methods_key);
  lua_newtable(L);
  luaL_register(L, NULL, method);
  lua_rawset(L, LUA_REGISTRYINDEX);
  lua_newtable(L);
  luaL_register(L, NULL, meta);
  for (size_t i = 0; i < sizeof arithmetic / sizeof *arithmetic; i++) {
    lua_pushinteger(L, arithmetic[i].op);
    lua_pushcclosure(L, metamethod, 1);
    lua_setfield(L, -2, arithmetic[i].name);
  }
  lua_pushlightuserdata(L, &methods_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  lua_pushcclosure(L, get, 1);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "tensor");
  lua_setfield(L, -2, "__metatable");
  ts_lua_box_metatable(L);
}

/* The methods table, for the operators to enter. */
void ts_lua_push_methods(lua_State *L) {
  lua_pushlightuserdata(L, &methods_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
}

static int open_core(lua_State *L) {
  ts_lua_open_box(L);
  lua_newtable(L);
  ts_lua_open_ops(L);
  ts_lua_open_system(L);
  ts_lua_open_files(L);
  ts_lua_open_tokenizer(L);
  ts_lua_open_unicode(L);
  ts_lua_open_http(L);
  ts_lua_open_guard(L);
  ts_lua_open_together(L);
  ts_lua_open_graph(L);
  ts_lua_open_mesh(L);
  ts_lua_open_world(L);
  ts_lua_open_checkpoint(L);
  ts_lua_open_foreign(L);
  ts_lua_open_custom(L);
  ts_lua_open_ir(L);
  ts_lua_open_jit(L);
  ts_lua_open_choose(L);
  ts_lua_open_tile(L);
  ts_lua_open_kernel(L);
  ts_lua_open_debug(L);
  ts_lua_open_profile(L);
  ts_lua_open_fast(L);
  ts_tail_keep(L, -1, true);
  lua_getfield(L, -1, "op");
  ts_tail_keep(L, -1, true);
  lua_pop(L, 1);
  ts_lua_push_methods(L);
  ts_tail_keep(L, -1, true);
  lua_setfield(L, -2, "methods");
  return 1;
}

void ts_lua_open(lua_State *L, TsContext *c) {
  lua_pushlightuserdata(L, c);
  context_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  c->collect = collect_all;
  ts_lua_open_tensor(L);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  lua_pushcfunction(L, open_core);
  lua_setfield(L, -2, "tessera.core");
  lua_pop(L, 2);
}
