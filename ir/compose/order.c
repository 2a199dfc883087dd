/* Rows that look for places: extremes and medians with where they stand, searches in what is
 * sorted, counts. */
#include <math.h>

#include "ir/compose/compose.h"

static bool is_float(TsBuild *b, TsVal x) {
  return ts_dtype_is((TsDtype)b->meta(b, x)->dtype, TS_KIND_F);
}

/* ---- along an axis, or of all elements */
typedef struct Along {
  TsVal x; /* one axis where none is named, and of a number */
  int axis;
  TsMeta given;
  bool all, keepdims;
} Along;

static int along(TsCompose *k, const TsAttr *axis, bool keepdims, Along *a) {
  TsBuild *b = k->b;
  a->x = k->in[0];
  a->given = *b->meta(b, a->x);
  a->all = axis->type == TS_ATTR_none || a->given.ndim == 0;
  a->keepdims = keepdims;
  a->axis = 0;
  if (axis->type != TS_ATTR_none &&
      (a->axis = ts_compose_axis(k, axis->i, a->given.ndim ? a->given.ndim : 1)) < 0)
    return -1;
  int64_t n = ts_meta_numel(&a->given);
  if (a->all) a->x = ts_build_reshape(b, a->x, &n, 1);
  return b->failed ? -1 : 0;
}

/* One element along the axis, in the shape that is asked for. */
static TsVal shaped(TsBuild *b, const Along *a, TsVal v) {
  int64_t dim[TS_MAX_RANK];
  int n = 0;
  for (int i = 0; i < a->given.ndim; i++)
    if (!a->all && i != a->axis)
      dim[n++] = a->given.dim[i];
    else if (a->keepdims)
      dim[n++] = 1;
  return ts_build_reshape(b, v, dim, n);
}

static TsVal place_of(TsBuild *b, TsOp op, const Along *a) {
  return ts_build(b, op, TS_IN(a->x),
                  TS_ATTRS({"axis", ts_b_int(a->axis)}, {"keepdims", ts_b_bool(true)}), NULL);
}

static int pair(TsCompose *k, const Along *a, TsVal value, TsVal place) {
  k->out[0] = shaped(k->b, a, value);
  k->out[1] = shaped(k->b, a, place);
  k->nout = 2;
  return k->b->failed ? -1 : 0;
}

static int extreme(TsCompose *k, TsOp op) {
  TsBuild *b = k->b;
  Along a;
  if (along(k, &k->attr[0], k->attr[1].i, &a)) return -1;
  TsVal place = place_of(b, op, &a);
  TsVal value =
      ts_build(b, TS_OP_gather, TS_IN(a.x, place), TS_ATTRS({"axis", ts_b_int(a.axis)}), NULL);
  return pair(k, &a, value, place);
}

int ts_compose_max_indices(TsCompose *k) { return extreme(k, TS_OP_argmax); }
int ts_compose_min_indices(TsCompose *k) { return extreme(k, TS_OP_argmin); }

static TsVal sorted(TsBuild *b, const Along *a, TsVal both[2]) {
  both[0] = both[1] = NULL;
  return ts_build(b, TS_OP_sort, TS_IN(a->x), TS_ATTRS({"axis", ts_b_int(a->axis)}), both);
}

static int64_t length(TsBuild *b, const Along *a) {
  return b->failed ? 0 : b->meta(b, a->x)->dim[a->axis];
}

static int nothing(TsCompose *k) {
  char text[TS_META_TEXT];
  return ts_build_fail(k->b, TS_ERR_value, "%s: of no elements: %s", ts_op_info(k->op)->name,
                       ts_meta_text(k->b->meta(k->b, k->in[0]), text));
}

/* A NaN stands last of what is sorted, and is then the result. */
int ts_compose_median_indices(TsCompose *k) {
  TsBuild *b = k->b;
  Along a;
  TsVal s[2];
  if (along(k, &k->attr[0], k->attr[1].i, &a)) return -1;
  int64_t n = length(b, &a);
  if (n == 0) return nothing(k);
  sorted(b, &a, s);
  TsVal value = ts_build_narrow(b, s[0], a.axis, (n - 1) / 2, 1);
  TsVal place = ts_build_narrow(b, s[1], a.axis, (n - 1) / 2, 1);
  if (is_float(b, a.x)) {
    TsVal last = ts_build_narrow(b, s[0], a.axis, n - 1, 1),
          odd = ts_build1(b, TS_OP_isnan, last);
    value = ts_build_where(b, odd, last, value);
    place = ts_build_where(b, odd, place_of(b, TS_OP_argmax, &a), place);
  }
  return pair(k, &a, value, place);
}

