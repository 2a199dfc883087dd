/* Between Lua values and tensors: numbers and nested tables in, elements out,
 * indexing by numbers, slice strings and tensors. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "ir/text/size.h"
#include "repl/lua/mesh.h"
#include "repl/lua_api.h"
#include "vm/core/copy.h"
#include "vm/core/mapped.h"
#include "vm/core/scratch.h"

bool ts_lua_whole(double v, int64_t *out) {
  if (!(v >= -0x1p63 && v < 0x1p63) || v != floor(v)) return false;
  *out = (int64_t)v;
  return !ts_size_is(*out);
}

/* ---- in. LuaJIT's 64-bit integers and complex numbers are cdata: their type is
 * asked by a function of Lua. */
enum { CDATA_none, CDATA_signed, CDATA_unsigned, CDATA_complex, CDATA_complex_float };

static char cdata_key;

static int cdata_kind(lua_State *L, int index) {
  lua_pushlightuserdata(L, &cdata_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    luaL_loadstring(L, "local ffi = require 'ffi'\n"
                       "return function(v)\n"
                       "  if ffi.istype('int64_t', v) then return 1 end\n"
                       "  if ffi.istype('uint64_t', v) then return 2 end\n"
                       "  if ffi.istype('complex', v) then return 3 end\n"
                       "  if ffi.istype('complex float', v) then return 4 end\n"
                       "end");
    lua_call(L, 0, 1);
    lua_pushlightuserdata(L, &cdata_key);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
  }
  lua_pushvalue(L, index);
  lua_call(L, 1, 1);
  int kind = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return kind;
}

enum { LUA_TCDATA_ = 10 };

/* What a table holds: each number in f64, integers beyond 2^53 beside it. */
typedef struct Reader {
  lua_State *L;
  TsContext *c;
  const char *what; /* heads the messages */
  TsMeta m;
  bool any_complex, any_whole, any_bool, any_number;
  double *part; /* pairs of complex128 */
  int64_t *whole;
  int64_t n;
} Reader;

static int shape_of(Reader *r, int index) {
  lua_State *L = r->L;
  lua_pushvalue(L, index);
  int depth = 1;
  while (lua_type(L, -1) == LUA_TTABLE) {
    if (r->m.ndim == TS_MAX_RANK)
      return ts_error_set(&r->c->err, TS_ERR_shape, "%s: tables nested deeper than %d", r->what,
                          TS_MAX_RANK);
    r->m.dim[r->m.ndim++] = (int64_t)lua_objlen(L, -1);
    luaL_checkstack(L, 8, "tensor");
    lua_rawgeti(L, -1, 1);
    depth++;
    if (r->m.dim[r->m.ndim - 1] == 0) break;
  }
  lua_pop(L, depth);
  return 0;
}

static int cannot_hold(Reader *r, int index) {
  if (ts_lua_tensor(r->L, index)) {
    ts_error_set(&r->c->err, TS_ERR_value, "%s: a table of numbers holds no tensor", r->what);
    return ts_error_hint(&r->c->err, "op.stack{x, y} makes one tensor of several");
  }
  return ts_error_set(&r->c->err, TS_ERR_value, "%s: a tensor cannot hold a %s", r->what,
                      luaL_typename(r->L, index));
}

static int read_cdata(Reader *r, int index, double part[2], int64_t *whole) {
  const void *p = lua_topointer(r->L, index);
  int kind = cdata_kind(r->L, index);
  switch (kind) {
  case CDATA_complex: memcpy(part, p, 16); break;
  case CDATA_complex_float:
    part[0] = (double)((const float *)p)[0], part[1] = (double)((const float *)p)[1];
    break;
  case CDATA_signed:
  case CDATA_unsigned: memcpy(whole, p, 8); break;
  default: return cannot_hold(r, index);
  }
  if (kind >= CDATA_complex) return r->any_complex = true, 0;
  if (kind == CDATA_unsigned && *whole < 0) {
    ts_error_set(&r->c->err, TS_ERR_value, "%s: %llu does not fit into i64", r->what,
                 (unsigned long long)*whole);
    return ts_error_hint(&r->c->err, "the greatest integer is 9223372036854775807LL");
  }
  r->any_whole = true;
  part[0] = (double)*whole;
  return 0;
}

