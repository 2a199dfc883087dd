/* How much a kernel may ask for: of passes, which walk along chains of values, and of a user, since
 * machine code looks for an interrupt between two rounds of a parallel loop and not within one. */
#ifndef TS_IR_TILE_WORK_H
#define TS_IR_TILE_WORK_H

#include "ir/tile/tile.h"

enum { TS_TILE_CHAIN = 1000 }; /* tiles of block form, each made of the one before */
#define TS_TILE_ROUND_WORK ((double)(1ll << 35)) /* elements of a round */

/* Of legal kernels. dim: symbolic sizes, or NULL: each counts as 1. -1 with the error, which says
 * where the statement stands. */
int ts_tile_check_work(const TsTile *k, const int64_t *dim, TsError *err);

#endif
