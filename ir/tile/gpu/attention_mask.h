/* Masks of attention on a matrix unit. Its kernels add a mask to the scores as numbers: 0 and
 * -inf for one of bools. A kernel before them (ts_tile_gpu_mask) lays it out so that no element
 * of a tile is outside: row-major, sizes of tiles filled up, transposed for the gradients, whose
 * scores are [keys, queries]. Two kinds: one number for each key, of f32, as lengths of
 * sequences have them; or one for each pair, of the inputs' 16 bits.
 *
 * Rejected: loads of bools and of any strides where the scores are, with a test of each element
 * for the edge: of 128 keys they would be twice the work of the exponentials. */
#ifndef TS_IR_TILE_GPU_ATTENTION_MASK_H
#define TS_IR_TILE_GPU_ATTENTION_MASK_H

#include "ir/tile/tile.h"

enum { TS_GPU_MASK_KEYS = 128 /* that keys are filled up to a multiple of */ };

/* As kernels read it: [batches, heads, rows, columns], of which the first two are 1 where all
 * have the same. rows are 1 of one for each key, whose columns are keys always. */
typedef struct TsGpuMask {
  bool some, bools;
  int64_t dim[4];
} TsGpuMask;

/* How the operand lies: as scores [B,H,S,T], sizes that do not move 1. */
typedef struct TsGpuMaskFrom {
  TsDtype dtype; /* bool, or floats */
  int64_t dim[4], stride[4];
} TsGpuMaskFrom;

/* Of s queries and t keys, in tiles of `rows` queries. transposed: columns are queries. */
TsGpuMask ts_gpu_mask(const TsGpuMaskFrom *from, int64_t s, int64_t t, int rows,
                      bool transposed);
TsDtype ts_gpu_mask_dtype(const TsGpuMask *m, TsDtype inputs);
int64_t ts_gpu_mask_bytes(const TsGpuMask *m);
/* Whether the operand lies so already, not transposed. */
bool ts_gpu_mask_has_layout(const TsGpuMask *m, const TsGpuMaskFrom *from, TsDtype inputs);
/* Parameters: the operand; m. NULL with the error. */
TsTile *ts_tile_gpu_mask(const TsGpuMask *m, const TsGpuMaskFrom *from, TsDtype inputs,
                         bool transposed, TsError *err);

/* ---- in kernels that read it */
TsTileVal ts_gpu_mask_param(TsTile *k, const TsGpuMask *m, TsDtype inputs);
/* x scale + mask, of fragment x, whose axis `keys` (1, or 0 if transposed) are the keys from `key`
 * on and whose other one are the queries from `query` on. */
TsTileVal ts_gpu_mask_add(TsTileBuild *b, const TsGpuMask *m, TsTileVal memory, TsTileVal batch,
                          TsTileVal head, TsTileVal query, TsTileVal key, int keys, TsTileVal x,
                          double scale);

#endif
