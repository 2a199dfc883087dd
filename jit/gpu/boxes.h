/* Products of "dpas" (ir/tile/square.h) whose operands are read out of memory as the unit
 * wants them, by 2D block loads, and never come to shared memory: a load stands in front of
 * the product, in its region or around it, as it comes or transposed, and is of boxes. What such code
 * needs of a kernel's parameters, and what is left out of it. The code itself:
 * jit/emit/simt/intel_matrix.c, and intel_rows.c where a lane has whole rows of sums. */
#ifndef TS_JIT_GPU_BOXES_H
#define TS_JIT_GPU_BOXES_H

#include "ir/tile/tile.h"

typedef struct TsGpuBox {
  const TsTileStmt *load;
  int axis[2]; /* of the memory: along the tile's rows, its columns */
  int along;   /* that of the tile, of which neighbours are neighbours in memory */
} TsGpuBox;

/* The operand of this side; false: it does not come in boxes. */
bool ts_gpu_box_of(const TsTileStmt *product, int side, TsGpuBox *out);
/* Whether there are products by the unit, all of operands that come in boxes. */
bool ts_gpu_boxes_all(const TsTileRegion *r);
/* Whether a phase reduces rows, or multiplies what it computes: lanes have whole rows of sums then, and
 * an operand comes in a box wherever it can. */
bool ts_gpu_whole_rows(const TsTileRegion *r);
/* Whether some phase of a kernel reads boxes. */
bool ts_gpu_boxes_used(const TsTileRegion *body);
/* Whether a load is of such operands alone. */
bool ts_gpu_boxes_only(const TsTileStmt *load);

#endif
