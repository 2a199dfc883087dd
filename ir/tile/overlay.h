/* Results that are written over the bytes of an operand. */
#ifndef TS_IR_TILE_OVERLAY_H
#define TS_IR_TILE_OVERLAY_H

#include "ir/tile/tile.h"

/* over: by result, a bit for each operand over which it may be written, as far as each element of that is
 * read where the result's is written. Takes those away that k reads once more behind it: a pass reads again
 * what one before has read, so this is known of the form that runs alone. */
void ts_tile_overlay(const TsTile *k, uint64_t *over);

#endif
