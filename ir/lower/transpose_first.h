/* A product whose unit reads operands along k alone, of operands that lie otherwise: copies
 * that lie as it wants come first, as parts of one kernel. */
#ifndef TS_IR_LOWER_TRANSPOSE_FIRST_H
#define TS_IR_LOWER_TRANSPOSE_FIRST_H

#include "ir/tile/tile.h"

/* product: of A [M,K] and B [N,K], which it takes over; size: M, N, K; turns: A lies as [K,M],
 * B as [K,N]; dim: sizes of the product's kernel. NULL with the error. */
TsTile *ts_lower_transpose_first(TsTile *product, const bool transposes[2],
                                 const int64_t size[3], const int64_t *dim, TsError *err);

#endif