int ts_compose_kthvalue(TsCompose *k) {
  TsBuild *b = k->b;
  Along a;
  TsVal s[2] = {NULL};
  int64_t nth = k->attr[0].i;
  if (along(k, &k->attr[1], k->attr[2].i, &a)) return -1;
  int64_t n = length(b, &a);
  if (nth < 1 || nth > n)
    return ts_build_fail(b, TS_ERR_value, "kthvalue: k = %lld of %lld elements", (long long)nth,
                         (long long)n);
  ts_build(
      b, TS_OP_topk, TS_IN(a.x),
      TS_ATTRS({"k", ts_b_int(nth)}, {"axis", ts_b_int(a.axis)}, {"largest", ts_b_bool(false)}),
      s);
  return pair(k, &a, ts_build_narrow(b, s[0], a.axis, nth - 1, 1),
              ts_build_narrow(b, s[1], a.axis, nth - 1, 1));
}

/* The running maximum of what is ordered the other way round: -x, or the bits inverted, which
 * no integer overflows. */
int ts_compose_cummin(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal made[2] = {NULL};
  TsOp turn = is_float(b, k->in[0]) ? TS_OP_neg : TS_OP_bitwise_not;
  ts_build(b, TS_OP_cummax, TS_IN(ts_build1(b, turn, k->in[0])),
           TS_ATTRS({"axis", ts_b_int(k->attr[0].i)}), made);
  k->out[0] = ts_build1(b, turn, made[0]);
  k->out[1] = made[1];
  k->nout = 2;
  return b->failed ? -1 : 0;
}

/* ---- quantiles */
enum { LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST };

/* Elements of sorted ones, or the mean of two. */
static TsVal picked(TsBuild *b, const Along *a, TsVal s, double q, int64_t method) {
  int64_t n = length(b, a);
  double at = q * (double)(n - 1), low = floor(at);
  double k = method == HIGHER ? ceil(at) : method == NEAREST ? rint(at) : low;
  TsVal v = ts_build_narrow(b, s, a->axis, (int64_t)k, 1);
  if (method != MIDPOINT || at == low) return v;
  TsVal next = ts_build_narrow(b, s, a->axis, (int64_t)low + 1, 1);
  return ts_build2(b, TS_OP_mul, ts_build2(b, TS_OP_add, v, next), b->number(b, 0.5));
}

static TsVal quantile_of(TsCompose *k, double q) {
  return ts_build(k->b, TS_OP_quantile, TS_IN(k->in[0]),
                  TS_ATTRS({"q", ts_b_f(q)}, {"axis", k->attr[1]}, {"keepdims", k->attr[2]}),
                  NULL);
}

static TsVal of_method(TsCompose *k, const Along *a, TsVal s, double q) {
  TsBuild *b = k->b;
  TsVal v = picked(b, a, s, q, k->attr[3].i);
  TsVal last = ts_build_narrow(b, s, a->axis, length(b, a) - 1, 1);
  return shaped(b, a, ts_build_where(b, ts_build1(b, TS_OP_isnan, last), last, v));
}

int ts_compose_quantiles(TsCompose *k) {
  TsBuild *b = k->b;
  const TsAttr *q = &k->attr[0];
  enum { MOST = 64 };
  TsVal one[MOST], s[2] = {NULL};
  Along a;
  if (along(k, &k->attr[1], k->attr[2].i, &a)) return -1;
  if (length(b, &a) == 0) return nothing(k);
  if (q->n < 1 || q->n > MOST)
    return ts_build_fail(b, TS_ERR_value, "quantiles: %d of them, not 1 to %d", q->n, MOST);
  if (k->attr[3].i != LINEAR) sorted(b, &a, s);
  for (int i = 0; i < q->n; i++) {
    if (!(q->floats[i] >= 0 && q->floats[i] <= 1))
      return ts_build_fail(b, TS_ERR_value, "quantiles: q = %g is not in 0..1", q->floats[i]);
    one[i] = s[0] ? of_method(k, &a, s[0], q->floats[i]) : quantile_of(k, q->floats[i]);
  }
  k->out[0] = q->n == 1
                  ? one[0]
                  : ts_build(b, TS_OP_stack, q->n, one, TS_ATTRS({"axis", ts_b_int(0)}), NULL);
  return b->failed ? -1 : 0;
}

