/* See vm/mesh/define.h. Sums are those of `sum`, so their leaves are as well; what is not finite
 * in between is computed in a wider type, or the row stays whole. */
#include "vm/mesh/define.h"

#include <math.h>
#include <string.h>

#include "lib/mesh.h"
#include "vm/core/exec.h"
#include "vm/drive/epilogue.h"

/* A chain of calls: each value is used up by the next; NULL once something failed. */
static TsTensor *call1(TsContext *c, TsOp op, TsTensor *x, const TsAttr *attr) {
  TsTensor *y = x ? ts_vm_call1(c, op, 1, &x, attr) : NULL;
  ts_tensor_unref(x);
  return y;
}

static TsTensor *call2(TsContext *c, TsOp op, TsTensor *a, TsTensor *b) {
  TsTensor *y = a && b ? ts_vm_call1(c, op, 2, (TsTensor *[]){a, b}, NULL) : NULL;
  ts_tensor_unref(a);
  ts_tensor_unref(b);
  return y;
}

static TsTensor *ref(TsTensor *t) { return t ? ts_tensor_ref(t) : NULL; }

static TsTensor *cast(TsContext *c, TsTensor *x, TsDtype d) {
  TsAttr a = ts_attr_dtype(d);
  return x && ts_tensor_dtype(x) == d ? x : call1(c, TS_OP_cast, x, &a);
}

/* The type that elements are added in. */
static TsDtype added_in(TsDtype d) {
  if (!ts_dtype_is(d, TS_KIND_F | TS_KIND_C)) return TS_DT_f64;
  return ts_dtype_is(d, TS_KIND_F) && ts_dtypes[d].nbytes < 4 ? TS_DT_f32 : d;
}

static int finish(TsCall *call, const TsMeta *out, TsTensor *y) {
  call->out[0] = cast(call->ctx, y, (TsDtype)out[0].dtype);
  return call->out[0] ? 1 : -1;
}

/* Whether the program has declared leaves, or one of these axes is split. */
static bool spread(const TsCall *call, int input, unsigned axes) {
  const TsLayout *l = ts_layout_of(&call->in[input]->meta);
  if (call->ctx->leaves > 1) return true;
  for (int d = 0; l && d < l->ndim; d++)
    if (axes >> d & 1 && (l->naxis[d] || l->partial)) return true;
  return false;
}

/* ---- reductions */
/* The axis whose leaves sum has: the first of those reduced that has several elements. Where
 * others are split the row is done in one piece. */
static unsigned summed_axis(const TsCall *call, const TsAttr *axis) {
  const TsMeta *x = &call->in[0]->meta;
  unsigned axes = axis->type == TS_ATTR_none ? ~0u : 0;
  for (int i = 0; axis->type != TS_ATTR_none && i < axis->n; i++)
    axes |= 1u << (axis->ints[i] < 0 ? axis->ints[i] + x->ndim : axis->ints[i]);
  for (int d = 0; d < x->ndim; d++)
    if (axes >> d & 1 && x->dim[d] != 1) return 1u << d;
  return 0;
}

static double per_result(const TsCall *call, const TsMeta *out) {
  double of = (double)ts_meta_numel(&out[0]);
  return of > 0 ? (double)ts_tensor_numel(call->in[0]) / of : 0;
}

static TsTensor *number(TsContext *c, double v) { return ts_tensor_number(c, v); }

/* The sum, divided by how many there are. */
static int mean(TsCall *call, const TsMeta *out) {
  TsContext *c = call->ctx;
  TsDtype d = added_in(ts_tensor_dtype(call->in[0]));
  TsTensor *sum = call1(c, TS_OP_sum, cast(c, ref(call->in[0]), d), call->attr);
  return finish(call, out, call2(c, TS_OP_div, sum, number(c, per_result(call, out))));
}

/* Of squares, which may be beyond the type's range: f64 has room for those of the others. */
static bool has_room(const TsCall *call) {
  TsDtype d = ts_tensor_dtype(call->in[0]);
  return d != TS_DT_f64 && !ts_dtype_is(d, TS_KIND_C);
}

static int variance(TsCall *call, const TsMeta *out) {
  TsContext *c = call->ctx;
  TsAttr kept[] = {call->attr[0], ts_attr_bool(true)};
  double n = per_result(call, out), less = n - call->attr[2].f;
  TsTensor *x = cast(c, ref(call->in[0]), TS_DT_f64);
  TsTensor *middle = call1(c, TS_OP_sum, ref(x), kept);
  middle = call2(c, TS_OP_div, middle, number(c, n));
  TsTensor *far = call2(c, TS_OP_sub, x, middle);
  far = call2(c, TS_OP_mul, ref(far), far);
  TsTensor *y = call1(c, TS_OP_sum, far, call->attr);
  y = call2(c, TS_OP_div, y, number(c, less > 0 ? less : 0));
  if (call->op == TS_OP_std) y = call1(c, TS_OP_sqrt, y, NULL);
  return finish(call, out, y);
}

