/* Short forms of building, and the table of COMPOSE definitions. */
#include "ir/compose/compose.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ENTRY_POINTWISE(name)
#define ENTRY_REDUCE(name)
#define ENTRY_SCAN(name)
#define ENTRY_RANDOM(name)
#define ENTRY_VIEW(name)
#define ENTRY_KERNEL(name)
#define ENTRY_COMPOSE(name) [TS_OP_##name] = ts_compose_##name,
#define ENTRY_DIRECT(name)  ENTRY_COMPOSE(name)

TsComposeFn *const ts_compose_table[TS_OP_COUNT] = {
#define OP(name, cls, ...) ENTRY_##cls(name)
#include "lib/ops.def"
#undef OP
};

static bool is_float(const TsMeta *m) {
  return !m->weak && ts_dtype_is((TsDtype)m->dtype, TS_KIND_F | TS_KIND_C);
}

static bool is_narrow(const TsMeta *m) { return ts_dtypes[m->dtype].compute != m->dtype; }

/* Whether an input is not of a type that the definition computes in, or that the row takes. */
static bool needs_casts(const TsCompose *k) {
  int types = ts_op_info(k->op)->types;
  bool floats = !(types & (TS_KIND_B | TS_KIND_U | TS_KIND_I));
  bool wide = ts_op_info(k->op)->wide;
  for (int i = 0; i < k->nin; i++) {
    const TsMeta *m = k->given[i] ? k->b->meta(k->b, k->given[i]) : NULL;
    if (!m || ts_dtype_in_blocks(m->dtype)) continue;
    bool complex = ts_dtype_is((TsDtype)m->dtype, TS_KIND_C) && !(types & TS_KIND_C);
    if (complex || (floats && !is_float(m)) || (wide && is_narrow(m))) return true;
  }
  return false;
}

/* Real and complex floats alone are what definitions of such rows are made of. result: the
 * type that the row promises. */
static int casts(TsCompose *k, TsVal *in, TsDtype *result) {
  TsBuild *b = k->b;
  const TsMeta *m[TS_MAX_IN];
  for (int i = 0; i < k->nin; i++) {
    in[i] = k->given[i];
    m[i] = in[i] ? b->meta(b, in[i]) : NULL;
  }
  TsInfer inf = {.op = k->op, .nin = k->nin, .in = m, .attr = k->attr, .err = b->err};
  if (ts_op_infer_types(&inf)) return b->failed = true, -1;
  TsDtype d = ts_dtype_float(ts_dtype_real(inf.compute));
  bool wide = ts_op_info(k->op)->wide;
  *result = (TsDtype)inf.out[0].dtype;
  if (wide) d = (TsDtype)ts_dtypes[d].compute;
  for (int i = 0; i < k->nin; i++) {
    if (!m[i] || !ts_op_is_value(k->op, i) || ts_dtype_in_blocks(m[i]->dtype)) continue;
    bool number = m[i]->weak && d != TS_DT_f32; /* in f32 a number is what it is anyway */
    bool other = !m[i]->weak && (!is_float(m[i]) || (wide && is_narrow(m[i])));
    if (number || other) in[i] = ts_build_cast(b, in[i], d);
  }
  return b->failed ? -1 : 0;
}

static int compose(TsCompose *k) {
  TsVal in[TS_MAX_IN];
  TsDtype result = TS_DT_none;
  bool other = needs_casts(k);
  if (other && casts(k, in, &result)) return -1;
  k->in = other ? in : k->given;
  int failed = ts_compose_table[k->op](k) || k->b->failed;
  k->in = NULL;
  if (failed || !other || !ts_op_info(k->op)->wide) return failed ? -1 : 0;
  for (int i = 0; i < k->nout; i++)
    if (k->b->meta(k->b, k->out[i])->dtype != result)
      k->out[i] = ts_build_cast(k->b, k->out[i], result);
  return k->b->failed ? -1 : 0;
}

int ts_compose(TsCompose *k) {
  int failed = compose(k);
  if (failed) ts_op_error_of(k->b->err, ts_op_info(k->op)->name);
  return failed;
}

static void set_attr(TsAttr *attr, const TsOpInfo *o, const TsBuildAttr *a) {
  for (int i = 0; i < o->nattr; i++) {
    const TsAttrSpec *s = &o->attr[i];
    if (strlen(a->name) != (size_t)s->namelen || memcmp(a->name, s->name, (size_t)s->namelen))
      continue;
    if (a->value.type != TS_ATTR_none && a->value.type != s->type)
      TS_BUG("%s: attribute %s has another type", o->name, a->name);
    attr[i] = a->value;
    return;
  }
  TS_BUG("%s has no attribute %s", o->name, a->name);
}