static int read_leaf(Reader *r, int index) {
  lua_State *L = r->L;
  double *part = r->part + 2 * r->n;
  int64_t *whole = r->whole + r->n;
  part[0] = part[1] = 0;
  switch (lua_type(L, index)) {
  case LUA_TNUMBER:
    r->any_number = true;
    part[0] = lua_tonumber(L, index);
    break;
  case LUA_TBOOLEAN:
    r->any_bool = true;
    part[0] = lua_toboolean(L, index);
    break;
  case LUA_TCDATA_: r->n++; return read_cdata(r, index, part, whole);
  default: return cannot_hold(r, index);
  }
  *whole = part[0] >= -0x1p63 && part[0] < 0x1p63 ? (int64_t)part[0] : 0;
  r->n++;
  return 0;
}

static int read_nested(Reader *r, int index, int axis) {
  lua_State *L = r->L;
  if (axis == r->m.ndim) {
    if (lua_type(L, index) == LUA_TTABLE)
      return ts_error_set(&r->c->err, TS_ERR_shape, "%s: tables of uneven depth", r->what);
    return read_leaf(r, index);
  }
  int64_t n = r->m.dim[axis];
  if (lua_type(L, index) != LUA_TTABLE || (int64_t)lua_objlen(L, index) != n)
    return ts_error_set(
        &r->c->err, TS_ERR_shape,
        "%s: uneven table: axis %d has %lld elements in one place, %lld in "
        "another",
        r->what, axis, (long long)n,
        (long long)(lua_type(L, index) == LUA_TTABLE ? lua_objlen(L, index) : 0));
  for (int64_t i = 0; i < n; i++) {
    if (ts_cpu_interrupted())
      return ts_error_set(&r->c->err, TS_ERR_interrupt, "%s: interrupted", r->what);
    lua_rawgeti(L, index, (int)i + 1);
    int failed = read_nested(r, lua_gettop(L), axis + 1);
    lua_pop(L, 1);
    if (failed) return -1;
  }
  return 0;
}

static TsDtype natural_dtype(const Reader *r) {
  if (r->any_complex) return TS_DT_complex64;
  if (r->any_number) return TS_DT_f32;
  if (r->any_whole) return TS_DT_i64;
  return r->any_bool ? TS_DT_bool : TS_DT_f32;
}

/* The same of twice the precision. */
static TsDtype wide_dtype(TsDtype d) {
  return d == TS_DT_f32 ? TS_DT_f64 : d == TS_DT_complex64 ? TS_DT_complex128 : d;
}

static int refuse_complex(const Reader *r, const double part[2], TsDtype d) {
  ts_error_set(&r->c->err, TS_ERR_value, "%s: %.17g%+.17gi does not fit into %s", r->what,
               part[0], part[1], ts_dtype_name(d));
  return ts_error_hint(&r->c->err, "cast the tensor to complex64 or complex128 first");
}

/* Real types hold no imaginary part, integers what they can count. */
static int check_elements(const Reader *r, TsDtype d) {
  bool whole = ts_dtype_is(d, TS_KIND_B | TS_KIND_U | TS_KIND_I);
  if (ts_dtype_is(d, TS_KIND_C) || (!whole && !r->any_complex)) return 0;
  int64_t lo, hi;
  if (whole) ts_dtype_int_range(d, &lo, &hi);
  for (int64_t i = 0; i < r->n; i++) {
    const double *part = r->part + 2 * i;
    if (part[1] != 0) return refuse_complex(r, part, d);
    bool exact = part[0] == (double)r->whole[i]; /* what came as a 64-bit integer is */
    if (whole && !(exact && r->whole[i] >= lo && r->whole[i] <= hi))
      return ts_dtype_check_number(d, part[0], r->what, &r->c->err);
  }
  return 0;
}

static TsTensor *fill(Reader *r, TsDtype d) {
  r->m.dtype = (uint8_t)d;
  if (ts_dtype_in_blocks(d)) {
    ts_error_set(&r->c->err, TS_ERR_dtype, "%s: make f32 and cast to %s", r->what,
                 ts_dtype_name(d));
    return NULL;
  }
  TsTensor *t = check_elements(r, d) ? NULL : ts_tensor_new(r->c, &r->m);
  if (!t) return NULL;
  bool ints = ts_dtype_is(d, TS_KIND_I | TS_KIND_U);
  TsDtype from = ints ? TS_DT_i64 : TS_DT_complex128;
  r->c->k->convert.convert[from][d](r->n, t->storage->host,
                                    ints ? (const void *)r->whole : r->part);
  return t;
}

