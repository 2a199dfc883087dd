/* Copies that transpose: where another axis is the fastest one of the source than of the result. */
#ifndef TS_IR_LOWER_TRANSPOSE_H
#define TS_IR_LOWER_TRANSPOSE_H

#include "ir/tile/tile.h"

/* Of elements of that shape with these strides: whether going through tiles is worth it. */
bool ts_lower_transposes(const TsMeta *m, const int64_t *x, const int64_t *y);

/* A product whose unit reads operands along k alone, of operands that lie otherwise: copies
 * that lie as it wants come first, as steps of one kernel. product: of A [M,K] and B [N,K],
 * which it takes over; size: M, N, K; transposes: A lies as [K,M], B as [K,N]; dim: sizes of
 * the product's kernel. NULL with the error. */
TsTile *ts_lower_transpose_first(TsTile *product, const bool transposes[2],
                                 const int64_t size[3], const int64_t *dim, TsError *err);

#endif