TsVal ts_build(TsBuild *b, TsOp op, int nin, const TsVal *in, int nattr,
               const TsBuildAttr *attr, TsVal *out) {
  TsAttr full[TS_MAX_ATTR];
  if (b->failed) return NULL;
  ts_op_defaults(op, full);
  for (int i = 0; i < nattr; i++) set_attr(full, ts_op_info(op), &attr[i]);
  return b->emit(b, op, nin, in, full, out);
}

TsVal ts_build1(TsBuild *b, TsOp op, TsVal x) {
  return ts_build(b, op, TS_IN(x), TS_NO_ATTRS, NULL);
}

TsVal ts_build2(TsBuild *b, TsOp op, TsVal x, TsVal y) {
  return ts_build(b, op, TS_IN(x, y), TS_NO_ATTRS, NULL);
}

TsVal ts_build_neg(TsBuild *b, TsVal x) { return ts_build1(b, TS_OP_neg, x); }
TsVal ts_build_add(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_add, x, y); }
TsVal ts_build_sub(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_sub, x, y); }
TsVal ts_build_mul(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_mul, x, y); }
TsVal ts_build_div(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_div, x, y); }

TsVal ts_build_scale(TsBuild *b, TsVal x, double factor) {
  return ts_build_mul(b, x, b->number(b, factor));
}

TsVal ts_build_where(TsBuild *b, TsVal cond, TsVal x, TsVal y) {
  return ts_build(b, TS_OP_where, TS_IN(cond, x, y), TS_NO_ATTRS, NULL);
}

TsVal ts_build_zeros_like(TsBuild *b, TsVal x) { return ts_build1(b, TS_OP_zeros_like, x); }

TsVal ts_build_conj(TsBuild *b, TsVal x) {
  if (!x || !ts_dtype_is((TsDtype)b->meta(b, x)->dtype, TS_KIND_C)) return x;
  return ts_build1(b, TS_OP_conj, x);
}

TsVal ts_build_expand(TsBuild *b, TsVal x, const int64_t *dim, int ndim) {
  return ts_build(b, TS_OP_broadcast_to, TS_IN(x), TS_ATTRS({"shape", ts_b_ints(dim, ndim)}),
                  NULL);
}

TsVal ts_build_reshape(TsBuild *b, TsVal x, const int64_t *dim, int ndim) {
  return ts_build(b, TS_OP_reshape, TS_IN(x), TS_ATTRS({"shape", ts_b_ints(dim, ndim)}), NULL);
}

TsVal ts_build_permute(TsBuild *b, TsVal x, const int64_t *perm, int n) {
  return ts_build(b, TS_OP_permute, TS_IN(x), TS_ATTRS({"perm", ts_b_ints(perm, n)}), NULL);
}

TsVal ts_build_narrow(TsBuild *b, TsVal x, int axis, int64_t start, int64_t length) {
  return ts_build(b, TS_OP_narrow, TS_IN(x),
                  TS_ATTRS({"axis", ts_b_int(axis)}, {"start", ts_b_int(start)},
                           {"length", ts_b_int(length)}),
                  NULL);
}

TsVal ts_build_cast(TsBuild *b, TsVal x, TsDtype d) {
  return ts_build(b, TS_OP_cast, TS_IN(x), TS_ATTRS({"dtype", ts_b_dtype(d)}), NULL);
}

TsVal ts_build_sum(TsBuild *b, TsVal x, const int64_t *axis, int naxis, bool keepdims) {
  return ts_build(b, TS_OP_sum, TS_IN(x),
                  TS_ATTRS({"axis", ts_b_ints(axis, naxis)}, {"keepdims", ts_b_bool(keepdims)}),
                  NULL);
}

int ts_build_fail(TsBuild *b, TsErrorCode code, const char *format, ...) {
  va_list ap;
  if (b->failed) return -1;
  va_start(ap, format);
  char text[sizeof b->err->message];
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  b->failed = true;
  return ts_error_set(b->err, code, "%s", text);
}

int ts_compose_finish(TsCompose *k, TsVal v) {
  k->out[0] = v;
  return k->b->failed ? -1 : 0;
}

int ts_compose_axis(TsCompose *k, int64_t axis, int ndim) {
  if (axis >= -ndim && axis < ndim) return (int)(axis < 0 ? axis + ndim : axis);
  return ts_build_fail(k->b, TS_ERR_index, "%s: axis %lld is out of range for %d axes",
                       ts_op_info(k->op)->name, (long long)axis, ndim);
}

int ts_build_whole(TsBuild *b, TsVal v, const char *row, const char *option, int64_t *out) {
  *out = 0;
  if (b->failed) return -1;
  if (!b->whole) {
    ts_build_fail(b, TS_ERR_value,
                  "%s: its result's shape depends on data and cannot be captured", row);
    return ts_error_hint(b->err, "name it: {%s = ..}", option);
  }
  if (b->whole(b, v, out)) return b->failed = true, -1;
  return 0;
}