/* ---- searching: by halves, each element for itself */
/* Whether what stands at a place comes before v: NaN is largest. */
static TsVal before(TsBuild *b, TsVal at, TsVal v, bool right) {
  TsVal less = ts_build2(b, right ? TS_OP_le : TS_OP_lt, at, v);
  if (b->failed || !is_float(b, v)) return less;
  TsVal odd = ts_build1(b, TS_OP_isnan, v);
  if (!right && is_float(b, at))
    odd = ts_build2(b, TS_OP_logical_and, odd,
                    ts_build1(b, TS_OP_logical_not, ts_build1(b, TS_OP_isnan, at)));
  return ts_build2(b, TS_OP_logical_or, less, odd);
}

/* Elements of the rows of x, or of one row for all. */
static TsVal fetch(TsBuild *b, TsVal x, TsVal index) {
  if (b->failed) return NULL;
  if (b->meta(b, x)->ndim == 1) return ts_build2(b, TS_OP_take, x, index);
  return ts_build(b, TS_OP_gather, TS_IN(x, index), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
}

static TsVal full_of(TsBuild *b, TsVal like, double value) {
  return ts_build(b, TS_OP_full_like, TS_IN(like),
                  TS_ATTRS({"value", ts_b_f(value)}, {"dtype", ts_b_dtype(TS_DT_i64)}), NULL);
}

static TsVal search(TsBuild *b, TsVal x, TsVal v, bool right) {
  const TsMeta *m = b->meta(b, x);
  int64_t n = m->dim[m->ndim - 1], step = 1;
  TsVal found = full_of(b, v, 0);
  if (n == 0) return found;
  while (step <= n / 2) step *= 2;
  for (; step && !b->failed; step /= 2) {
    TsVal next = ts_build2(b, TS_OP_add, found, b->number(b, (double)step));
    TsVal at = ts_build2(b, TS_OP_minimum, next, b->number(b, (double)n));
    at = fetch(b, x, ts_build2(b, TS_OP_sub, at, b->number(b, 1)));
    TsVal inside = ts_build2(b, TS_OP_le, next, b->number(b, (double)n));
    TsVal move = ts_build2(b, TS_OP_logical_and, inside, before(b, at, v, right));
    found = ts_build_where(b, move, next, found);
  }
  return found;
}

static int searched(TsCompose *k, TsVal x, TsVal v) {
  TsBuild *b = k->b;
  TsMeta row = *b->meta(b, x), m = *b->meta(b, v);
  char tx[TS_META_TEXT], tv[TS_META_TEXT];
  bool fits = row.ndim == 1 || (row.ndim > 1 && row.ndim == m.ndim);
  for (int i = 0; fits && row.ndim > 1 && i < m.ndim - 1; i++) fits = row.dim[i] == m.dim[i];
  if (!fits)
    return ts_build_fail(
        b, TS_ERR_shape,
        "%s: one sorted row is needed, or one for each of the values': %s x %s",
        ts_op_info(k->op)->name, ts_meta_text(&row, tx), ts_meta_text(&m, tv));
  k->out[0] = search(b, x, v, k->attr[0].i);
  return b->failed ? -1 : 0;
}

int ts_compose_searchsorted(TsCompose *k) { return searched(k, k->in[0], k->in[1]); }
int ts_compose_bucketize(TsCompose *k) { return searched(k, k->in[1], k->in[0]); }

/* ---- counts */
static TsVal flat(TsBuild *b, TsVal x) {
  int64_t n = ts_meta_numel(b->meta(b, x));
  return ts_build_reshape(b, x, &n, 1);
}

/* One more than the greatest, and no element below 0. */
static int count_of(TsCompose *k, TsVal x, int64_t *n) {
  TsBuild *b = k->b;
  int64_t least;
  *n = 0;
  if (ts_meta_numel(b->meta(b, x)) == 0) return 0;
  if (ts_build_whole(b, ts_build1(b, TS_OP_max, x), "bincount", "length", n)) return -1;
  if (ts_build_whole(b, ts_build1(b, TS_OP_min, x), "bincount", "length", &least)) return -1;
  if (*n < INT64_MAX) ++*n;
  return least >= 0
             ? 0
             : ts_build_fail(b, TS_ERR_value, "bincount: %lld is below 0", (long long)least);
}

int ts_compose_bincount(TsCompose *k) {
  TsBuild *b = k->b;
  char tx[TS_META_TEXT], tw[TS_META_TEXT];
  if (!ts_dtype_is((TsDtype)b->meta(b, k->in[0])->dtype, TS_KIND_I | TS_KIND_U))
    return ts_build_fail(b, TS_ERR_dtype, "bincount: whole numbers are needed, not %s",
                         ts_meta_text(b->meta(b, k->in[0]), tx));
  TsVal x = ts_build_cast(b, flat(b, k->in[0]), TS_DT_i64), w = k->nin > 1 ? k->in[1] : NULL;
  int64_t n = k->attr[0].type == TS_ATTR_int ? k->attr[0].i : -1;
  if (b->failed) return -1;
  if (w && !ts_meta_same_shape(b->meta(b, k->in[0]), b->meta(b, w)))
    return ts_build_fail(b, TS_ERR_shape, "bincount: weights differ in shape: %s x %s",
                         ts_meta_text(b->meta(b, k->in[0]), tx),
                         ts_meta_text(b->meta(b, w), tw));
  if (k->attr[0].type == TS_ATTR_int && n < 0)
    return ts_build_fail(b, TS_ERR_value, "bincount: length %lld", (long long)n);
  if (n < 0 && count_of(k, x, &n)) return -1;
  if (k->attr[0].type == TS_ATTR_int) /* what is below 0 is no place from the end */
    x = ts_build_where(b, ts_build2(b, TS_OP_lt, x, b->number(b, 0)), b->number(b, (double)n),
                       x);
  w = w ? flat(b, w)
        : ts_build(b, TS_OP_ones_like, TS_IN(x), TS_ATTRS({"dtype", ts_b_dtype(TS_DT_i64)}),
                   NULL);
  TsDtype d = b->failed ? TS_DT_i64 : (TsDtype)b->meta(b, w)->dtype;
  TsVal zeros = ts_build(b, TS_OP_zeros, 0, NULL,
                         TS_ATTRS({"shape", ts_b_ints(&n, 1)}, {"dtype", ts_b_dtype(d)}), NULL);
  k->out[0] =
      ts_build(b, TS_OP_scatter_add, TS_IN(zeros, x, w), TS_ATTRS({"axis", ts_b_int(0)}), NULL);
  return b->failed ? -1 : 0;
}

/* Place i of the result comes from the first element whose count, with all before, is above i. */
int ts_compose_repeat_counts(TsCompose *k) {
  TsBuild *b = k->b;
  Along a;
  TsVal counts = k->in[1];
  const TsMeta *m = b->meta(b, counts);
  int64_t least = 0, total = 0, n;
  char text[TS_META_TEXT];
  if (along(k, &k->attr[0], true, &a)) return -1;
  n = length(b, &a);
  if (!ts_dtype_is((TsDtype)m->dtype, TS_KIND_I | TS_KIND_U) || m->ndim > 1 ||
      (ts_meta_numel(m) != 1 && ts_meta_numel(m) != n))
    return ts_build_fail(b, TS_ERR_shape,
                         "repeat_counts: one whole count for each of %lld elements is needed, "
                         "not %s",
                         (long long)n, ts_meta_text(m, text));
  counts = ts_build(b, TS_OP_broadcast_to, TS_IN(ts_build_cast(b, counts, TS_DT_i64)),
                    TS_ATTRS({"shape", ts_b_ints(&n, 1)}), NULL);
  if (k->attr[1].type == TS_ATTR_int)
    total = k->attr[1].i;
  else if (n && (ts_build_whole(b, ts_build1(b, TS_OP_sum, counts), "repeat_counts", "size",
                                &total) ||
                 ts_build_whole(b, ts_build1(b, TS_OP_min, counts), "repeat_counts", "size",
                                &least)))
    return -1;
  if (least < 0 || total < 0)
    return ts_build_fail(b, TS_ERR_value, "repeat_counts: %lld repetitions",
                         (long long)(least < 0 ? least : total));
  TsVal ends = ts_build(b, TS_OP_cumsum, TS_IN(counts), TS_ATTRS({"axis", ts_b_int(0)}), NULL);
  TsVal at = ts_build(b, TS_OP_arange, 0, NULL,
                      TS_ATTRS({"start", ts_b_f(0)}, {"stop", ts_b_f((double)total)},
                               {"dtype", ts_b_dtype(TS_DT_i64)}),
                      NULL);
  if (b->failed) return -1;
  k->out[0] = ts_build(b, TS_OP_index_select, TS_IN(a.x, search(b, ends, at, true)),
                       TS_ATTRS({"axis", ts_b_int(a.axis)}), NULL);
  return b->failed ? -1 : 0;
}
