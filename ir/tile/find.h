/* Looking for statements in a kernel, regions inside of regions included. */
#ifndef TS_IR_TILE_FIND_H
#define TS_IR_TILE_FIND_H

#include "ir/tile/tile.h"

/* The first one of an operator, in the order of the text; NULL: none. */
const TsTileStmt *ts_tile_find(const TsTileRegion *r, int op);
/* The type of the first fragment, or of the first with rows and columns; NULL: none. */
const TsTileType *ts_tile_find_fragment(const TsTileRegion *r, bool matrix);

#endif