static int norm(TsCall *call, const TsMeta *out) {
  TsContext *c = call->ctx;
  TsTensor *x = call1(c, TS_OP_abs, cast(c, ref(call->in[0]), TS_DT_f64), NULL);
  bool square = call->attr[0].f == 2;
  if (square) x = call2(c, TS_OP_mul, ref(x), x);
  x = call1(c, TS_OP_sum, x, call->attr + 1);
  return finish(call, out, square ? call1(c, TS_OP_sqrt, x, NULL) : x);
}

static int logsumexp(TsCall *call, const TsMeta *out) {
  TsContext *c = call->ctx;
  TsAttr kept[] = {call->attr[0], ts_attr_bool(true)};
  TsDtype d = ts_tensor_dtype(call->in[0]) == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  TsTensor *x = cast(c, ref(call->in[0]), d), *most = call1(c, TS_OP_max, ref(x), kept);
  TsTensor *finite = call1(c, TS_OP_isfinite, ref(most), NULL), *zero = number(c, 0), *shift;
  TsTensor *y = finite && zero
                    ? ts_vm_call1(c, TS_OP_where, 3, (TsTensor *[]){finite, most, zero}, NULL)
                    : NULL;
  ts_tensor_unref(finite);
  ts_tensor_unref(most);
  ts_tensor_unref(zero);
  shift = y;
  y = call1(c, TS_OP_exp, call2(c, TS_OP_sub, x, ref(shift)), NULL);
  y = call1(c, TS_OP_log, call1(c, TS_OP_sum, y, call->attr), NULL);
  if (shift && y && !ts_meta_same_shape(&shift->meta, &y->meta)) {
    TsAttr shape = {.type = TS_ATTR_ints, .n = y->meta.ndim, .ints = y->meta.dim};
    shift = call1(c, TS_OP_reshape, shift, &shape);
  }
  return finish(call, out, call2(c, TS_OP_add, y, shift));
}

/* ---- losses: rows by themselves; how many of them count is a whole number */
enum { MEAN, SUM, NONE, REDUCTION = 0, IGNORED = 1 };

static bool rows_spread(const TsCall *call) {
  unsigned rows = (1u << (call->in[0]->meta.ndim - 1)) - 1;
  return spread(call, 0, rows) || spread(call, 1, rows);
}

/* Of all rows, or of targets that are not ignored. */
static TsTensor *counted(TsCall *call, TsDtype d) {
  TsContext *c = call->ctx;
  TsTensor *target = call->in[1];
  const TsMeta *x = &call->in[0]->meta;
  double n = 1;
  for (int i = 0; i < x->ndim - 1; i++) n *= (double)x->dim[i];
  if (ts_dtype_is(ts_tensor_dtype(target), TS_KIND_F)) return number(c, n);
  TsAttr all[] = {{.type = TS_ATTR_none}, ts_attr_bool(false)}, wide = ts_attr_dtype(TS_DT_i64);
  TsTensor *t = call1(c, TS_OP_cast, ref(target), &wide);
  TsTensor *left = call2(c, TS_OP_ne, t, number(c, (double)call->attr[IGNORED].i));
  return cast(c, call1(c, TS_OP_count_nonzero, left, all), d);
}

static void of_rows(const TsCall *call, TsAttr *attr) {
  memcpy(attr, call->attr, sizeof *attr * ts_op_info(call->op)->nattr);
  attr[REDUCTION].i = NONE;
}

static int cross_entropy(TsCall *call, const TsMeta *out) {
  TsContext *c = call->ctx;
  TsDtype d = (TsDtype)ts_dtypes[out[0].dtype].accum;
  TsAttr attr[TS_MAX_ATTR], all[] = {{.type = TS_ATTR_none}, ts_attr_bool(false)};
  of_rows(call, attr);
  bool divides = call->attr[REDUCTION].i == MEAN;
  TsTensor *n = divides ? counted(call, d) : NULL; /* first: the gradient waits for it alone */
  TsTensor *x = cast(c, ref(call->in[0]), d), *y = NULL;
  if (x) y = ts_vm_call1(c, call->op, 2, (TsTensor *[]){x, call->in[1]}, attr);
  ts_tensor_unref(x);
  y = call1(c, TS_OP_sum, y, all);
  return finish(call, out, divides ? call2(c, TS_OP_div, y, n) : y);
}

