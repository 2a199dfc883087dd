/* Rows of the table in ir/lower/lower.c, and what they ask. */
#ifndef TS_IR_LOWER_ROW_H
#define TS_IR_LOWER_ROW_H

#include "ir/lower/lower.h"
#include "ir/tile/gpu/warp_product.h"

/* As ts_lower_group. 1: made; 0: not for these operands; -1 with the error. */
typedef int TsLowerFn(const TsSched *s, const TsGroup *g, TsLayoutFn *layout, void *arg,
                      TsSchedKernel *out, TsError *err);

/* Products, with rows behind them: with roles (ir/tile/gpu/product.h) where the target has a
 * copy engine and the unit of four warps, and operands lie as these want them; else by warps
 * that copy and multiply (ir/tile/gpu/warp_product.h). Attention, with a few queries by
 * pieces of the keys, and its gradients, which are several kernels. */
TsLowerFn ts_lower_product, ts_lower_decode, ts_lower_pages, ts_lower_attention,
    ts_lower_attention_grad, ts_lower_attention_grad_unit, ts_lower_attention_wide,
    ts_lower_attention_grad_any;

/* Families of operators, each in the file of its name. */
TsLowerFn ts_lower_adaptive, ts_lower_at_index, ts_lower_columns, ts_lower_complex,
    ts_lower_conv, ts_lower_dct, ts_lower_draw, ts_lower_fft, ts_lower_grouped,
    ts_lower_histogram, ts_lower_long_row, ts_lower_interpolate, ts_lower_interpolate_grad,
    ts_lower_optim, ts_lower_places, ts_lower_pool, ts_lower_pool_grad, ts_lower_quantile,
    ts_lower_reduce, ts_lower_rope, ts_lower_scan, ts_lower_blocks_cast, ts_lower_blocks_rows,
    ts_lower_blocks_product, ts_lower_scatter, ts_lower_scatter_windows, ts_lower_experts,
    ts_lower_sort, ts_lower_transpose, ts_lower_spmm, ts_lower_sddmm, ts_lower_moe_places,
    ts_lower_csr_rows, ts_lower_mixed, ts_lower_interpolate_back;

/* Why gradients of attention are not made by a unit of squares (ir/tile/square.h); NULL: they
 * are. */
const char *ts_lower_attention_grad_without(const TsSched *s, const TsNode *n);

/* What a generator refused: 0, or -1 where memory ran out. */
int ts_lower_refused(TsError *err);

/* Processors that run kernels with roles of so much work; 0: none. */
int ts_lower_roles(const TsSched *s, double work);
/* For kernels by warps; false: there are none. */
bool ts_lower_warps(const TsSched *s, double work, TsGpuMachine *gpu);

#endif
