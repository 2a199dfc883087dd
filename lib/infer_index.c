/* Shape rules of rows that move elements: casting, joining, padding, indexing. */
#include "lib/infer.h"

static const char *opname(const TsInfer *inf) { return ts_op_info(inf->op)->name; }

/* Elements of blocks cannot be moved one by one. */
static int no_blocks(TsInfer *inf) {
  for (int i = 0; i < inf->nin; i++) {
    TsDtype d = inf->in[i] ? (TsDtype)inf->in[i]->dtype : TS_DT_f32;
    if (!ts_dtype_in_blocks(d)) continue;
    ts_error_set(inf->err, TS_ERR_dtype, "%s: %s is stored in blocks of %d elements",
                 opname(inf), ts_dtype_name(d), ts_dtypes[d].block);
    return ts_error_hint(inf->err, "convert with x:cast(\"bf16\") first");
  }
  return 0;
}

static int same_shape(TsInfer *inf, const TsMeta *m) {
  int dtype = inf->out[0].dtype;
  inf->out[0] = *m;
  inf->out[0].dtype = (uint8_t)dtype;
  inf->out[0].weak = 0;
  inf->out[0].device = inf->in[0]->device;
  return 0;
}

static int vector(TsInfer *inf, int64_t n) {
  same_shape(inf, inf->in[0]);
  inf->out[0].ndim = 1;
  inf->out[0].dim[0] = n;
  return 0;
}

static int too_deep(TsInfer *inf) {
  return ts_error_set(inf->err, TS_ERR_shape, "%s: more than %d axes", opname(inf),
                      TS_MAX_RANK);
}

static bool has_blocks(TsDtype d) {
  return d == TS_DT_f16 || d == TS_DT_bf16 || d == TS_DT_f32 || d == TS_DT_f64;
}

/* Blocks hold neighbours of the last axis; they come from f32 only. */
int ts_shape_rule_cast(TsInfer *inf) {
  const TsMeta *x = inf->in[0];
  TsDtype from = (TsDtype)x->dtype, to = (TsDtype)inf->out[0].dtype;
  char text[TS_META_TEXT];
  same_shape(inf, x);
  if (from == to || (!ts_dtype_in_blocks(from) && !ts_dtype_in_blocks(to))) return 0;
  if (ts_dtype_in_blocks(from) ? !has_blocks(to) : from != TS_DT_f32) {
    ts_error_set(inf->err, TS_ERR_dtype, "cast: no conversion from %s to %s",
                 ts_dtype_name(from), ts_dtype_name(to));
    return ts_error_hint(inf->err, "go through f32: x:cast(\"f32\"):cast(\"%s\")",
                         ts_dtype_name(to));
  }
  TsDtype stored = ts_dtype_in_blocks(to) ? to : from;
  int block = ts_dtypes[stored].block;
  if (x->ndim > 0 && x->dim[x->ndim - 1] % block == 0) return 0;
  return ts_error_set(inf->err, TS_ERR_shape,
                      "cast: %s needs a last axis of a multiple of %d elements, not %s",
                      ts_dtype_name(stored), block, ts_meta_text(x, text));
}

int ts_shape_rule_concat(TsInfer *inf) {
  const TsMeta *x = inf->in[0];
  int axis;
  if (no_blocks(inf) || ts_infer_axis(inf, inf->attr[0].i, x->ndim, &axis)) return -1;
  same_shape(inf, x);
  for (int i = 1; i < inf->nin; i++) {
    const TsMeta *y = inf->in[i];
    bool fits = y->ndim == x->ndim;
    for (int a = 0; fits && a < x->ndim; a++) fits = a == axis || x->dim[a] == y->dim[a];
    if (!fits) {
      ts_infer_mismatch(inf, "shapes do not fit", 0, i);
      return ts_error_hint(inf->err, "all sizes but those of axis %d must be equal", axis);
    }
    inf->out[0].dim[axis] += y->dim[axis];
  }
  return 0;
}

/* stack is expanded before inference would come here; graphs of it are checked. */
int ts_shape_rule_stack(TsInfer *inf) {
  const TsMeta *x = inf->in[0];
  int axis;
  if (no_blocks(inf)) return -1;
  if (x->ndim == TS_MAX_RANK) return too_deep(inf);
  if (ts_infer_axis(inf, inf->attr[0].i, x->ndim + 1, &axis)) return -1;
  for (int i = 1; i < inf->nin; i++)
    if (!ts_meta_same_shape(x, inf->in[i]))
      return ts_infer_mismatch(inf, "shapes differ", 0, i);
  same_shape(inf, x);
  TsMeta *m = &inf->out[0];
  memmove(m->dim + axis + 1, m->dim + axis, (size_t)(x->ndim - axis) * sizeof *m->dim);
  m->dim[axis] = inf->nin;
  m->ndim++;
  return 0;
}