static int cross_entropy_grad(TsCall *call, const TsMeta *out) {
  TsContext *c = call->ctx;
  TsDtype d = (TsDtype)ts_dtypes[out[0].dtype].accum;
  TsMeta rows = call->in[0]->meta;
  TsAttr attr[TS_MAX_ATTR],
      shape = {.type = TS_ATTR_ints, .n = rows.ndim - 1, .ints = rows.dim};
  of_rows(call, attr);
  TsTensor *g = cast(c, ref(call->in[2]), d);
  if (call->attr[REDUCTION].i == MEAN) g = call2(c, TS_OP_div, g, counted(call, d));
  g = call1(c, TS_OP_broadcast_to, g, &shape);
  TsTensor *in[] = {call->in[0], call->in[1], g};
  call->out[0] = g ? ts_vm_call1(c, call->op, 3, in, attr) : NULL;
  ts_tensor_unref(g);
  return call->out[0] ? 1 : -1;
}

/* ---- a product with what is done to its finished sum, as rules make it of several operators: that comes
 * behind the sum of all devices, in the type that is added in, and what comes of it is rounded once. */
enum { ACCUMULATE = 1, EPILOGUE = 2, BIAS = 2, RESIDUAL = 3 };

static TsTensor *given(const TsCall *call, int i) { return call->nin > i ? call->in[i] : NULL; }

static bool has_epilogue(const TsCall *call) {
  return call->attr[EPILOGUE].type == TS_ATTR_str || given(call, BIAS) || given(call, RESIDUAL);
}

static bool inner_spread(const TsCall *call) {
  int last = call->in[0]->meta.ndim - 1, n = call->in[1]->meta.ndim;
  return spread(call, 0, 1u << last) || spread(call, 1, 1u << (n > 1 ? n - 2 : 0));
}

static TsTensor *with_word(TsCall *call, TsEpilogueWord word, TsTensor *y, TsDtype d) {
  TsContext *c = call->ctx;
  TsTensor *x = word == TS_EPILOGUE_bias ? call->in[BIAS] : given(call, RESIDUAL);
  switch (word) {
  case TS_EPILOGUE_relu: return call1(c, TS_OP_relu, y, NULL);
  case TS_EPILOGUE_silu: return call1(c, TS_OP_silu, y, NULL);
  case TS_EPILOGUE_gelu: return call1(c, TS_OP_gelu_erf, y, NULL);
  default: return call2(c, TS_OP_add, y, cast(c, ref(x), d));
  }
}

static int product(TsCall *call, const TsMeta *out) {
  TsAttr attr[TS_MAX_ATTR];
  TsEpilogueWord word[TS_EPILOGUE_MAX];
  TsDtype d = (TsDtype)out[0].dtype;
  if (ts_dtype_is(d, TS_KIND_F)) d = added_in(d);
  if (ts_epilogue_read(call, &call->attr[EPILOGUE], given(call, BIAS) != NULL,
                       given(call, RESIDUAL) != NULL, d, word))
    return -1;
  memcpy(attr, call->attr, sizeof *attr * ts_op_info(call->op)->nattr);
  attr[EPILOGUE] = (TsAttr){.type = TS_ATTR_none};
  if (d != out[0].dtype) attr[ACCUMULATE] = ts_attr_dtype(d);
  TsTensor *y = ts_vm_call1(call->ctx, call->op, 2, call->in, attr);
  for (int i = 0; word[i] != TS_EPILOGUE_end; i++) y = with_word(call, word[i], y, d);
  return finish(call, out, y);
}

/* ---- attention over sequences that are split. Heads need nothing of each other, so devices exchange
 * rows for heads, each does some heads over the whole sequence, and they exchange back. The bits are
 * those of one device, which a sum over pieces of the sequence would not have. Rejected: passing keys
 * round a ring, whose order is another one on each device; and gathering all keys, 2 n / 4 times
 * the bytes. */
enum { Q, K, V };

/* Rows of l by heads, as far as there are heads for all pieces; or l. */
static const TsLayout *by_heads(TsContext *c, const TsMeta *m, int64_t kv_heads) {
  const TsLayout *l = ts_layout_of(m);
  int rows = m->ndim - 2, heads = m->ndim - 3;
  if (!l || l->partial || !l->naxis[rows] || l->block[rows] || l->block[heads] ||
      l->naxis[heads] + l->naxis[rows] > TS_MESH_AXES)
    return l;
  TsLayout y = *l;
  memcpy(y.axis[heads] + y.naxis[heads], y.axis[rows], y.naxis[rows]);
  y.naxis[heads] += y.naxis[rows], y.naxis[rows] = 0;
  return ts_layout_pieces(&y, heads) <= kv_heads ? ts_layout_make(&y, &c->err) : l;
}

