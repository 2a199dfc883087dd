/* Names of the kernels of one instruction set, for the files of this room. */
#ifndef TS_VM_KERNELS_BLAS_TABLE_H
#define TS_VM_KERNELS_BLAS_TABLE_H

#include "vm/kernels/blas/blas.h"
#include "vm/kernels/simd/isa.h"

TsBlasTriangle TS_ISA(ts_blas_solve_f32), TS_ISA(ts_blas_multiply_f32);
TsBlasTriangle TS_ISA(ts_blas_solve_f64), TS_ISA(ts_blas_multiply_f64);
TsBlasTriangle TS_ISA(ts_blas_solve_c64), TS_ISA(ts_blas_multiply_c64);
TsBlasTriangle TS_ISA(ts_blas_solve_c128), TS_ISA(ts_blas_multiply_c128);
TsBlasScaled TS_ISA(ts_blas_scaled_f32), TS_ISA(ts_blas_scaled_f64);
TsBlasScaled TS_ISA(ts_blas_scaled_c64), TS_ISA(ts_blas_scaled_c128);
TsBlasLu TS_ISA(ts_blas_lu_f32), TS_ISA(ts_blas_lu_f64);
TsBlasLu TS_ISA(ts_blas_lu_c64), TS_ISA(ts_blas_lu_c128);
TsBlasCholesky TS_ISA(ts_blas_cholesky_f32), TS_ISA(ts_blas_cholesky_f64);
TsBlasCholesky TS_ISA(ts_blas_cholesky_c64), TS_ISA(ts_blas_cholesky_c128);
TsBlasSmallFn TS_ISA(ts_blas_small_f32), TS_ISA(ts_blas_small_f64);
TsBlasSmallFn TS_ISA(ts_blas_small_c64), TS_ISA(ts_blas_small_c128);

#define COLUMNS_OF(type)                                                                       \
  TsBlasReflect TS_ISA(ts_blas_reflect_##type);                                                \
  TsBlasJoin TS_ISA(ts_blas_join_##type);                                                      \
  TsBlasReflectOne TS_ISA(ts_blas_reflect_one_##type);                                         \
  TsBlasDots TS_ISA(ts_blas_dots_##type);                                                      \
  TsBlasTakeColumns TS_ISA(ts_blas_take_columns_##type);                                       \
  TsBlasSymmetric TS_ISA(ts_blas_symmetric_##type);                                            \
  TsBlasSecular TS_ISA(ts_blas_secular_##type);
COLUMNS_OF(f32)
COLUMNS_OF(f64)
#undef COLUMNS_OF
#define LANES_OF(type)                                                                         \
  TsBlasLanesFn TS_ISA(ts_blas_lanes_lu_##type), TS_ISA(ts_blas_lanes_solve_##type),           \
      TS_ISA(ts_blas_lanes_triangle_##type), TS_ISA(ts_blas_lanes_cholesky_##type),            \
      TS_ISA(ts_blas_lanes_qr_##type), TS_ISA(ts_blas_lanes_eigh_##type);
LANES_OF(f32)
LANES_OF(f64)
#undef LANES_OF

#endif
