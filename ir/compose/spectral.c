/* Short-time transforms and convolution by transforms. */
#include "ir/compose/compose.h"

enum { ORTHO, BACKWARD, FORWARD };
enum { FULL, SAME, VALID };

static TsVal number(TsBuild *b, double v) { return b->number(b, v); }

static TsVal transform(TsBuild *b, TsOp op, TsVal x, int64_t n, int64_t norm) {
  TsAttr length = n ? ts_b_int(n) : (TsAttr){0};
  return ts_build(b, op, TS_IN(x), TS_ATTRS({"n", length}, {"norm", ts_b_choice((int)norm)}),
                  NULL);
}

/* The periodic Hann window 0.5 - 0.5 cos(2 pi i / n). */
static TsVal hann(TsBuild *b, int64_t n, TsDtype d) {
  TsVal i = ts_build(b, TS_OP_arange, 0, NULL,
                     TS_ATTRS({"start", ts_b_f((double)n)}, {"dtype", ts_b_dtype(d)}), NULL);
  TsVal c =
      ts_build1(b, TS_OP_cos, ts_build_mul(b, i, number(b, 6.283185307179586 / (double)n)));
  return ts_build2(b, TS_OP_sub, number(b, 0.5), ts_build_mul(b, c, number(b, 0.5)));
}

/* Attributes that stft and istft share. */
typedef struct Frames {
  int64_t frame, hop, norm;
  bool center;
  TsVal window;
} Frames;

static int read_frames(TsCompose *k, Frames *f, const TsAttr *norm, TsDtype real) {
  TsBuild *b = k->b;
  f->frame = k->attr[0].i;
  f->hop = k->attr[1].type == TS_ATTR_int ? k->attr[1].i : f->frame / 4 + (f->frame % 4 > 0);
  f->center = k->attr[2].i;
  f->norm = norm->i;
  if (f->frame < 1 || f->hop < 1 || f->hop > INT32_MAX)
    return ts_build_fail(b, TS_ERR_value, "%s: frame and hop must be positive",
                         ts_op_info(k->op)->name);
  f->window = k->nin > 1 && k->in[1] ? k->in[1] : hann(b, f->frame, real);
  const TsMeta *w = b->meta(b, f->window);
  char text[TS_META_TEXT];
  if (!b->failed && (w->ndim != 1 || w->dim[0] != f->frame))
    return ts_build_fail(b, TS_ERR_shape, "%s: window must be [%lld], not %s",
                         ts_op_info(k->op)->name, (long long)f->frame, ts_meta_text(w, text));
  return b->failed ? -1 : 0;
}

static TsVal swapped(TsBuild *b, TsVal x) {
  return ts_build(b, TS_OP_transpose, TS_IN(x), TS_NO_ATTRS, NULL);
}

int ts_compose_stft(TsCompose *k) {
  TsBuild *b = k->b;
  Frames f;
  TsMeta m = *b->meta(b, k->in[0]);
  char text[TS_META_TEXT];
  TsVal x = k->in[0];
  if (m.ndim < 1) return ts_build_fail(b, TS_ERR_shape, "stft: needs a signal, not a scalar");
  if (read_frames(k, &f, &k->attr[3], m.dtype == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32)) return -1;
  if (f.center) {
    int64_t pads[2] = {f.frame / 2, f.frame / 2};
    x = ts_build(b, TS_OP_pad, TS_IN(x),
                 TS_ATTRS({"pads", ts_b_ints(pads, 2)}, {"mode", ts_b_choice(1)}), NULL);
  }
  if (b->meta(b, x)->dim[m.ndim - 1] < f.frame)
    return ts_build_fail(b, TS_ERR_shape, "stft: frame %lld is longer than %s",
                         (long long)f.frame, ts_meta_text(&m, text));
  TsVal frames = ts_build(
      b, TS_OP_unfold, TS_IN(x),
      TS_ATTRS({"axis", ts_b_int(-1)}, {"size", ts_b_int(f.frame)}, {"step", ts_b_int(f.hop)}),
      NULL);
  TsVal t = transform(b, TS_OP_rfft, ts_build_mul(b, frames, f.window), 0, f.norm);
  return ts_compose_finish(k, swapped(b, t));
}

/* Overlapping frames [.., count, frame] added into [.., n]: element j of frame i
 * goes to i * hop + j, in increasing frame order. */
