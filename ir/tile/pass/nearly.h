/* Functions whose results are rounded to bf16 need not be right to the last bit of f32: nearly
 * all elements round alike from a short formula with a known bound of its error. Those that may
 * not are computed as before (`rare`), so that every bit stays what it was. For processors
 * with instructions for 2^x and 1/x (`ex2`, `inv`). */
#ifndef TS_IR_TILE_NEARLY_H
#define TS_IR_TILE_NEARLY_H

#include "ir/tile/tile.h"

/* A copy, before pointwise rows are expanded; NULL with the error. */
TsTile *ts_tile_nearly(const TsTile *k, TsError *err);

#endif
