/* What the gradients of attention do between products, for some rows of one key block.
 * The definition stands in vm/drive/attention_grad.c. */
#ifndef TS_VM_KERNELS_ATTENTION_GRAD_H
#define TS_VM_KERNELS_ATTENTION_GRAD_H

#include <stdint.h>

#include "vm/kernels/attention/attention.h"

/* All numbers are of the table's type. Row i sees the keys [lo[i], hi[i]) of the block;
 * a row that sees none keeps its m and l, and its p and dt are +0. */
typedef struct TsAttentionGradRows {
  void *s;  /* [rows][128]: products, then t, then p */
  void *dp; /* [rows][128]: products, then dt */
  int rows; /* <= 16 */
  const int32_t *lo, *hi;
  double scale;
  const void *bias[TS_ATTENTION_ROWS];    /* of each row, or all NULL */
  const uint8_t *seen[TS_ATTENTION_ROWS]; /* bytes 0 or 1, or all NULL */
  int step;                               /* of bias and seen: 1, or 0 */
  void *m, *l;                            /* [rows] */
  const void *r, *delta;                  /* [rows] */
  int keep, kept;                         /* s holds exp(t - m) after the first function */
} TsAttentionGradRows;

typedef struct TsAttentionGradKernels {
  void (*scores[2])(const TsAttentionGradRows *a);  /* s to t; m and l take the block in */
  void (*rescore[2])(const TsAttentionGradRows *a); /* s to t once more */
  void (*finish[2])(const TsAttentionGradRows *a);  /* t to p, dp to dt */
  /* of n rows, in place: m to what is subtracted from t, l to 1 / l (0 for l = 0); with
   * a sink, p gets the probability of the sink */
  void (*ends[2])(void *m, void *l, const void *sink, void *p, int64_t n);
  void (*scale[2])(void *y, int64_t n, double f); /* y = y * f + 0 */
} TsAttentionGradKernels;

void ts_kernels_attention_grad_avx512(TsAttentionGradKernels *k);
void ts_kernels_attention_grad_avx2(TsAttentionGradKernels *k);
void ts_kernels_attention_grad_base(TsAttentionGradKernels *k);

void ts_attention_grad_fill_f32_avx512(TsAttentionGradKernels *k);
void ts_attention_grad_fill_f32_avx2(TsAttentionGradKernels *k);
void ts_attention_grad_fill_f32_base(TsAttentionGradKernels *k);
void ts_attention_grad_fill_f64_avx512(TsAttentionGradKernels *k);
void ts_attention_grad_fill_f64_avx2(TsAttentionGradKernels *k);
void ts_attention_grad_fill_f64_base(TsAttentionGradKernels *k);

#endif
