/* Short forms over a builder of Tile IR, for families of operators: i64 positions, numbers,
 * gathers. */
#ifndef TS_IR_LOWER_SHORT_H
#define TS_IR_LOWER_SHORT_H

#include "ir/tile/tile.h"

/* A vector in memory. */
TsTileVal ts_short_param(TsTile *k, const char *name, TsDtype d, int64_t n, bool written);
TsTileVal ts_short_dim(TsTileBuild *b, int i);
TsTileVal ts_short_iota(TsTileBuild *b, const TsTileType *t, int axis); /* i64 */
TsTileVal ts_short_int(TsTileBuild *b, const TsTileType *like, int64_t v);
TsTileVal ts_short_number(TsTileBuild *b, const TsTileType *like, TsDtype d, double v);
TsTileVal ts_short_splat(TsTileBuild *b, const TsTileType *like, TsTileVal scalar);
/* start, start + 1 ..: positions of a tile of i64. */
TsTileVal ts_short_positions(TsTileBuild *b, const TsTileType *t, TsTileVal start);
TsTileVal ts_short_by(TsTileBuild *b, int op, TsTileVal x, int64_t y); /* x of i64 */
TsTileVal ts_short_gather(TsTileBuild *b, TsTileVal memory, TsTileVal at, bool edge);
TsTileVal ts_short_view(TsTileBuild *b, TsTileVal memory, int rank, const int64_t *dim);
TsDtype ts_short_bits(TsDtype d); /* the integer of as many bytes, or d */

/* @fill<N, value>() -> (y[N]): every element is the number whose bits, as an f64, are a size. NULL:
 * out of memory. */
TsTile *ts_short_fill(TsDtype d);

#endif
