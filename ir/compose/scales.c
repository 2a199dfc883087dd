/* Numbers of few bits with scales beside them, out of elementary operators, which are fused where
 * they are used: so their bits are the same on every device.
 *
 * A block's number is repeated for its elements and cut at the end of the axis, so that scales need
 * no padding. Rejected: a dtype for each layout, as for blocks that hold their own scale
 * (lib/dtypes.def): these lie in tensors of their own, in shapes that files choose. */
#include <math.h>
#include <string.h>

#include "ir/compose/compose.h"

static const char *name_of(const TsCompose *k) { return ts_op_info(k->op)->name; }

static TsVal input(const TsCompose *k, int i) { return i < k->nin ? k->given[i] : NULL; }

static TsVal with(TsBuild *b, TsOp op, TsVal x, double number) {
  return ts_build2(b, op, x, b->number(b, number));
}

static int check_sizes(TsCompose *k, const TsAttr *block, int ndim) {
  for (int i = 0; i < block->n; i++)
    if (block->ints[i] < 1)
      return ts_build_fail(k->b, TS_ERR_attribute, "%s: block has the size %lld", name_of(k),
                           (long long)block->ints[i]);
  if (block->n <= ndim) return 0;
  return ts_build_fail(k->b, TS_ERR_attribute, "%s: block has %d sizes for %d axes", name_of(k),
                       block->n, ndim);
}

static int64_t pieces(int64_t n, int64_t size) { return n / size + (n % size != 0); }

/* ---- two numbers in a byte */