static TsTensor *tensor_of(lua_State *L, int index, TsDtype dtype, bool wide,
                           const char *what) {
  Reader r = {.L = L, .c = ts_lua_context(L), .what = what};
  if (index < 0) index += lua_gettop(L) + 1;
  if (shape_of(&r, index) || ts_meta_check_size(&r.m, what, &r.c->err)) return NULL;
  int64_t n = ts_meta_numel(&r.m);
  r.part = ts_work_take(n * 16);
  r.whole = ts_work_take(n * 8);
  TsTensor *t = NULL;
  if (!r.part || !r.whole) {
    ts_error_set(&r.c->err, TS_ERR_memory, "%s: out of memory", what);
  } else if (!read_nested(&r, index, 0)) {
    TsDtype natural = natural_dtype(&r);
    t = fill(&r, dtype != TS_DT_none ? dtype : wide ? wide_dtype(natural) : natural);
  }
  ts_work_give(r.part);
  ts_work_give(r.whole);
  return t;
}

TsTensor *ts_lua_from_value(lua_State *L, int index, TsDtype dtype, const char *what) {
  return tensor_of(L, index, dtype, false, what);
}

TsTensor *ts_lua_operand(lua_State *L, int index, const char *what) {
  if (lua_type(L, index) == LUA_TNUMBER)
    return ts_tensor_number(ts_lua_context(L), lua_tonumber(L, index));
  return tensor_of(L, index, TS_DT_none, true, what);
}

TsTensor *ts_lua_element(lua_State *L, int index, const TsTensor *x, const char *what) {
  if (lua_type(L, index) == LUA_TNUMBER)
    return ts_tensor_number(ts_lua_context(L), lua_tonumber(L, index));
  return tensor_of(L, index, ts_tensor_dtype(x), false, what);
}

/* ---- out */
static void push_cdata(lua_State *L, const char *code, double a, double b) {
  luaL_loadstring(L, code);
  lua_pushnumber(L, a);
  lua_pushnumber(L, b);
  lua_call(L, 2, 1);
}

/* Integers beyond 2^53 come as int64_t, complex numbers as LuaJIT's complex. */
void ts_lua_push_element(lua_State *L, TsTensor *x, int64_t index) {
  TsDtype d = ts_tensor_dtype(x);
  x = ts_lua_told(L, x);
  if (!ts_tensor_read(x)) { /* a device may have failed: no zero instead */
    ts_lua_raise(L);
    return;
  }
  if (ts_dtype_is(d, TS_KIND_B)) {
    lua_pushboolean(L, ts_tensor_get_int(x, index) != 0);
  } else if (ts_dtype_is(d, TS_KIND_C)) {
    double part[2];
    ts_tensor_get_complex(x, index, part);
    push_cdata(L, "return require('ffi').new('complex', ...)", part[0], part[1]);
  } else if (d == TS_DT_i64) {
    int64_t v = ts_tensor_get_int(x, index);
    if (v >= -(INT64_C(1) << 53) && v <= INT64_C(1) << 53)
      lua_pushnumber(L, (double)v);
    else
      push_cdata(L, "local h, l = ...; return h * 0x100000000LL + l", (double)(v >> 32),
                 (double)(v & 0xffffffff));
  } else {
    lua_pushnumber(L, ts_tensor_get(x, index));
  }
  if (ts_mapped_changed() && ts_mapped_check(ts_lua_context(L), 1, &x)) ts_lua_raise(L);
}

/* ---- indexing */
typedef struct Slice {
  int64_t start[TS_MAX_RANK], stop[TS_MAX_RANK], step[TS_MAX_RANK];
  bool drop[TS_MAX_RANK];
  int n;                          /* axes of x that are described */
  int added[TS_MAX_RANK], nadded; /* new axes: their place among x's axes */
} Slice;

static const char *spaces(const char *s) {
  while (isspace((unsigned char)*s)) s++;
  return s;
}

static int bad_slice(TsContext *c, const char *text) {
  ts_error_set(&c->err, TS_ERR_index, "index: cannot read the slice \"%s\"", text);
  return ts_error_hint(&c->err, "\"1:5, ..., ::2, -1\" takes ranges, steps, positions; "
                                "newaxis adds an axis");
}

static int one_slice(const char **at, Slice *s) {
  int64_t v[3] = {INT64_MIN, INT64_MIN, 1};
  int colons = 0, given = 0, i = s->n;
  const char *p = *at;
  for (;;) {
    char *end;
    p = spaces(p);
    if (*p == ':') {
      if (++colons > 2) return -1;
      p++;
      continue;
    }
    int64_t x = strtoll(p, &end, 10);
    if (end == p) break;
    v[colons] = x;
    given++;
    p = end;
  }
  if (!colons && given != 1) return -1;
  s->start[i] = v[0];
  s->stop[i] = v[1];
  s->step[i] = v[2];
  s->drop[i] = !colons;
  s->n++;
  *at = p;
  return 0;
}

static int starts(const char *p, const char *word) {
  size_t n = strlen(word);
  return !strncmp(p, word, n) ? (int)n : 0;
}

