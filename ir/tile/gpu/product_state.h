/* What the files of a product for a GPU share (ir/tile/gpu/product.c). */
#ifndef TS_IR_TILE_GPU_PRODUCT_STATE_H
#define TS_IR_TILE_GPU_PRODUCT_STATE_H

#include "ir/tile/gpu/build.h"
#include "ir/tile/gpu/product.h"

enum {
  TS_GPU_LATE_COLS = 32, /* of a piece, that follow one stage's products */
  TS_GPU_LATE_STEPS = 2, /* stages beside which a piece is done */
};

typedef struct TsGpuProductState {
  TsGpuProduct x;
  TsTileBuild b;
  bool unit;                          /* the matrix unit */
  int64_t rows, width;                /* of the cluster's tile; columns of a stored piece */
  TsTileVal a, bm, bias, residual, c; /* memory */
  TsTileVal m, n, k, p, tm, tn, total, nk, span; /* sizes */
  TsTileVal high, each;    /* of a batch: matrices of its second axis, tiles of one */
  TsTileVal places, items; /* of groups */
  TsTileVal tail[2];       /* last stages of A and B */
  TsTileVal from, end;     /* of this tile: its first row of A, or of k; where its group ends */
  TsTileVal at[2];         /* which matrix */
  TsTileVal round, rounds; /* of this block, in tiles */
  TsTileVal sa, sb, sc, full, empty;
  TsTileVal nth, m0, n0;        /* of this tile: its number among the block's, its corner */
  TsTileVal lines;              /* bit 0: which of two places its columns are in */
  TsTileVal clock, full_rounds; /* for pace: counters, tiles of a block that all blocks have */
  TsGpuEpiloguePiece rows_of;   /* what follows, if it is a block form */
  TsTileVal param[TS_GPU_EPILOGUE_PARAMS];
  TsTileVal line[TS_GPU_EPILOGUE_PARAMS]; /* columns of what has one axis, in shared memory, in
                                         * two
                                         * turns */
  int prefetched; /* parameter whose pieces come before they are asked for, or 0 */
  TsTileVal came; /* with them */
  TsTileVal room; /* for them */
} TsGpuProductState;

/* Where a role that multiplies is among the stages. */
typedef struct TsGpuStage {
  TsTileVal s, parity;
  TsTileVal before; /* the stage that is left when this one's products are under way */
} TsGpuStage;

/* Pieces of a tile's columns, each as wide as a pattern. */
static inline int ts_gpu_product_pieces(const TsGpuProductState *p) {
  return p->x.cols / (int)p->width;
}

/* ---- ir/tile/gpu/product.c */
void ts_gpu_product_corner(TsGpuProductState *p, TsTileVal t); /* of tile number t */

/* ---- ir/tile/gpu/product_sums.c: stages multiplied */
int ts_gpu_sums_warps(const TsGpuProductState *p);
TsTileVal ts_gpu_sums_fragment(TsGpuProductState *p, TsDtype d, int64_t m, int64_t n,
                               TsTileVal memory, const TsTileVal *at, const int64_t *axes);
TsTileVal ts_gpu_sums_zero(TsGpuProductState *p);
/* The products of a stage. Then the one before is left: if `later`, or always (NULL). */
TsTileVal ts_gpu_sums_stage(TsGpuProductState *p, TsTileVal acc, TsGpuStage *at,
                            TsTileVal later);
void ts_gpu_sums_end(TsGpuProductState *p, const TsGpuStage *at);
/* All stages of a tile: its sums. */
TsTileVal ts_gpu_sums_unit(TsGpuProductState *p, TsTileVal *s, TsTileVal *parity);
TsTileVal ts_gpu_sums_fma(TsGpuProductState *p, TsTileVal *s, TsTileVal *parity);

/* ---- ir/tile/gpu/product_rows.c: what follows */
TsTileVal ts_gpu_rows_part(TsGpuProductState *p, TsTileVal x, int64_t col, int64_t cols);
void ts_gpu_rows_fetch(TsGpuProductState *p); /* columns that all rows read; waits for them */
void ts_gpu_rows_wait(TsGpuProductState *p);
TsTileVal ts_gpu_rows_line(TsGpuProductState *p, int64_t col);
/* Bias, activation, residual on some columns of the sums, which begin at column n. */
TsTileVal ts_gpu_rows_plain(TsGpuProductState *p, TsTileVal x, TsTileVal n, int64_t col);
/* Columns of a piece to a buffer; a buffer to a result, by the copy engine. */
void ts_gpu_rows_put(TsGpuProductState *p, TsTileVal y, TsTileVal buffer, int64_t col);
void ts_gpu_rows_send(TsGpuProductState *p, TsTileVal to, TsTileVal m, TsTileVal n,
                      TsTileVal buffer);
void ts_gpu_rows_begin(TsGpuProductState *p, TsTileVal x, TsTileVal n, int64_t piece);
TsTileVal ts_gpu_rows_result(TsGpuProductState *p, int i);
TsTileVal ts_gpu_rows_param(TsGpuProductState *p, int i);
void ts_gpu_rows_room(TsGpuProductState *p);
void ts_gpu_rows_all(TsGpuProductState *p, TsTileVal acc); /* of a tile */

/* ---- ir/tile/gpu/product_late.c */
void ts_gpu_late_role(TsGpuProductState *p); /* all that role mma does */

#endif
