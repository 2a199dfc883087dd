/* What the adjoints of products and of decompositions share. */
#ifndef TS_IR_ADJOINT_LINALG_H
#define TS_IR_ADJOINT_LINALG_H

#include "ir/adjoint/adjoint.h"

TsVal ts_build_matmul(TsBuild *b, TsVal x, TsVal y);
/* The conjugate transpose; of real matrices a view. */
TsVal ts_build_dagger(TsBuild *b, TsVal x);

/* The gradient x y (with x_dagger, y_dagger: of their conjugate transposes) of the matrix
 * operand `to`: where `to` has no batch of its own, summed over the batch of x and y within
 * the product, and of the shape of `to`. */
TsVal ts_build_product_for(TsBuild *b, TsVal x, TsVal y, bool x_dagger, bool y_dagger,
                           TsVal to);

#endif