static TsVal overlap_add(TsBuild *b, TsVal frames, int64_t hop) {
  if (b->failed) return NULL;
  TsMeta m = *b->meta(b, frames);
  int64_t count = m.dim[m.ndim - 2], frame = m.dim[m.ndim - 1], n = (count - 1) * hop + frame;
  TsMeta zero = m;
  zero.ndim--;
  zero.dim[zero.ndim - 1] = n;
  TsVal at =
      ts_build(b, TS_OP_arange, 0, NULL,
               TS_ATTRS({"start", ts_b_f((double)n)}, {"dtype", ts_b_dtype(TS_DT_i64)}), NULL);
  at = ts_build(
      b, TS_OP_unfold, TS_IN(at),
      TS_ATTRS({"axis", ts_b_int(0)}, {"size", ts_b_int(frame)}, {"step", ts_b_int(hop)}),
      NULL);
  TsMeta flat = zero;
  flat.dim[flat.ndim - 1] = count * frame;
  int64_t line = count * frame;
  at = ts_build_reshape(b, at, &line, 1);
  at = ts_build(b, TS_OP_broadcast_to, TS_IN(at),
                TS_ATTRS({"shape", ts_b_ints(flat.dim, flat.ndim)}), NULL);
  TsVal z = ts_build(b, TS_OP_zeros, 0, NULL,
                     TS_ATTRS({"shape", ts_b_ints(zero.dim, zero.ndim)},
                              {"dtype", ts_b_dtype((TsDtype)m.dtype)}),
                     NULL);
  return ts_build(b, TS_OP_scatter_add,
                  TS_IN(z, at, ts_build_reshape(b, frames, flat.dim, flat.ndim)),
                  TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
}

int ts_compose_istft(TsCompose *k) {
  TsBuild *b = k->b;
  Frames f;
  TsMeta m = *b->meta(b, k->in[0]);
  char text[TS_META_TEXT];
  if (read_frames(k, &f, &k->attr[4], m.dtype == TS_DT_complex128 ? TS_DT_f64 : TS_DT_f32))
    return -1;
  if (m.ndim < 2 || m.dim[m.ndim - 2] != f.frame / 2 + 1 || m.dim[m.ndim - 1] < 1)
    return ts_build_fail(b, TS_ERR_shape, "istft: needs [.., %lld, frames], not %s",
                         (long long)(f.frame / 2 + 1), ts_meta_text(&m, text));
  int64_t count = m.dim[m.ndim - 1], n;
  if (__builtin_mul_overflow(count - 1, f.hop, &n) || __builtin_add_overflow(n, f.frame, &n))
    return ts_build_fail(b, TS_ERR_memory, "istft: the signal is larger than any memory");
  TsVal frames = ts_build_mul(
      b, transform(b, TS_OP_irfft, swapped(b, k->in[0]), f.frame, f.norm), f.window);
  int64_t dim[2] = {count, f.frame};
  TsVal weight = ts_build(b, TS_OP_broadcast_to, TS_IN(ts_build1(b, TS_OP_square, f.window)),
                          TS_ATTRS({"shape", ts_b_ints(dim, 2)}), NULL);
  int64_t start = f.center ? f.frame / 2 : 0, length = n - 2 * start;
  if (k->attr[3].type == TS_ATTR_int) length = k->attr[3].i;
  if (length < 0 || length > n - start)
    return ts_build_fail(b, TS_ERR_value, "istft: length %lld is more than the frames hold",
                         (long long)length);
  /* Cut before dividing: at the ends windows can add up to zero. */
  TsVal y = ts_build_narrow(b, overlap_add(b, frames, f.hop), m.ndim - 2, start, length);
  return ts_compose_finish(
      k, ts_build2(b, TS_OP_div, y,
                   ts_build_narrow(b, overlap_add(b, weight, f.hop), 0, start, length)));
}

/* The next length whose only prime factors are 2, 3 and 5: of all products of threes and fives
 * the one that doublings bring closest to n from above. */
static int64_t smooth_length(int64_t n) {
  int64_t best = INT64_MAX;
  for (int64_t five = 1;; five *= 5) {
    for (int64_t three = five;; three *= 3) {
      int64_t length = three;
      while (length < n) length *= 2;
      if (length < best) best = length;
      if (three >= n) break;
    }
    if (five >= n) return best;
  }
}

/* x times the transform of w, in f32 or f64: the product is rounded to a narrow type once. */
static TsVal filtered(TsBuild *b, TsVal x, TsVal w, int64_t n) {
  TsVal h = transform(b, TS_OP_rfft, w, n, BACKWARD);
  if (ts_dtypes[b->meta(b, x)->dtype].nbytes < 4) x = ts_build_cast(b, x, TS_DT_f32);
  return ts_build(b, TS_OP_spectral_filter, TS_IN(x, h),
                  TS_ATTRS({"n", ts_b_int(n)}, {"norm", ts_b_choice(BACKWARD)}), NULL);
}

int ts_compose_conv_fft(TsCompose *k) {
  TsBuild *b = k->b;
  TsMeta x = *b->meta(b, k->in[0]), w = *b->meta(b, k->in[1]);
  char tx[TS_META_TEXT], tw[TS_META_TEXT];
  int64_t n = x.ndim ? x.dim[x.ndim - 1] : 0, m = w.ndim ? w.dim[w.ndim - 1] : 0;
  if (n < 1 || m < 1)
    return ts_build_fail(b, TS_ERR_shape,
                         "conv_fft: needs signals of one element or more: %s x %s",
                         ts_meta_text(&x, tx), ts_meta_text(&w, tw));
  int64_t full = n + m - 1, size = smooth_length(full), mode = k->attr[0].i;
  TsDtype d = ts_dtype_promote((TsDtype)x.dtype, (TsDtype)w.dtype);
  bool swap = ts_meta_numel(&x) < ts_meta_numel(&w);
  TsVal y = filtered(b, k->in[swap], k->in[!swap], size);
  if (!b->failed && b->meta(b, y)->dtype != d) y = ts_build_cast(b, y, d);
  int64_t least = n < m ? n : m, length = mode == FULL   ? full
                                          : mode == SAME ? n
                                                         : n + m - 2 * least + 1;
  int64_t start = mode == FULL ? 0 : mode == SAME ? (m - 1) / 2 : least - 1;
  return ts_compose_finish(k, ts_build_narrow(b, y, b->meta(b, y)->ndim - 1, start, length));
}
