/* Copies that turn: where another axis is the fastest one of the source than of the result. */
#ifndef TS_IR_LOWER_TRANSPOSE_H
#define TS_IR_LOWER_TRANSPOSE_H

#include <stdbool.h>

#include "lib/shape.h"

/* Of elements of that shape with these strides: whether going through tiles is worth it. */
bool ts_lower_transposes(const TsMeta *m, const int64_t *x, const int64_t *y);

#endif