enum { PAD_constant, PAD_reflect, PAD_replicate, PAD_circular };

static int check_pad(TsInfer *inf, int axis, int64_t n, int64_t before, int64_t after) {
  int64_t mode = inf->attr[1].i, most = before > after ? before : after;
  char text[TS_META_TEXT];
  ts_meta_text(inf->in[0], text);
  if (before < 0 || after < 0) {
    ts_error_set(inf->err, TS_ERR_value, "pad: %lld is negative",
                 (long long)(before < 0 ? before : after));
    return ts_error_hint(inf->err, "cut with a slice: x[\"1:-1\"]");
  }
  if ((mode == PAD_reflect && most >= n && most) || (mode == PAD_circular && most > n) ||
      (mode == PAD_replicate && n == 0 && most))
    return ts_error_set(inf->err, TS_ERR_value,
                        "pad: %lld elements cannot come from axis %d of %s", (long long)most,
                        axis, text);
  return 0;
}

int ts_shape_rule_pad(TsInfer *inf) {
  const TsMeta *x = inf->in[0];
  const TsAttr *pads = &inf->attr[0];
  char text[TS_META_TEXT];
  if (no_blocks(inf)) return -1;
  if (pads->n % 2 || pads->n / 2 > x->ndim) {
    ts_error_set(inf->err, TS_ERR_attribute, "pad: %d numbers for %s", pads->n,
                 ts_meta_text(x, text));
    return ts_error_hint(inf->err, "two for each padded axis, before and after");
  }
  same_shape(inf, x);
  bool constant = inf->attr[1].i == 0;
  if (constant && ts_dtype_check_number((TsDtype)x->dtype, inf->attr[2].f, "pad", inf->err))
    return -1;
  int first = x->ndim - pads->n / 2;
  for (int a = first; a < x->ndim; a++) {
    const int64_t *p = pads->ints + 2 * (a - first);
    if (check_pad(inf, a, x->dim[a], p[0], p[1])) return -1;
    if (__builtin_add_overflow(inf->out[0].dim[a], p[0], &inf->out[0].dim[a]) ||
        __builtin_add_overflow(inf->out[0].dim[a], p[1], &inf->out[0].dim[a]))
      return ts_error_set(inf->err, TS_ERR_memory, "pad: the result is larger than any memory");
  }
  return 0;
}

int ts_shape_rule_roll(TsInfer *inf) {
  const TsAttr *shift = &inf->attr[0], *axes = &inf->attr[1];
  int axis;
  if (no_blocks(inf)) return -1;
  if (axes->type == TS_ATTR_none ? shift->n != 1 : shift->n != axes->n)
    return ts_error_set(inf->err, TS_ERR_attribute, "roll: %d shifts for %d axes", shift->n,
                        axes->type == TS_ATTR_none ? 1 : axes->n);
  for (int i = 0; axes->type != TS_ATTR_none && i < axes->n; i++)
    if (ts_infer_axis(inf, axes->ints[i], inf->in[0]->ndim, &axis)) return -1;
  return same_shape(inf, inf->in[0]);
}

int ts_shape_rule_repeat_interleave(TsInfer *inf) {
  int64_t count = inf->attr[0].i;
  int axis = 0;
  if (no_blocks(inf)) return -1;
  if (count < 0)
    return ts_error_set(inf->err, TS_ERR_value, "repeat_interleave: count %lld is negative",
                        (long long)count);
  if (inf->attr[1].type == TS_ATTR_none) {
    vector(inf, ts_meta_numel(inf->in[0]));
  } else {
    if (ts_infer_axis(inf, inf->attr[1].i, inf->in[0]->ndim, &axis)) return -1;
    same_shape(inf, inf->in[0]);
  }
  if (__builtin_mul_overflow(inf->out[0].dim[axis], count, &inf->out[0].dim[axis]))
    return ts_error_set(inf->err, TS_ERR_memory, "%s: the result is larger than any memory",
                        opname(inf));
  return 0;
}

/* ---- indexing */

