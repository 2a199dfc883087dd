/* Functions of 16-bit floats that are rounded to 16 bits, in fewer operations
 * (ir/tile/gpu/quick.c). */
#ifndef TS_IR_TILE_GPU_QUICK_H
#define TS_IR_TILE_GPU_QUICK_H

#include "ir/tile/tile.h"

bool ts_gpu_quick_has(int op, TsDtype d);
/* Tiles of f32 whose elements are numbers of type d, which it has. Rounded to d, the result has
 * the bits of op's definition rounded to d. */
TsTileVal ts_gpu_quick(TsTileBuild *b, int op, const TsTileVal *in);

#endif
