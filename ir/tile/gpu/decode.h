/* Attention of few queries over many keys, for a GPU with a copy engine, in explicit form
 * (ir/tile/gpu/decode.c): what a model does for each new token. It is bound by reading keys and
 * values, so the query rows that share them go together, and the keys are divided into chunks,
 * of which blocks take some at a time: a part. Sums of a chunk are as in
 * ir/tile/gpu/attention.h; those of chunks are joined in the order of the keys. Chunks begin at
 * multiples of their length, which is TS_GPU_DECODE_CHUNK for any number of keys: bits are the
 * same whatever else is computed beside it, also where the longest text of a batch decides how
 * many keys there are, in parts of any length, and on however many blocks.
 *
 * Sizes: J key heads of all batches, E query rows of a key head (its heads, each with the same
 * queries), T keys, C blocks of TS_GPU_DECODE_KEYS keys in a chunk, N chunks in each of the
 * first L parts of a head, others have one, H query heads of a batch, P blocks that run at a
 * time, at most the number of parts (ts_gpu_decode_splits); with `last` B batches before P.
 * Parameters: q [J,E,D], k [J,T,D], v [J,T,D], with a mask that, the last keys of batches if they
 * are known later, [J E / H], with a sink that [H] in f32;
 * y [J,E,D].
 *
 * With pages k and v are [heads,rows,D], heads of a batch and rows of all pages, and behind them
 * stands a table i64 [B,count]: which page has each stretch of a batch's keys. A page is fetched
 * by itself, and only if the query sees something of it. What lies beside what is seen in such a
 * page may be anything: scores of it are hidden, and its values are made zeros in the memory of
 * the block. */
#ifndef TS_IR_TILE_GPU_DECODE_H
#define TS_IR_TILE_GPU_DECODE_H

#include "ir/tile/gpu/attention_mask.h"

enum {
  TS_GPU_DECODE_KEYS = 128,
  TS_GPU_DECODE_CHUNK = 4,   /* blocks of keys, so that few heads keep all blocks busy */
  TS_GPU_DECODE_ROWS = 64,   /* most of a key head */
  TS_GPU_DECODE_BLOCKS = 256 /* most that run at a time */
};

/* Where keys and values of batches lie, if not side by side. */
typedef struct TsGpuPages {
  int size; /* keys of one, 16 to 128 that divide 128, or a multiple of 128; 0: side by side */
  int64_t heads, rows, count; /* of k and v; of the table */
} TsGpuPages;

typedef struct TsGpuDecode {
  TsDtype dtype;  /* bf16, f16 */
  int d;          /* 64, 128 */
  bool causal;    /* query i of n stands at position i + T - n among the keys */
  int queries;    /* of a head: row r is query r mod queries */
  int rows;       /* of a partial result: 8, 16, 32, 64, at least E */
  bool sink;      /* of one query only */
  int64_t window; /* 0: none */
  /* One query a head, which sees keys up to a position that is known when the kernel runs: of each batch
   * one, i64, behind the mask. */
  bool last;
  TsGpuPages pages; /* with `last` */
  double scale;     /* above 0 */
  int stages;       /* of keys, and of values */
  TsGpuMask mask;   /* one number for each key, of all heads */
  int64_t room;     /* chunks that there is scratch for; at least those of a run */
} TsGpuDecode;

/* The usual numbers, for `rows` query rows of a key head and so many chunks. */
TsGpuDecode ts_gpu_decode(TsDtype dtype, int d, int rows, int64_t chunks);
/* NULL with the error. */
TsTile *ts_tile_gpu_decode(const TsGpuDecode *x, TsError *err);

/* Chunks of all key heads. */
int64_t ts_gpu_decode_chunks(const TsGpuDecode *x, int64_t j, int64_t t, int64_t chunk);

typedef struct TsGpuDecodeSplits {
  int64_t n, longs; /* N, L */
  int64_t all;      /* of all heads */
} TsGpuDecodeSplits;
/* For so many blocks that run at a time; or for so long parts, of which a head has as many. */
TsGpuDecodeSplits ts_gpu_decode_splits(const TsGpuDecode *x, int64_t j, int64_t t,
                                       int64_t chunk, int64_t blocks);
TsGpuDecodeSplits ts_gpu_decode_splits_of(const TsGpuDecode *x, int64_t j, int64_t t,
                                          int64_t chunk, int64_t n, int64_t longs);

#endif
