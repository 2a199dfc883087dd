/* What a kernel touches before it waits for the launch in front of it. */
#ifndef TS_IR_TILE_AHEAD_H
#define TS_IR_TILE_AHEAD_H

#include "ir/tile/tile.h"

/* Parameters, by bit, that a kernel may touch before its `await_launch`: those that the launch in
 * front of it must not write if it is to begin early. All bits: it waits nowhere, or has more
 * parameters than bits. */
#define TS_TILE_AHEAD_ALL UINT64_MAX
uint64_t ts_tile_ahead(const TsTile *k);

#endif
