/* What follows a product in its kernel: the pointwise rows of a block form
 * (ir/sched/product/product.c) made again on pieces of the sums. */
#ifndef TS_IR_TILE_GPU_EPILOGUE_H
#define TS_IR_TILE_GPU_EPILOGUE_H

#include "ir/tile/tile.h"

enum { TS_GPU_EPILOGUE_PARAMS = 12, TS_GPU_EPILOGUE_OUT = 3 };

/* Of a kernel in block form with one product. Its parameters: A, B, others that are read, then
 * results. */
typedef struct TsGpuEpilogue {
  const TsTile *block;
  const TsTileStmt *mma;
  TsTileVal m0, n0;
  /* The sums as 16 bits, if all that is stored is made of these alone: then other threads than
   * those that multiply can do the rest. NULL: they must do it. */
  TsTileVal narrow;
  int late;   /* results that are made of these, and are not these */
  bool heavy; /* functions that take long are among the rows */
  int nout;
  TsTileVal out[TS_GPU_EPILOGUE_OUT]; /* what is stored, and to which parameters */
  TsTileVal to[TS_GPU_EPILOGUE_OUT];
} TsGpuEpilogue;

/* False: a kernel with roles does not do these rows. block must live as long as f is used. */
bool ts_gpu_epilogue_find(const TsTile *block, TsGpuEpilogue *f);
/* What the block form reads and writes beside A and B, as parameters of k. param: all of them
 * by their numbers in the block form; ab: the first two. */
void ts_gpu_epilogue_params(const TsGpuEpilogue *f, TsTile *k, int64_t m, int64_t n,
                            const TsTileVal ab[2], TsTileVal *param);
/* The same where there is no block form: a number for each column and a summand of each
 * element, unless NULL, and the result [m, n], all of type d. */
void ts_gpu_named_params(TsTileBuild *b, TsDtype d, int64_t m, int64_t n, TsTileVal *bias,
                         TsTileVal *residual, TsTileVal *c);

/* Rows on one piece: width columns from n on, of the rows from m on. */
typedef struct TsGpuEpiloguePiece {
  const TsGpuEpilogue *f;
  TsTileBuild *b;
  TsTileVal *param; /* of the kernel at hand, by the number in the block form */
  int64_t rows, width;
  TsTileVal m, n;
  TsTileVal *line;   /* by parameter: its columns of the tile in shared memory, or NULL */
  TsTileVal line_at; /* where n is there */
  int prefetched;    /* a parameter whose piece is there already, or 0 */
  TsTileVal came;    /* that piece */
  TsTileVal *made;   /* by id of the block form's values: f->block->nvalue */
} TsGpuEpiloguePiece;

/* Forgets the piece before. line_at: if there are lines. */
void ts_gpu_epilogue_begin(TsGpuEpiloguePiece *c, TsTileVal m, TsTileVal n, TsTileVal line_at);
/* What `of` (a value of the block form) is for the piece, given what is in made[]. */
TsTileVal ts_gpu_epilogue(TsGpuEpiloguePiece *c, TsTileVal of);

#endif
