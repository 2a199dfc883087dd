/* Matrix units that make squares of 16 x 16 sums, in block form by their names in `mma`:
 *
 *   "mfma"  one chain of fused multiply-adds an element, k ascending; f32 and f64 multiply as well
 *   "wmma"  for each 16 steps of k a chain from +0, which is added to the element
 *   "dpas"  for each two steps of k such a chain, which is added to the element
 *   "cooperative"  any order: the driver's, so it stands in the profile "fast" alone, but of i8; here
 *           that of "mfma"
 *
 * of bf16, f16 and fp8 (OCP's) with sums in f32, whose products are exact there, and of i8 with sums in
 * i32, which are exact; "dpas" and "cooperative" of no fp8. So a public software emulator of AMD's CDNA 3 and 4
 * and RDNA 3 and 4 computes them (tinygrad's). Of f32 and f64 on CDNA 2 and 3 others measured the same
 * chain (Xie et al., MMA-Sim, 2025). How adders of narrower types round between steps their maker does
 * not say, and a processor may round otherwise, alike for all tiles. "dpas" is the chain of dot products
 * of two that Intel's description of its instruction shows (DPAS of its compiler's virtual ISA), each
 * sum rounded to f32. Steps behind k are zeros of both operands. */
#ifndef TS_IR_TILE_SQUARE_H
#define TS_IR_TILE_SQUARE_H

#include "ir/tile/tile.h"

enum { TS_SQUARE = 16 /* rows, columns; steps of k of a chain of "wmma" */, TS_DPAS_PAIR = 2 };

typedef enum TsSquare {
  TS_SQUARE_none,
  TS_SQUARE_mfma,
  TS_SQUARE_wmma,
  TS_SQUARE_dpas,
  TS_SQUARE_cooperative
} TsSquare;

/* Of a statement's unit. */
TsSquare ts_tile_square_of(const TsTileStmt *s);
/* Whether it multiplies numbers of d; of how many steps of k operands are whole multiples. */
bool ts_tile_square_takes(TsSquare unit, TsDtype d);
int ts_tile_square_steps(TsSquare unit, TsDtype d);
/* 2D block loads of Intel's GPUs, which read boxes of a matrix as "dpas" wants them: zeros are outside of
 * it. Where memory is such a matrix, or many: lines of 64 bytes to 16 MiB at multiples of 16, the
 * first one of each matrix at one of TS_BOX_ALIGN if the memory's is. Of the left operand (side 0) k
 * is along the lines, of the right one columns are, or k. rows, cols: axes of the memory; along: 0
 * or 1, which of these lines are along. */
enum { TS_BOX_ALIGN = 64 /* bytes */ };
bool ts_tile_dpas_boxes(const TsTileType *memory, int rows, int cols, int side, int *along);
/* For the interpreter, "wmma": acc[m,n] and the products of a[m,k] and b[k,n], widened. */
void ts_tile_run_wmma(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                      float *acc);
/* And "dpas". */
void ts_tile_run_dpas(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                      float *acc);

#endif