static int index_is_whole(TsInfer *inf) {
  const TsMeta *index = inf->in[1];
  if (ts_dtype_is((TsDtype)index->dtype, TS_KIND_I | TS_KIND_U)) return 0;
  ts_error_set(inf->err, TS_ERR_dtype, "%s: the index must be integers, not %s", opname(inf),
               ts_dtype_name((TsDtype)index->dtype));
  if (ts_dtype_is((TsDtype)index->dtype, TS_KIND_C))
    return ts_error_hint(inf->err, "no place is a complex number");
  if (index->dtype != TS_DT_bool) return ts_error_hint(inf->err, "x:cast(\"i64\") truncates");
  return ts_error_hint(inf->err, "a mask selects with x:masked_select(mask)");
}

static int index_type(TsInfer *inf) { return no_blocks(inf) ? -1 : index_is_whole(inf); }

/* The index lies within x but for its axis, where any length is fine. */
static int index_fits(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *index = inf->in[1];
  int axis;
  if (index_type(inf) || ts_infer_axis(inf, inf->attr[0].i, x->ndim, &axis)) return -1;
  bool fits = x->ndim == index->ndim;
  for (int a = 0; fits && a < x->ndim; a++) fits = a == axis || index->dim[a] <= x->dim[a];
  if (fits) return 0;
  ts_infer_mismatch(inf, "the index does not fit", 0, 1);
  return ts_error_hint(inf->err,
                       "it has as many axes as x, and no size beyond x's but on axis %d", axis);
}

int ts_shape_rule_gather(TsInfer *inf) {
  return index_fits(inf) ? -1 : same_shape(inf, inf->in[1]);
}

/* The source is stored as x's type. */
static int source_type(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *src = inf->in[2];
  if (src->weak) return ts_infer_number(inf, 2, (TsDtype)x->dtype);
  if (ts_dtype_promote((TsDtype)x->dtype, (TsDtype)src->dtype) == x->dtype) return 0;
  ts_infer_mismatch(inf, "the source's type does not fit", 0, 2);
  return ts_error_hint(inf->err, "convert with src:cast(\"%s\")",
                       ts_dtype_name((TsDtype)x->dtype));
}

int ts_shape_rule_scatter(TsInfer *inf) {
  if (index_fits(inf)) return -1;
  const TsMeta *src = inf->in[2];
  TsMeta m = *inf->in[1];
  if (ts_meta_broadcast(&m, src, &m) || !ts_meta_same_shape(&m, inf->in[1])) {
    ts_infer_mismatch(inf, "the source does not fit the index", 1, 2);
    return ts_error_hint(inf->err, "it has the index's shape, or sizes of 1");
  }
  return source_type(inf) ? -1 : same_shape(inf, inf->in[0]);
}

int ts_shape_rule_take(TsInfer *inf) {
  return index_type(inf) ? -1 : same_shape(inf, inf->in[1]);
}

/* x's axis replaced by the axes of the index. */
static int replace_axis(TsInfer *inf, int axis) {
  const TsMeta *x = inf->in[0], *index = inf->in[1];
  TsMeta *m = &inf->out[0];
  int extra = index->ndim - 1;
  if (x->ndim + extra > TS_MAX_RANK) return too_deep(inf);
  same_shape(inf, x);
  m->ndim = (uint8_t)(x->ndim + extra);
  for (int a = 0; a < index->ndim; a++) m->dim[axis + a] = index->dim[a];
  for (int a = axis + 1; a < x->ndim; a++) m->dim[a + extra] = x->dim[a];
  return 0;
}

int ts_shape_rule_index_select(TsInfer *inf) {
  int axis;
  if (index_type(inf) || ts_infer_axis(inf, inf->attr[0].i, inf->in[0]->ndim, &axis)) return -1;
  return replace_axis(inf, axis);
}

int ts_shape_rule_index_add(TsInfer *inf) {
  char text[TS_META_TEXT];
  if (ts_shape_rule_index_select(inf)) return -1;
  TsMeta part = inf->out[0];
  if (!ts_meta_same_shape(&part, inf->in[2])) {
    ts_infer_mismatch(inf, "the source does not fit", 0, 2);
    return ts_error_hint(inf->err, "the slices at the index are %s", ts_meta_text(&part, text));
  }
  return source_type(inf) ? -1 : same_shape(inf, inf->in[0]);
}

/* Rows of blocks are whole blocks, so that those alone are read. */
int ts_shape_rule_embedding(TsInfer *inf) {
  char text[TS_META_TEXT];
  if (index_is_whole(inf)) return -1;
  if (inf->in[0]->ndim != 2)
    return ts_error_set(inf->err, TS_ERR_shape, "embedding: w must be [n, d], not %s",
                        ts_meta_text(inf->in[0], text));
  return replace_axis(inf, 0);
}