static TsVal unpacked(TsCompose *k, TsVal q) {
  TsBuild *b = k->b;
  TsMeta m = *b->meta(b, q);
  char text[TS_META_TEXT];
  if ((m.dtype != TS_DT_i8 && m.dtype != TS_DT_u8) || !m.ndim) {
    ts_build_fail(b, TS_ERR_dtype, "%s: packed numbers are bytes of i8 or u8, not %s",
                  name_of(k), ts_meta_text(&m, text));
    return NULL;
  }
  TsVal low = m.dtype == TS_DT_u8
                  ? with(b, TS_OP_bitwise_and, q, 15)
                  : with(b, TS_OP_shift_right, with(b, TS_OP_shift_left, q, 4), 4);
  TsVal high = with(b, TS_OP_shift_right, q, 4);
  TsVal both =
      ts_build(b, TS_OP_stack, TS_IN(low, high), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  m.dim[m.ndim - 1] *= 2;
  return ts_build_reshape(b, both, m.dim, m.ndim);
}

static TsVal packed(TsCompose *k, TsVal q) {
  TsBuild *b = k->b;
  if (b->failed) return NULL;
  TsMeta m = *b->meta(b, q);
  char text[TS_META_TEXT];
  if (!m.ndim || m.dim[m.ndim - 1] % 2) {
    ts_build_fail(b, TS_ERR_shape, "quantize: two numbers of 4 bits are a byte, and x is %s",
                  ts_meta_text(b->meta(b, k->given[0]), text));
    return NULL;
  }
  int64_t last = m.dim[m.ndim - 1] / 2;
  m.dim[m.ndim - 1] = last, m.dim[m.ndim++] = 2;
  TsVal pairs = ts_build_reshape(b, q, m.dim, m.ndim), half[2];
  for (int i = 0; i < 2; i++)
    half[i] = ts_build(b, TS_OP_select, TS_IN(pairs),
                       TS_ATTRS({"axis", ts_b_int(-1)}, {"index", ts_b_int(i)}), NULL);
  return ts_build2(b, TS_OP_bitwise_or, with(b, TS_OP_bitwise_and, half[0], 15),
                   with(b, TS_OP_shift_left, half[1], 4));
}

/* ---- blocks */

/* Numbers of blocks, one for each element of a tensor of the shape of m. */
static TsVal spread(TsCompose *k, TsVal scale, const TsMeta *m, const TsAttr *block) {
  TsBuild *b = k->b;
  if (block->type == TS_ATTR_none || b->failed) return scale;
  TsMeta s = *b->meta(b, scale);
  char ts[TS_META_TEXT], tm[TS_META_TEXT];
  bool fits = s.ndim == m->ndim;
  int first = m->ndim - block->n;
  for (int i = 0; i < m->ndim && fits; i++)
    fits = s.dim[i] == (i < first ? m->dim[i] : pieces(m->dim[i], block->ints[i - first]));
  if (!fits) {
    ts_build_fail(b, TS_ERR_shape, "%s: one number for each block is needed: %s x %s",
                  name_of(k), ts_meta_text(m, tm), ts_meta_text(&s, ts));
    return NULL;
  }
  for (int i = first; i < m->ndim && !b->failed; i++) {
    int64_t size = block->ints[i - first];
    if (size == 1) continue;
    TsVal repeated = ts_build(b, TS_OP_repeat_interleave, TS_IN(scale),
                              TS_ATTRS({"count", ts_b_int(size)}, {"axis", ts_b_int(i)}), NULL);
    scale =
        s.dim[i] * size == m->dim[i] ? repeated : ts_build_narrow(b, repeated, i, 0, m->dim[i]);
  }
  return scale;
}

/* The elements of each block, as the last axis: [blocks .., elements]; without blocks all, [n]. */
static TsVal gathered(TsBuild *b, TsVal x, const TsAttr *block, TsMeta *scale) {
  TsMeta m = *b->meta(b, x);
  int first = m.ndim - block->n, n = 0;
  int64_t pads[2 * TS_MAX_RANK], split[2 * TS_MAX_RANK], order[2 * TS_MAX_RANK], each = 1;
  *scale = m;
  if (block->type == TS_ATTR_none) {
    scale->ndim = 0;
    return ts_build_reshape(b, x, (int64_t[]){ts_meta_numel(&m)}, 1);
  }
  for (int i = 0; i < block->n; i++) {
    int64_t size = block->ints[i], parts = pieces(m.dim[first + i], size);
    pads[2 * i] = 0, pads[2 * i + 1] = parts * size - m.dim[first + i];
    scale->dim[first + i] = parts;
  }
  x = ts_build(b, TS_OP_pad, TS_IN(x), TS_ATTRS({"pads", ts_b_ints(pads, 2 * block->n)}), NULL);
  for (int i = 0; i < m.ndim; i++) {
    order[i] = n, split[n++] = scale->dim[i];
    if (i < first) continue;
    order[m.ndim + i - first] = n, split[n++] = block->ints[i - first];
    each *= block->ints[i - first];
  }
  x = ts_build_permute(b, ts_build_reshape(b, x, split, n), order, n);
  int64_t whole[TS_MAX_RANK + 1];
  memcpy(whole, scale->dim, sizeof *whole * (size_t)m.ndim);
  whole[m.ndim] = each;
  return ts_build_reshape(b, x, whole, m.ndim + 1);
}

static TsVal extreme(TsBuild *b, TsOp op, TsVal x) {
  return ts_build(b, op, TS_IN(x), TS_ATTRS({"axis", ts_b_ints((int64_t[]){-1}, 1)}), NULL);
}

/* ---- there */
enum { E4M3, E5M2, I8, U8, I4, U4 };

static const struct {
  TsDtype as;
  double most;
  bool rounds, shifts, pairs;
} form[] = {
    [E4M3] = {TS_DT_fp8_e4m3, 448, false, false, false},
    [E5M2] = {TS_DT_fp8_e5m2, 57344, false, false, false},
    [I8] = {TS_DT_i8, 127, true, false, false},
    [U8] = {TS_DT_u8, 255, true, true, false},
    [I4] = {TS_DT_i8, 7, true, false, true},
    [U4] = {TS_DT_u8, 15, true, true, true},
};

static TsVal limited(TsBuild *b, TsVal x, double min, double max) {
  return ts_build(b, TS_OP_clamp, TS_IN(x),
                  TS_ATTRS({"min", ts_b_f(min)}, {"max", ts_b_f(max)}), NULL);
}

int ts_compose_quantize(TsCompose *k) {
  TsBuild *b = k->b;
  int64_t to = k->attr[0].i;
  const TsAttr *block = &k->attr[1];
  double most = form[to].most;
  TsMeta m = *b->meta(b, k->given[0]), s;
  char text[TS_META_TEXT];
  if (check_sizes(k, block, m.ndim)) return -1;
  if (2 * m.ndim > TS_MAX_RANK && block->n)
    return ts_build_fail(b, TS_ERR_shape, "quantize: too many axes for blocks: %s",
                         ts_meta_text(&m, text));
  if (!ts_meta_numel(&m))
    return ts_build_fail(b, TS_ERR_shape, "quantize: no elements: %s", ts_meta_text(&m, text));
  TsVal x = ts_build_cast(b, k->given[0], TS_DT_f32), zero = NULL, range;
  TsVal of = gathered(b, x, block, &s);
  if (form[to].shifts) {
    TsVal low = limited(b, extreme(b, TS_OP_min, of), -INFINITY, 0);
    zero = low;
    range = ts_build_sub(b, limited(b, extreme(b, TS_OP_max, of), 0, INFINITY), low);
  } else {
    range = extreme(b, TS_OP_max, ts_build1(b, TS_OP_abs, of));
  }
  TsVal scale = with(b, TS_OP_div, range, most);
  scale = ts_build_where(b, with(b, TS_OP_eq, scale, 0), b->number(b, 1), scale);
  if (zero)
    zero = limited(b, ts_build1(b, TS_OP_round, ts_build_div(b, ts_build_neg(b, zero), scale)),
                   0, most);
  TsVal q = ts_build_div(b, x, spread(k, scale, &m, block));
  if (form[to].rounds) q = ts_build1(b, TS_OP_round, q);
  if (zero) q = ts_build_add(b, q, spread(k, zero, &m, block));
  q = ts_build_cast(b, limited(b, q, zero ? 0 : -most, most), form[to].as);
  k->out[0] = form[to].pairs ? packed(k, q) : q;
  k->out[1] = scale, k->nout = 2;
  if (zero) k->out[k->nout++] = ts_build_cast(b, zero, TS_DT_u8);
  return b->failed ? -1 : 0;
}

/* ---- and back */
static TsVal restored(TsCompose *k, TsVal q, TsVal scale, TsVal zero, const TsAttr *block,
                      bool pairs) {
  TsBuild *b = k->b;
  if (pairs) q = unpacked(k, q);
  if (b->failed) return NULL;
  TsMeta m = *b->meta(b, q);
  TsDtype d = b->meta(b, scale)->dtype == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  if (check_sizes(k, block, m.ndim)) return NULL;
  TsVal of = ts_build_cast(b, spread(k, scale, &m, block), d);
  q = ts_build_cast(b, q, d);
  if (zero) q = ts_build_sub(b, q, ts_build_cast(b, spread(k, zero, &m, block), d));
  q = ts_build_mul(b, q, of);
  if (b->failed || ts_meta_same_shape(b->meta(b, q), &m)) return q;
  char ts[TS_META_TEXT], tm[TS_META_TEXT];
  ts_build_fail(b, TS_ERR_shape, "%s: scales do not broadcast to the numbers: %s x %s",
                name_of(k), ts_meta_text(&m, tm), ts_meta_text(b->meta(b, scale), ts));
  return NULL;
}

int ts_compose_dequantize(TsCompose *k) {
  TsVal y = restored(k, k->given[0], k->given[1], input(k, 2), &k->attr[0], k->attr[1].i);
  return ts_compose_finish(k, ts_build_cast(k->b, y, (TsDtype)k->attr[2].i));
}

int ts_compose_scaled_linear(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal x = k->given[0], bias = input(k, 4);
  TsDtype d = (TsDtype)b->meta(b, x)->dtype, wide = d == TS_DT_f64 ? d : TS_DT_f32;
  if (!ts_dtype_is(d, TS_KIND_F))
    return ts_build_fail(b, TS_ERR_dtype, "scaled_linear: x must be floats, not %s",
                         ts_dtype_name(d));
  TsVal w = restored(k, k->given[1], k->given[2], input(k, 3), &k->attr[0], k->attr[1].i);
  w = ts_build_cast(b, w, wide), x = ts_build_cast(b, x, wide);
  bias = bias ? ts_build_cast(b, bias, wide) : NULL;
  TsVal y = ts_build(b, TS_OP_linear, TS_IN(x, w, bias), TS_NO_ATTRS, NULL);
  return ts_compose_finish(k, ts_build_cast(b, y, d));
}
