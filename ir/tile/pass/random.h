/* The row `random` of ir/tile/tile.def as primitive rows. */
#ifndef TS_IR_TILE_RANDOM_H
#define TS_IR_TILE_RANDOM_H

#include "ir/tile/tile.h"

/* in: seed, stream, first; t: i32 of the result's shape. */
TsTileVal ts_tile_random_expand(TsTileBuild *b, const TsTileVal *in, const TsTileType *t,
                                bool aligned);

#endif