static void whole_axes(Slice *s, int upto) {
  for (; s->n < upto; s->n++) {
    s->start[s->n] = s->stop[s->n] = INT64_MIN;
    s->step[s->n] = 1;
    s->drop[s->n] = false;
  }
}

/* Counts the parts that use up an axis of x, to know what "..." stands for. */
static int axes_named(const char *text) {
  int n = 0;
  for (const char *p = text; *p;) {
    size_t len = strcspn(p, ",");
    const char *q = spaces(p);
    if (!*q) break; /* a comma may end the list */
    if (!starts(q, "...") && !starts(q, "newaxis") && !starts(q, "None")) n++;
    p += len + (p[len] == ',');
  }
  return n;
}

static int parse_slice(TsContext *c, const char *text, int ndim, Slice *s) {
  int named = axes_named(text), len;
  bool dots = false;
  for (const char *p = spaces(text); *p; p = spaces(p)) {
    if ((len = starts(p, "..."))) {
      if (dots) return bad_slice(c, text);
      dots = true;
      whole_axes(s, s->n + ndim - named);
    } else if ((len = starts(p, "newaxis")) || (len = starts(p, "None"))) {
      if (s->nadded == TS_MAX_RANK) return bad_slice(c, text);
      s->added[s->nadded++] = s->n;
    } else {
      if (s->n == TS_MAX_RANK || one_slice(&p, s)) return bad_slice(c, text);
      len = 0;
    }
    p = spaces(p + len);
    if (*p == ',')
      p++;
    else if (*p)
      return bad_slice(c, text);
  }
  if (s->n > ndim) {
    return ts_error_set(&c->err, TS_ERR_index, "index: \"%s\" names %d axes of %d", text, s->n,
                        ndim);
  }
  whole_axes(s, ndim);
  return 0;
}

static TsTensor *step_op(TsContext *c, TsOp op, TsTensor *x, const TsAttr *attr) {
  TsTensor *y = x ? ts_vm_call1(c, op, 1, &x, attr) : NULL;
  ts_tensor_unref(x);
  return y;
}

/* Takes over no reference of x; the result is a view. */
static TsTensor *apply_slice(TsContext *c, TsTensor *x, Slice *s) {
  TsAttr a[3] = {ts_attr_ints(s->start, s->n), ts_attr_ints(s->stop, s->n),
                 ts_attr_ints(s->step, s->n)};
  int64_t keep[TS_MAX_RANK];
  for (int i = 0; i < s->n; i++) {
    keep[i] = s->start[i];
    if (!s->drop[i]) continue;
    s->start[i] = s->stop[i] = INT64_MIN;
  }
  TsTensor *y = step_op(c, TS_OP_slice, ts_tensor_ref(x), a);
  for (int i = s->n; i-- > 0;) {
    if (!s->drop[i]) continue;
    TsAttr sel[2] = {ts_attr_int(i), ts_attr_int(keep[i])};
    y = step_op(c, TS_OP_select, y, sel);
  }
  for (int i = 0; i < s->nadded; i++) {
    int dropped = 0;
    for (int k = 0; k < s->added[i]; k++) dropped += s->drop[k];
    TsAttr axis = ts_attr_int(s->added[i] - dropped + i);
    y = step_op(c, TS_OP_unsqueeze, y, &axis);
  }
  return y;
}

static TsTensor *view_of(lua_State *L, TsContext *c, TsTensor *x, int key) {
  if (lua_type(L, key) == LUA_TNUMBER) {
    double v = lua_tonumber(L, key);
    TsAttr a[2] = {ts_attr_int(0), ts_attr_int(0)};
    if (!ts_lua_whole(v, &a[1].i)) {
      ts_error_set(&c->err, TS_ERR_index, "index: %.14g is not an integer", v);
      return NULL;
    }
    return ts_vm_call1(c, TS_OP_select, 1, &x, a);
  }
  if (lua_type(L, key) == LUA_TSTRING) {
    Slice s = {.n = 0};
    const char *text = ts_lua_word(L, key);
    return parse_slice(c, text, x->meta.ndim, &s) ? NULL : apply_slice(c, x, &s);
  }
  ts_error_set(&c->err, TS_ERR_index, "index: a tensor is not indexed by a %s",
               luaL_typename(L, key));
  ts_error_hint(&c->err, "x[0], x[\"0:2, ..., -1\"], x[mask] or x[indices]");
  return NULL;
}