/* ---- as many elements as the data say */

int ts_shape_rule_masked_select(TsInfer *inf) {
  TsMeta m = *inf->in[0];
  if (no_blocks(inf)) return -1;
  if (inf->in[1]->dtype != TS_DT_bool) {
    ts_error_set(inf->err, TS_ERR_dtype, "masked_select: the mask must be bool, not %s",
                 ts_dtype_name((TsDtype)inf->in[1]->dtype));
    return ts_error_hint(inf->err, "compare first: x:masked_select(x:gt(0))");
  }
  if (ts_meta_broadcast(&m, inf->in[1], &m))
    return ts_infer_mismatch(inf, "the mask does not fit", 0, 1);
  inf->dynamic = true;
  return vector(inf, ts_meta_numel(&m));
}

/* How many elements the mask wants is known when it is counted. */
int ts_shape_rule_masked_scatter(TsInfer *inf) {
  TsMeta m = *inf->in[0];
  if (no_blocks(inf) || source_type(inf)) return -1;
  if (inf->in[1]->dtype != TS_DT_bool)
    return ts_error_set(inf->err, TS_ERR_dtype, "masked_scatter: the mask must be bool, not %s",
                        ts_dtype_name((TsDtype)inf->in[1]->dtype));
  if (ts_meta_broadcast(&m, inf->in[1], &m) || !ts_meta_same_shape(&m, inf->in[0]))
    return ts_infer_mismatch(inf, "the mask does not fit", 0, 1);
  return same_shape(inf, inf->in[0]);
}

int ts_shape_rule_nonzero(TsInfer *inf) {
  const TsMeta *x = inf->in[0];
  vector(inf, ts_meta_numel(x));
  inf->out[0].ndim = 2;
  inf->out[0].dim[1] = x->ndim;
  inf->dynamic = true;
  return 0;
}

/* ---- mixtures of experts */
int ts_shape_rule_moe_places(TsInfer *inf) {
  const TsMeta *index = inf->in[0];
  int64_t experts = inf->attr[0].i, capacity = inf->attr[1].i;
  bool drops = inf->attr[1].type == TS_ATTR_int;
  if (experts < 1 || (drops && capacity < 0))
    return ts_error_set(inf->err, TS_ERR_value, "moe_places: %lld %s",
                        (long long)(experts < 1 ? experts : capacity),
                        experts < 1 ? "experts" : "rows of an expert");
  same_shape(inf, index);
  inf->nout = 4;
  for (int i = 1; i < 4; i++) inf->out[i] = inf->out[0];
  inf->out[1].ndim = drops ? 2 : 1, inf->out[2].ndim = 1, inf->out[3].ndim = 0;
  inf->out[1].dim[0] = drops ? experts : ts_meta_numel(index);
  inf->out[1].dim[1] = drops ? capacity : 0;
  inf->out[2].dim[0] = experts;
  return 0;
}

static int places_type(TsInfer *inf, int i) {
  TsDtype d = (TsDtype)inf->in[i]->dtype;
  if (ts_dtype_is(d, TS_KIND_I | TS_KIND_U)) return 0;
  return ts_error_set(inf->err, TS_ERR_dtype, "route_rows: %s must be integers, not %s",
                      ts_op_info(inf->op)->input[i], ts_dtype_name(d));
}

/* Of a part, source is of the whole. */
int ts_shape_rule_route_rows(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *place = inf->in[1], *source = inf->in[2];
  int64_t times = inf->attr[0].i, rows = 1;
  char text[TS_META_TEXT];
  if (no_blocks(inf) || places_type(inf, 1) || places_type(inf, 2)) return -1;
  if (x->ndim < 1)
    return ts_error_set(inf->err, TS_ERR_shape, "route_rows: x must be rows [.., d], not %s",
                        ts_meta_text(x, text));
  if (place->ndim + 1 > TS_MAX_RANK) return too_deep(inf);
  for (int i = 0; i < x->ndim - 1; i++) rows *= x->dim[i];
  if (times < 1)
    return ts_error_set(inf->err, TS_ERR_value, "route_rows: times = %lld", (long long)times);
  if (inf->attr[2].type != TS_ATTR_int && rows * times != ts_meta_numel(source))
    return ts_error_set(inf->err, TS_ERR_shape,
                        "route_rows: source has to say where %lld rows went, not %s",
                        (long long)(rows * times), ts_meta_text(source, text));
  int64_t d = x->dim[x->ndim - 1];
  same_shape(inf, place);
  inf->out[0].device = x->device;
  inf->out[0].dim[inf->out[0].ndim++] = d;
  return 0;
}

