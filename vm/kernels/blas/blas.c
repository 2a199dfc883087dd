/* Fills the table of what BLAS needs; the kernels: real.inc, complex.inc. */
#include "vm/kernels/blas/table.h"

void TS_ISA(ts_kernels_blas)(TsBlasKernels *k) {
#define TYPE(t)                                                                                \
  k->scaled[TS_BLAS_##t] = TS_ISA(ts_blas_scaled_##t);                                         \
  k->lu[TS_BLAS_##t] = TS_ISA(ts_blas_lu_##t);                                                 \
  k->cholesky[TS_BLAS_##t] = TS_ISA(ts_blas_cholesky_##t);                                     \
  k->solve[TS_BLAS_##t] = TS_ISA(ts_blas_solve_##t);                                           \
  k->multiply[TS_BLAS_##t] = TS_ISA(ts_blas_multiply_##t);                                     \
  k->small[TS_BLAS_##t] = TS_ISA(ts_blas_small_##t);
  TYPE(f32)
  TYPE(f64)
  TYPE(c64)
  TYPE(c128)
#undef TYPE
#define TYPE(t)                                                                                \
  k->columns[TS_BLAS_##t] = (TsBlasColumns){.reflect = TS_ISA(ts_blas_reflect_##t),            \
                                            .join = TS_ISA(ts_blas_join_##t),                  \
                                            .reflect_one = TS_ISA(ts_blas_reflect_one_##t),    \
                                            .dots = TS_ISA(ts_blas_dots_##t),                  \
                                            .take_columns = TS_ISA(ts_blas_take_columns_##t),  \
                                            .symmetric = TS_ISA(ts_blas_symmetric_##t),        \
                                            .secular = TS_ISA(ts_blas_secular_##t)};           \
  k->lanes[TS_BLAS_##t] = (TsBlasLanesKernels){.lu = TS_ISA(ts_blas_lanes_lu_##t),             \
                                               .solve = TS_ISA(ts_blas_lanes_solve_##t),       \
                                               .triangle = TS_ISA(ts_blas_lanes_triangle_##t), \
                                               .cholesky = TS_ISA(ts_blas_lanes_cholesky_##t), \
                                               .qr = TS_ISA(ts_blas_lanes_qr_##t),             \
                                               .eigh = TS_ISA(ts_blas_lanes_eigh_##t)};
  TYPE(f32)
  TYPE(f64)
#undef TYPE
}
