/* The scans, one function for each type of accumulator. */
#ifndef TS_VM_KERNELS_ROWS_SCAN_H
#define TS_VM_KERNELS_ROWS_SCAN_H

#include "vm/kernels/simd/isa.h"
#include "vm/kernels/rows/rows.h"

void TS_ISA(ts_rows_scan_f32)(const TsScanArgs *a);
void TS_ISA(ts_rows_chains_f32)(bool product, bool fresh, int n, int64_t m, const void *x,
                                int64_t ldx, void *y, int64_t ldy);
void TS_ISA(ts_rows_scan_f64)(const TsScanArgs *a);
void TS_ISA(ts_rows_chains_f64)(bool product, bool fresh, int n, int64_t m, const void *x,
                                int64_t ldx, void *y, int64_t ldy);
void TS_ISA(ts_rows_scan_i64)(const TsScanArgs *a);
void TS_ISA(ts_rows_chains_i64)(bool product, bool fresh, int n, int64_t m, const void *x,
                                int64_t ldx, void *y, int64_t ldy);

#endif