int ts_lua_index(lua_State *L, TsTensor *x, int key) {
  TsContext *c = ts_lua_context(L);
  TsTensor *by = ts_lua_tensor(L, key), *in[2] = {x, by}, *y;
  TsAttr axis = ts_attr_int(0);
  if (by && ts_tensor_dtype(by) == TS_DT_bool)
    y = ts_vm_call1(c, TS_OP_masked_select, 2, in, NULL);
  else
    y = by ? ts_vm_call1(c, TS_OP_index_select, 2, in, &axis) : view_of(L, c, x, key);
  if (!y) return ts_lua_raise(L);
  ts_lua_push(L, y);
  return 1;
}

/* A number goes by masked_fill, whose result has x's type whatever the number is. */
static int assign_masked(TsContext *c, TsTensor *x, TsTensor *mask, TsTensor *v) {
  if (v->meta.weak && !v->storage->symbolic) {
    TsTensor *in[2] = {x, mask};
    TsAttr value = {.type = TS_ATTR_f, .f = ts_tensor_number_value(v)};
    return ts_vm_call_into(c, TS_OP_masked_fill, 2, in, &value, x);
  }
  TsTensor *in[3] = {mask, v, x};
  int failed = ts_vm_call_into(c, TS_OP_where, 3, in, NULL, x);
  if (failed && c->err.code == TS_ERR_shape)
    ts_error_hint(&c->err, "values for the true places alone, one after the other, go in by "
                           "x = op.masked_scatter(x, mask, values)");
  return failed;
}

static TsTensor *shaped(TsContext *c, TsOp op, TsTensor *x, const int64_t *dim, int ndim) {
  const TsAttr shape = ts_attr_ints(dim, ndim);
  return x ? ts_vm_call1(c, op, 1, &x, &shape) : NULL;
}

/* Values in place of the slices of x at indices, each a slice of v, which broadcasts; of equal
 * indices the last wins. */
static int assign_indexed(TsContext *c, TsTensor *x, TsTensor *by, TsTensor *v) {
  int64_t all[TS_MAX_RANK * 2], row[TS_MAX_RANK];
  int nd = x->meta.ndim, extra = by->meta.ndim;
  if (nd == 0 || nd - 1 + extra > TS_MAX_RANK) {
    ts_error_set(&c->err, TS_ERR_index, "assignment: %d axes of indices for %d of the tensor",
                 extra, nd);
    return -1;
  }
  for (int i = 0; i < extra; i++) all[i] = by->meta.dim[i];
  for (int i = 1; i < nd; i++) all[extra + i - 1] = row[i] = x->meta.dim[i];
  row[0] = ts_tensor_numel(by);
  TsAttr dtype = ts_attr_dtype(ts_tensor_dtype(x)), axis = ts_attr_int(0);
  TsTensor *cast = ts_vm_call1(c, TS_OP_cast, 1, &v, &dtype);
  TsTensor *wide = shaped(c, TS_OP_broadcast_to, cast, all, extra + nd - 1);
  TsTensor *src = shaped(c, TS_OP_reshape, wide, row, nd), *line = NULL, *index = NULL;
  for (int i = 1; i < nd; i++) all[i] = 1;
  all[0] = row[0];
  if (src) line = shaped(c, TS_OP_reshape, by, all, nd);
  index = shaped(c, TS_OP_broadcast_to, line, row, nd);
  TsTensor *in[3] = {x, index, src};
  int failed = !index || ts_vm_call_into(c, TS_OP_scatter, 3, in, &axis, x);
  ts_tensor_unref(cast), ts_tensor_unref(wide), ts_tensor_unref(src);
  ts_tensor_unref(line), ts_tensor_unref(index);
  return failed ? -1 : 0;
}

int ts_lua_assign(lua_State *L, TsTensor *x, int key, int value) {
  TsContext *c = ts_lua_context(L);
  TsTensor *by = ts_lua_tensor(L, key), *v = ts_lua_tensor(L, value), *to = NULL;
  v = v ? ts_tensor_ref(v) : ts_lua_element(L, value, x, "assignment");
  int failed = !v;
  if (!failed && by && ts_tensor_dtype(by) == TS_DT_bool) {
    failed = assign_masked(c, x, by, v);
  } else if (!failed && by) {
    failed = assign_indexed(c, x, by, v);
  } else if (!failed) {
    to = view_of(L, c, x, key);
    if (to && ts_lua_mesh_view_is_copy(to)) { /* its elements are not where x has them */
      ts_tensor_unref(v);
      ts_tensor_unref(to);
      return ts_lua_mesh_assign(L, x, key, value);
    }
    failed = !to || ts_vm_assign(c, to, v);
  }
  ts_tensor_unref(v);
  ts_tensor_unref(to);
  return failed ? ts_lua_raise(L) : 0;
}
