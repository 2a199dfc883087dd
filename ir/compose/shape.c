/* Shape rows defined by views and concat: stack, split, chunk, tile, rot90, masked_fill. */
#include <string.h>

#include "ir/compose/compose.h"

enum { MOST = 1024 }; /* pieces: what one call takes and gives */

int ts_compose_stack(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal piece[MOST];
  const TsMeta *first = b->meta(b, k->in[0]);
  char t0[TS_META_TEXT], ti[TS_META_TEXT];
  int axis = ts_compose_axis(k, k->attr[0].i, first->ndim + 1);
  if (axis < 0) return -1;
  for (int i = 0; i < k->nin; i++) {
    const TsMeta *m = b->meta(b, k->in[i]);
    if (!ts_meta_same_shape(first, m))
      return ts_build_fail(b, TS_ERR_shape, "stack: shapes differ: %s x %s",
                           ts_meta_text(first, t0), ts_meta_text(m, ti));
    piece[i] =
        ts_build(b, TS_OP_unsqueeze, TS_IN(k->in[i]), TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
  }
  k->out[0] =
      ts_build(b, TS_OP_concat, k->nin, piece, TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
  return b->failed ? -1 : 0;
}

/* Views of the given sizes along axis. */
static int cut(TsCompose *k, int axis, const int64_t *size, int count) {
  int64_t start = 0;
  for (int i = 0; i < count; i++) {
    k->out[i] = ts_build_narrow(k->b, k->in[0], axis, start, size[i]);
    start += size[i];
  }
  k->nout = count;
  return k->b->failed ? -1 : 0;
}

/* Views of `each` elements; an empty axis gives one empty view. */
static int cut_evenly(TsCompose *k, int axis, int64_t n, int64_t each) {
  int64_t count = n ? (n + each - 1) / each : 1, size[MOST];
  if (count > k->room || count > MOST)
    return ts_build_fail(k->b, TS_ERR_value, "%s: %lld pieces are more than %d",
                         ts_op_info(k->op)->name, (long long)count, k->room);
  for (int i = 0; i < count; i++) size[i] = i + 1 < count ? each : n - each * (count - 1);
  return cut(k, axis, size, (int)count);
}

static int too_large(TsCompose *k, int64_t size, int axis, const TsMeta *x) {
  char text[TS_META_TEXT];
  return ts_build_fail(k->b, TS_ERR_value,
                       "split: a piece of %lld elements is larger than axis %d of %s",
                       (long long)size, axis, ts_meta_text(x, text));
}

int ts_compose_split(TsCompose *k) {
  const TsMeta *x = k->b->meta(k->b, k->in[0]);
  const TsAttr *size = &k->attr[0];
  int axis = ts_compose_axis(k, k->attr[1].i, x->ndim);
  int64_t sum = 0, n = axis < 0 ? 0 : x->dim[axis];
  char text[TS_META_TEXT];
  if (axis < 0) return -1;
  for (int i = 0; i < size->n; i++) {
    if (size->ints[i] < (size->n == 1))
      return ts_build_fail(k->b, TS_ERR_value, "split: pieces of %lld elements",
                           (long long)size->ints[i]);
    if (size->n > 1 && size->ints[i] > n) return too_large(k, size->ints[i], axis, x);
    sum += size->ints[i];
  }
  if (size->n == 0) return ts_build_fail(k->b, TS_ERR_value, "split: no sizes are given");
  if (size->n == 1) return cut_evenly(k, axis, n, size->ints[0]);
  if (sum != n)
    return ts_build_fail(k->b, TS_ERR_value,
                         "split: sizes add up to %lld, axis %d of %s has %lld", (long long)sum,
                         axis, ts_meta_text(x, text), (long long)n);
  return cut(k, axis, size->ints, size->n);
}

int ts_compose_chunk(TsCompose *k) {
  const TsMeta *x = k->b->meta(k->b, k->in[0]);
  int64_t chunks = k->attr[0].i;
  int axis = ts_compose_axis(k, k->attr[1].i, x->ndim);
  if (axis < 0) return -1;
  if (chunks < 1)
    return ts_build_fail(k->b, TS_ERR_value, "chunk: %lld chunks", (long long)chunks);
  int64_t n = x->dim[axis], each = (n + chunks - 1) / chunks;
  return cut_evenly(k, axis, n, each ? each : 1);
}

/* [a, b] by {r, s}: as [1, a, 1, b] stretched to [r, a, s, b], merged to [r a, s b].
 * The copy is the last step's, if it has two axes to merge; without them there are only views. */
int ts_compose_tile(TsCompose *k) {
  TsBuild *b = k->b;
  const TsMeta *x = b->meta(b, k->in[0]);
  const TsAttr *reps = &k->attr[0];
  int nd = reps->n > x->ndim ? reps->n : x->ndim, n = 0;
  bool merges = false;
  int64_t one[2 * TS_MAX_RANK], wide[2 * TS_MAX_RANK], last[TS_MAX_RANK];
  if (nd > TS_MAX_RANK)
    return ts_build_fail(b, TS_ERR_shape, "tile: more than %d axes", TS_MAX_RANK);
  for (int i = 0; i < nd; i++) {
    int xa = i - (nd - x->ndim), ra = i - (nd - reps->n);
    int64_t size = xa < 0 ? 1 : x->dim[xa], rep = ra < 0 ? 1 : reps->ints[ra];
    if (rep < 0)
      return ts_build_fail(b, TS_ERR_value, "tile: %lld repetitions", (long long)rep);
    if (__builtin_mul_overflow(size, rep, &last[i]))
      return ts_build_fail(b, TS_ERR_memory, "tile: the result is larger than any memory");
    merges |= rep > 1 && size > 1;
    if (rep != 1) one[n] = 1, wide[n++] = rep;
    if (rep == 1 || size != 1) one[n] = wide[n] = size, n++;
  }
  TsVal v = ts_build_reshape(b, k->in[0], one, n);
  v = ts_build(b, TS_OP_broadcast_to, TS_IN(v), TS_ATTRS({"shape", ts_b_ints(wide, n)}), NULL);
  v = ts_build_reshape(b, v, last, nd);
  k->out[0] = merges || b->failed ? v : ts_build(b, TS_OP_clone, TS_IN(v), TS_NO_ATTRS, NULL);
  return b->failed ? -1 : 0;
}

/* A quarter turn reverses one axis and swaps the two. Without any, flip shows x itself. */
int ts_compose_rot90(TsCompose *k) {
  TsBuild *b = k->b;
  const TsAttr *axes = &k->attr[1];
  int ndim = b->meta(b, k->in[0])->ndim, quarters = (int)((k->attr[0].i % 4 + 4) % 4), n = 0;
  int64_t reversed[2];
  if (axes->n != 2)
    return ts_build_fail(b, TS_ERR_attribute, "rot90: turns in two axes, not %d", axes->n);
  int first = ts_compose_axis(k, axes->ints[0], ndim);
  int second = first < 0 ? -1 : ts_compose_axis(k, axes->ints[1], ndim);
  if (second < 0) return -1;
  if (first == second)
    return ts_build_fail(b, TS_ERR_attribute, "rot90: axis %d is named twice", first);
  if (quarters == 2 || quarters == 3) reversed[n++] = first;
  if (quarters == 1 || quarters == 2) reversed[n++] = second;
  TsVal v = ts_build(b, TS_OP_flip, TS_IN(k->in[0]), TS_ATTRS({"axis", ts_b_ints(reversed, n)}),
                     NULL);
  if (quarters % 2)
    v = ts_build(b, TS_OP_transpose, TS_IN(v),
                 TS_ATTRS({"axis0", ts_b_int(first)}, {"axis1", ts_b_int(second)}), NULL);
  k->out[0] = v;
  return b->failed ? -1 : 0;
}

int ts_compose_masked_fill(TsCompose *k) {
  TsBuild *b = k->b;
  TsDtype d = (TsDtype)b->meta(b, k->in[0])->dtype, mask = (TsDtype)b->meta(b, k->in[1])->dtype;
  double value = k->attr[0].f;
  if (mask != TS_DT_bool)
    return ts_build_fail(b, TS_ERR_dtype, "masked_fill: the mask must be bool, not %s",
                         ts_dtype_name(mask));
  if (ts_dtype_check_number(d, value, "masked_fill", b->err)) return b->failed = true, -1;
  TsVal v = ts_build(b, TS_OP_where, TS_IN(k->in[1], b->number(b, value), k->in[0]),
                     TS_NO_ATTRS, NULL);
  k->out[0] = !b->failed && b->meta(b, v)->dtype != d ? ts_build_cast(b, v, d) : v;
  return b->failed ? -1 : 0;
}
