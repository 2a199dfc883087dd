/* What attention does between its two products, for some rows of one key block, and
 * the end of a row. The definition stands in vm/drive/attention.c. */
#ifndef TS_VM_KERNELS_ATTENTION_H
#define TS_VM_KERNELS_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

enum { TS_ATTENTION_KEYS = 128, TS_ATTENTION_ROWS = 16 };

/* All numbers are of the table's type. Row i sees the keys [lo[i], hi[i]) of the
 * block's n; a row that sees none of them stays as it is. */
typedef struct TsAttentionRows {
  void *s;     /* [rows][128]: products of keys that some row sees in, p out, +0 from n on */
  int rows, n; /* rows <= 16, n <= 128 */
  const int32_t *lo, *hi;
  double scale;
  const void *bias[TS_ATTENTION_ROWS];    /* of each row, or all NULL */
  const uint8_t *seen[TS_ATTENTION_ROWS]; /* bytes 0 or 1, or all NULL */
  int step;                               /* of bias and seen: 1, or 0 for one value a row */
  void *m, *l;                            /* [rows] */
  void *o;                                /* [rows][ldo], dv numbers each */
  int64_t ldo, dv;
} TsAttentionRows;

typedef struct TsAttentionKernels {
  void (*block[2])(const TsAttentionRows *a); /* f32, f64 */
  /* o becomes the result of one row; sink points to its logit, or is NULL. */
  void (*finish[2])(const void *m, const void *l, const void *sink, void *o, int64_t dv);
  bool (*finite[2])(const void *x, int64_t n); /* no infinity and no NaN */
} TsAttentionKernels;

void ts_kernels_attention_avx512(TsAttentionKernels *k);
void ts_kernels_attention_avx2(TsAttentionKernels *k);
void ts_kernels_attention_base(TsAttentionKernels *k);

#define TS_ATTENTION_DECLARE(t, isa)                                                           \
  void ts_attention_block_##t##_##isa(const TsAttentionRows *a);                               \
  void ts_attention_finish_##t##_##isa(const void *m, const void *l, const void *sink,         \
                                       void *o, int64_t dv);                                   \
  bool ts_attention_finite_##t##_##isa(const void *x, int64_t n);
TS_ATTENTION_DECLARE(f32, avx512)
TS_ATTENTION_DECLARE(f32, avx2)
TS_ATTENTION_DECLARE(f32, base)
TS_ATTENTION_DECLARE(f64, avx512)
TS_ATTENTION_DECLARE(f64, avx2)
TS_ATTENTION_DECLARE(f64, base)
#undef TS_ATTENTION_DECLARE

#endif