/* ---- sparse matrices, of which entries are given */
static int must_be(TsInfer *inf, int i, const char *what) {
  char text[TS_META_TEXT];
  return ts_error_set(inf->err, TS_ERR_shape, "%s: %s must be %s, not %s", opname(inf),
                      ts_op_info(inf->op)->input[i], what, ts_meta_text(inf->in[i], text));
}

/* Input i is a vector of whole numbers. */
static int places(TsInfer *inf, int i) {
  const TsMeta *m = inf->in[i];
  if (!ts_dtype_is((TsDtype)m->dtype, TS_KIND_I | TS_KIND_U))
    return ts_error_set(inf->err, TS_ERR_dtype, "%s: %s must be integers, not %s", opname(inf),
                        ts_op_info(inf->op)->input[i], ts_dtype_name((TsDtype)m->dtype));
  return m->ndim == 1 ? 0 : must_be(inf, i, "a vector");
}

/* Inputs i and j are vectors with a number for each entry. */
static int of_entries(TsInfer *inf, int i, int j) {
  if (places(inf, i) || places(inf, j)) return -1;
  if (inf->in[i]->dim[0] == inf->in[j]->dim[0]) return 0;
  return ts_infer_mismatch(inf, "one number for each entry is needed", i, j);
}

static int of_values(TsInfer *inf, int i, int column) {
  bool blocks = inf->op == TS_OP_spmm_coo && inf->in[i]->ndim == 3;
  if (inf->in[i]->ndim != 1 && !blocks) return must_be(inf, i, "a vector");
  if (inf->in[i]->dim[0] == inf->in[column]->dim[0]) return 0;
  return ts_infer_mismatch(inf, "one value for each entry is needed", i, column);
}

/* Result 0: as m, with so many along its first axis and `ndim` axes. */
static int with_rows(TsInfer *inf, const TsMeta *m, int64_t n, int ndim) {
  int dtype = inf->out[0].dtype;
  inf->out[0] = *m;
  inf->out[0].dtype = (uint8_t)dtype;
  inf->out[0].weak = 0;
  inf->out[0].device = inf->in[0]->device;
  inf->out[0].ndim = (uint8_t)ndim;
  inf->out[0].dim[0] = n;
  return 0;
}

int ts_shape_rule_csr_rows(TsInfer *inf) {
  const TsMeta *offsets = inf->in[0];
  if (offsets->ndim != 1 || !offsets->dim[0]) return must_be(inf, 0, "[m + 1]");
  if (inf->attr[0].i < 0)
    return ts_error_set(inf->err, TS_ERR_value, "csr_rows: %lld entries",
                        (long long)inf->attr[0].i);
  return with_rows(inf, offsets, inf->attr[0].i, 1);
}

int ts_shape_rule_spmm_coo(TsInfer *inf) {
  const TsMeta *x = inf->in[3];
  int64_t rows = inf->attr[0].i;
  bool blocks = inf->in[0]->ndim == 3;
  if (of_entries(inf, 1, 2) || of_values(inf, 0, 2)) return -1;
  if (blocks && x->ndim != 3) return must_be(inf, 3, "[k, q, n], as values are blocks");
  if (!blocks && (x->ndim < 1 || x->ndim > 2))
    return must_be(inf, 3, "a matrix [k, n] or a vector [k]");
  if (blocks && x->dim[1] != inf->in[0]->dim[2])
    return ts_infer_mismatch(inf, "blocks have another width than those of x", 0, 3);
  if (rows < 0)
    return ts_error_set(inf->err, TS_ERR_value, "spmm_coo: rows = %lld", (long long)rows);
  if (with_rows(inf, x, rows, x->ndim)) return -1;
  if (blocks) inf->out[0].dim[1] = inf->in[0]->dim[1];
  return 0;
}

int ts_shape_rule_sddmm(TsInfer *inf) {
  const TsMeta *a = inf->in[0], *b = inf->in[1];
  if (a->ndim != 2) return must_be(inf, 0, "a matrix [m, k]");
  if (b->ndim != 2) return must_be(inf, 1, "a matrix [k, n]");
  if (a->dim[1] != b->dim[0]) return ts_infer_mismatch(inf, "inner sizes differ", 0, 1);
  if (of_entries(inf, 2, 3)) return -1;
  if (inf->nin > 4 && inf->in[4] && of_values(inf, 4, 3)) return -1;
  return with_rows(inf, inf->in[2], inf->in[2]->dim[0], 1);
}