static TsTensor *under(TsContext *c, TsTensor *t, const TsLayout *l) {
  char text[TS_SPEC_TEXT];
  if (!t || !l || ts_layout_of(&t->meta) == l) return ref(t);
  TsAttr spec = {.type = TS_ATTR_str, .str = ts_layout_spec(l, text)};
  return ts_vm_call1(c, TS_OP_reshard, 1, &t, &spec);
}

static bool rows_are_split(const TsMeta *m) {
  const TsLayout *l = ts_layout_of(m);
  return l && m->ndim >= 3 && l->naxis[m->ndim - 2];
}

/* Of attention and of its gradient: operands from `first` on are like q. */
static int exchanged(TsCall *call, int first) {
  TsContext *c = call->ctx;
  TsTensor *in[TS_MAX_IN] = {NULL}, *out[TS_MAX_OUT] = {NULL};
  const TsMeta *k = &call->in[K]->meta;
  int64_t kv_heads = k->ndim >= 3 ? k->dim[k->ndim - 3] : 0;
  int failed = 0, nout = 0, back[] = {Q, K, V};
  if (by_heads(c, &call->in[Q]->meta, kv_heads) == ts_layout_of(&call->in[Q]->meta)) return 0;
  for (int i = 0; i < call->nin && !failed; i++) {
    TsTensor *t = call->in[i];
    bool spreads = t && (i <= V || i >= first);
    in[i] = spreads ? under(c, t, by_heads(c, &t->meta, kv_heads)) : ref(t);
    failed = t && !in[i];
  }
  if (!failed)
    failed = ts_vm_call(c, call->op, call->nin, in, call->attr, TS_MAX_OUT, &nout, out);
  for (int o = 0; o < nout && !failed; o++)
    failed = !(call->out[o] = under(c, out[o], ts_layout_of(&call->in[back[o]]->meta)));
  for (int i = 0; i < call->nin; i++) ts_tensor_unref(in[i]);
  for (int o = 0; o < nout; o++) ts_tensor_unref(out[o]);
  return failed ? -1 : 1;
}

static int attention(TsCall *call) {
  const TsOpInfo *o = ts_op_info(call->op);
  bool some = false, gradient = call->op == TS_OP_attention_grad;
  for (int i = 0; i < o->nattr; i++) {
    if (o->attr[i].namelen == 6 && !memcmp(o->attr[i].name, "causal", 6))
      some |= call->attr[i].i;
    if (o->attr[i].namelen == 6 && !memcmp(o->attr[i].name, "window", 6))
      some |= call->attr[i].type == TS_ATTR_int;
    if (o->attr[i].namelen == 6 && !memcmp(o->attr[i].name, "scores", 6) && call->attr[i].i)
      return 0;
  }
  if (!rows_are_split(&call->in[Q]->meta) || call->nout > 3) return 0;
  if (!gradient && !some && !rows_are_split(&call->in[K]->meta))
    return 0; /* each its queries */
  return exchanged(call, gradient ? 5 : TS_MAX_IN);
}

int ts_mesh_define(TsCall *call, const TsMeta *out) {
  const TsAttr *a = call->attr;
  switch (call->op) {
  case TS_OP_mean: return spread(call, 0, summed_axis(call, a)) ? mean(call, out) : 0;
  case TS_OP_var:
  case TS_OP_std:
    return has_room(call) && spread(call, 0, summed_axis(call, a)) ? variance(call, out) : 0;
  case TS_OP_norm:
    if (a[0].f != 1 && a[0].f != 2) return 0;
    return has_room(call) && spread(call, 0, summed_axis(call, a + 1)) ? norm(call, out) : 0;
  case TS_OP_logsumexp:
    if (!ts_tensor_numel(call->in[0])) return 0;
    return spread(call, 0, summed_axis(call, a)) ? logsumexp(call, out) : 0;
  case TS_OP_cross_entropy:
    return a[REDUCTION].i != NONE && rows_spread(call) ? cross_entropy(call, out) : 0;
  case TS_OP_cross_entropy_grad:
    return a[REDUCTION].i != NONE && rows_spread(call) ? cross_entropy_grad(call, out) : 0;
  case TS_OP_matmul: return has_epilogue(call) && inner_spread(call) ? product(call, out) : 0;
  case TS_OP_attention:
  case TS_OP_attention_grad: return attention(call);
  default: return 0;
  }
}
