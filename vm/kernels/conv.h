/* What convolutions need beside the matrix product: panels of the matrix that the
 * image makes (rows: taps of the window; columns: output positions), and direct sums
 * for few output channels. */
#ifndef TS_VM_KERNELS_CONV_H
#define TS_VM_KERNELS_CONV_H

#include <stdint.h>

typedef struct TsConvKernels {
  /* dst[k*width + i] = x[tap[k] + at[i]], i < n; zeros for n <= i < width. Elements of
   * 4, 8 and 16 bytes. Nothing else of x is read. */
  void (*panel[3])(void *dst, int64_t width, const void *x, const int64_t *tap, int64_t nk,
                   const int64_t *at, int64_t n);
  /* Rows of n outputs, y_step elements apart, of an image whose rows are x_step elements apart:
   * y[j] = chain of fma(w[k], x[tap[k] + j], y) for k ascending from +0; f32, f64. */
  void (*plane[2])(void *y, int64_t y_step, int64_t rows, int64_t n, const void *x,
                   int64_t x_step, const void *w, const int64_t *tap, int64_t nk);
  /* The same with a lane for each channel: y[j] = chain of fma(w[k*n + j], x[k][j], y). */
  void (*lanes[2])(void *y, int64_t n, const void *const *x, const void *w, int64_t nk);
  /* Sums of several taps at once: y[t*n + j] = chain of fma(g[k*n + j], x[at[k] + tap[t] + j], y)
   * for k ascending, from what y holds. */
  void (*lane_sums[2])(void *y, int64_t n, const void *x, const int64_t *at, const void *g,
                       int64_t nk, const int64_t *tap, int64_t ntap);
  /* Copies rows of n elements, y_step and x_step elements apart. */
  void (*lay[2])(void *y, int64_t y_step, int64_t rows, int64_t n, const void *x,
                 int64_t x_step);
} TsConvKernels;

void ts_kernels_conv_avx512(TsConvKernels *k);
void ts_kernels_conv_avx2(TsConvKernels *k);
void ts_kernels_conv_base(TsConvKernels *k);

#define TS_CONV_DECLARE(t, isa)                                                                \
  void ts_conv_plane_##t##_##isa(void *y, int64_t y_step, int64_t rows, int64_t n,             \
                                 const void *x, int64_t x_step, const void *w,                 \
                                 const int64_t *tap, int64_t nk);                              \
  void ts_conv_lane_sums_##t##_##isa(void *y, int64_t n, const void *x, const int64_t *at,     \
                                     const void *g, int64_t nk, const int64_t *tap,            \
                                     int64_t ntap);                                            \
  void ts_conv_lanes_##t##_##isa(void *y, int64_t n, const void *const *x, const void *w,      \
                                 int64_t nk);                                                  \
  void ts_conv_lay_##t##_##isa(void *y, int64_t y_step, int64_t rows, int64_t n,               \
                               const void *x, int64_t x_step);
TS_CONV_DECLARE(f32, avx512)
TS_CONV_DECLARE(f32, avx2)
TS_CONV_DECLARE(f32, base)
TS_CONV_DECLARE(f64, avx512)
TS_CONV_DECLARE(f64, avx2)
TS_CONV_DECLARE(f64, base)
#undef TS_CONV_DECLARE

#endif
