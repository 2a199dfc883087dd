/* Moving elements without looking at them: strided gathers and scatters, fills,
 * non-temporal copies and transposes. Elements have 1, 2, 4, 8 or 16 bytes and
 * need no alignment; strides are in bytes, of any sign, zero in a source too.
 * The n-dimensional engine on top is vm/core/copy.h. */
#ifndef TS_VM_KERNELS_COPY_H
#define TS_VM_KERNELS_COPY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct TsCopyKernels {
  /* dst[i] = src[i * src_stride], dst contiguous. */
  void (*gather)(int64_t n, void *dst, const void *src, int64_t src_stride, int elem_bytes);
  /* dst[i * dst_stride] = src[i], src contiguous. */
  void (*scatter)(int64_t n, void *dst, int64_t dst_stride, const void *src, int elem_bytes);
  /* dst[i * dst_stride] = src[i * src_stride]. */
  void (*strided)(int64_t n, void *dst, int64_t dst_stride, const void *src, int64_t src_stride,
                  int elem_bytes);
  /* dst[i] = *value, dst contiguous. */
  void (*splat)(int64_t n, void *dst, const void *value, int elem_bytes);
  /* n runs of nbytes each: run i goes from src + i * src_stride to dst + i * dst_stride. */
  void (*runs)(int64_t n, int64_t nbytes, void *dst, int64_t dst_stride, const void *src,
               int64_t src_stride);
  /* dst[i * count + a] = src[i] of array a, at src + a * src_stride; count is 2, 3, 4. */
  void (*weave)(int64_t n, int count, void *dst, const void *src, int64_t src_stride,
                int elem_bytes);
  /* The inverse: array a of dst, at dst + a * dst_stride, takes src[i * count + a]. */
  void (*part)(int64_t n, int count, void *dst, int64_t dst_stride, const void *src,
               int elem_bytes);
  /* Copies nbytes, whole cache lines of dst by stores that pass the caches: for a
   * large dst and a src in L1. ts_copy_fence() follows the last one. */
  void (*stream)(int64_t nbytes, void *dst, const void *src);
  /* The same of n runs of nbytes >= 64, src_stride apart, to a contiguous dst. */
  void (*stream_runs)(int64_t n, int64_t nbytes, void *dst, const void *src,
                      int64_t src_stride);
  /* dst[i * dst_row + j] = src[i + j * src_col] for i < rows, j < cols, indices in
   * elements, strides in bytes. With past_cache, stores pass the caches where whole
   * lines allow it; ts_copy_fence() follows the last one. */
  void (*transpose)(int64_t rows, int64_t cols, void *dst, int64_t dst_row, const void *src,
                    int64_t src_col, int elem_bytes, int past_cache);
} TsCopyKernels;

/* Orders the stores of stream and transpose before later ones, for other threads. */
static inline void ts_copy_fence(void) { __builtin_ia32_sfence(); }

/* Rows so far apart share few sets of the first cache, whose sets repeat. */
static inline bool ts_copy_clash(int64_t step) {
  enum { PERIOD = 4096 };
  return step > 0 && (step % PERIOD == 0 || PERIOD % step == 0);
}

/* How a transpose past the caches goes, and how many columns of dst it takes at once: by deep
 * blocks where elements are small, or rows of dst are long and those of src clash. */
static inline bool ts_copy_is_deep(int elem_bytes, int64_t dst_row, int64_t src_col) {
  return elem_bytes <= 2 || (elem_bytes <= 8 && dst_row >= 4096 && ts_copy_clash(src_col));
}

static inline int ts_copy_deep(int elem_bytes, int64_t dst_row, int64_t src_col) {
  if (!ts_copy_is_deep(elem_bytes, dst_row, src_col)) return elem_bytes <= 4 ? 32 : 16;
  return elem_bytes == 1 || elem_bytes == 4 ? 128 : 64;
}

void ts_kernels_copy_avx512(TsCopyKernels *k);
void ts_kernels_copy_avx2(TsCopyKernels *k);
void ts_kernels_copy_base(TsCopyKernels *k);

#endif
