/* A kernel of a GPU with profile marks around its stages: what lies between two of them is of
 * the warp that runs it, so that stages add up to its time. */
#ifndef TS_IR_TILE_PASS_STAGES_H
#define TS_IR_TILE_PASS_STAGES_H

#include "ir/tile/tile.h"

/* A copy of k with marks: its own, if its text has some, else around each run of statements of one
 * kind; whole: none, so that only when warps begin and end is known. NULL with the error. */
TsTile *ts_tile_stages(const TsTile *k, bool whole, TsError *err);

#endif
