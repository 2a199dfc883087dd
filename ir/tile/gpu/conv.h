/* A convolution for the matrix unit of a GPU in explicit form, as a product whose left operand
 * is a matrix that is read at shifted rows (ir/tile/gpu/conv.c).
 *
 *   A[m, l]  positions of padded images, channels last: one row a position
 *   B[n, k]  weights: a row for each channel out, along k tap after tap, of each all channels
 *   C[m, n]  sum over taps t and channels c of A[m + row(t), col(t) + c] B[n, t depth + c]
 *
 * Rows are those of the padded images, so that a tap is the same shift for all of them; what
 * leads beyond an image's end is computed as well and means nothing. */
#ifndef TS_IR_TILE_GPU_CONV_H
#define TS_IR_TILE_GPU_CONV_H

#include "ir/tile/tile.h"

enum {
  TS_GPU_CONV_TILE = 128,  /* rows of a block's tile */
  TS_GPU_CONV_DEPTH = 64,  /* channels of a stage */
  TS_GPU_CONV_BUFFERS = 2, /* of pieces on their way to the result */
};

typedef struct TsGpuConv {
  TsDtype in, out;     /* 16 bits; those, or f32 */
  int64_t l, n;        /* columns of A and of C */
  int64_t channels;    /* of a tap: a multiple of 64 */
  int64_t window[3];   /* taps along each axis, in the order of B */
  int64_t pitch[3];    /* rows of A from one step along an axis to the next */
  int64_t dilation[3]; /* positions of the image between taps */
  int64_t stride[3];   /* of the image: A has the positions of a stride side by side, as
                        * columns [stride.., channels] */
  bool backwards;      /* taps are walked from the last one on, as a gradient does */
  bool bias;           /* f32[n], added before the only rounding */
  int cols, stages;    /* of a block's tile; 0: chosen */
} TsGpuConv;

/* Parameters a, b, bias if there is one, c. Sizes M, P: rows, blocks that run at a time. NULL
 * with the error. */
TsTile *ts_tile_gpu_conv(const TsGpuConv *x, TsError *err);

/* The gradient of the weights, in leaves of TS_GPU_CONV_LEAF rows of A, which somebody adds up:
 *
 *   D[leaf, t, n, c]  sum over its rows m of G[m, n] A[m + row(t), col(t) + c]
 *
 * G is zero where A's rows are no positions of the result. n of D goes to a multiple of
 * TS_GPU_CONV_ROWS. Parameters g [M, n], a [M, l], d f32 [leaves * taps * n, channels]; sizes
 * M, P and D, the rows of d. bias, out and backwards mean nothing. */
enum { TS_GPU_CONV_LEAF = 2048, TS_GPU_CONV_ROWS = 64 };
TsTile *ts_tile_gpu_conv_grad(const TsGpuConv *x, TsError *err);

/* ---- shared by the two: rows and columns (NULL: 0) of A where tap `tap` begins */
void ts_gpu_conv_tap(TsTileBuild *b, const TsGpuConv *x, TsTileVal tap, TsTileVal *row,
                     TsTileVal *col);

/* Columns of a block's tile of `rows` rows, of `wide` in all, and as many stages as fit beside
 * its results' pieces: where x leaves them open. */
void ts_gpu_conv_choose(TsGpuConv *x, int rows, int64_t wide);

typedef struct TsGpuConvStages {
  TsTileVal a, b, full, empty; /* in shared memory */
  bool transposed_a, transposed_b;
  int rows, cols, stages; /* of the block's tile; of the ring */
} TsGpuConvStages;

/* nk stages multiplied, from *s on, which goes on. Each is left when the products of the next
 * one are under way. */
TsTileVal ts_gpu_conv_multiply(TsTileBuild *b, const TsGpuConvStages *r, TsTileVal nk,
                               TsTileVal *s, TsTileVal *parity);

/* A piece of the results, shape[0] rows by shape[1] columns, goes to `memory` at (row, col) by way of
 * this one of TS_GPU_CONV_BUFFERS buffers of `shared`. */
typedef struct TsGpuConvPiece {
  TsTileVal memory, shared, row, col, buffer, zero;
  int64_t shape[2];
} TsGpuConvPiece;
void ts_gpu_conv_store(TsTileBuild *b, const TsGpuConvPiece *p, TsTileVal y);

#endif
