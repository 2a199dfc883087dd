/* Kernels whose rounds are blocks of one matrix product: how they are recognised, cut and made
 * explicit (ir/tile/product/product.c). */
#ifndef TS_IR_TILE_PRODUCT_H
#define TS_IR_TILE_PRODUCT_H

#include "ir/tile/pairs.h"

typedef struct TsProductSize {
  int64_t m, n, k;
  int64_t batch;
  int threads;
  bool transposed;   /* the rows of A are contiguous along m */
  int high, steps;   /* as in TsTile; 0: chosen here */
  TsTilePairs pairs; /* the unit of its products */
} TsProductSize;

enum { TS_PRODUCT_STEPS = 512 }; /* most steps of k between two visits of a sum */
/* For the matrix unit: rows that are multiplied together, columns that are packed together. */
enum { TS_PRODUCT_AMX_HIGH = 32, TS_PRODUCT_AMX_WIDE = 64 };

/* Steps of a part of k for the matrix unit; most: so many at most, 0: chosen here. */
int64_t ts_tile_product_amx_steps(int64_t k, int64_t most);

/* Rows and vectors of the register tile for a product of m x n; high: so many rows, if there is
 * such a tile. */
void ts_tile_product_registers(const TsTarget *t, int lanes, int64_t m, int64_t n, int high,
                               int *mr, int *nv);
/* Rows of the register tile i, 0: there are no more. */
int ts_tile_product_high(const TsTarget *t, int i);

/* Rows and columns of a round's block: what its packed operands leave in the caches, and enough
 * rounds for the threads. */
void ts_tile_product_block(const TsTarget *t, TsDtype d, const TsProductSize *s,
                           int64_t block[2]);
/* The same with a block near the one that is wanted (0: as it comes), of whole register tiles. */
void ts_tile_product_near(const TsTarget *t, TsDtype d, const TsProductSize *s, int64_t rows,
                          int64_t columns, int64_t block[2]);
/* What the model expects of a block: steps of one element, good for ratios. */
double ts_tile_product_cost(const TsTarget *t, TsDtype d, const TsProductSize *s,
                            const int64_t block[2]);

/* Whether ts_tile_product takes it for this target: one parallel loop, in each round one product of a block of
 * rows and a block of columns along all of k, and pointwise rows behind it:
 *
 *   for %r in 0..8 parallel {
 *     ..                                     arithmetic on positions: %m0, %n0
 *     %z = const {value=0}                   : f32[192,512]
 *     %a = load %x[%m0, 0] {edge=true}       : f32[192,128]
 *     %b = load %w[0, %n0] {edge=true}       : f32[128,512]
 *     %c = mma %a, %b, %z                    : f32[192,512]
 *     %d = load %bias[%n0] {edge=true}       : f32[512]
 *     ..
 *     store %y[%m0, %n0] = %g {edge=true}
 *   }
 *
 * In place of a load, or of one with a cast, an operand may be pointwise rows over such loads,
 * over vectors along one of its axes that a broadcast repeats, and over numbers. Blocks begin at
 * multiples of their size, inside of the matrix, as far as constants and loops tell, and what
 * follows is read and written there. Other kernels with a product are the vectoriser's. */
bool ts_tile_is_product(const TsTile *k, const TsTarget *target);

/* Explicit form of such a kernel; NULL with the error. */
TsTile *ts_tile_product(const TsTile *k, const TsTarget *target, TsError *err);

#endif
