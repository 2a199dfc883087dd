/* What the files of attention of few queries share (ir/tile/gpu/decode.c). */
#ifndef TS_IR_TILE_GPU_DECODE_STATE_H
#define TS_IR_TILE_GPU_DECODE_STATE_H

#include "ir/tile/gpu/build.h"
#include "ir/tile/gpu/decode.h"

enum {
  TS_GPU_DECODE_WARPS = 4,
  TS_GPU_DECODE_SLOTS = 2,  /* slots of queries */
  TS_GPU_DECODE_UNREAD = 3, /* sums of chunks or parts that may be unread */
  TS_GPU_DECODE_SPARED = 8  /* registers of `join` for places of pages: a block has no more */
};

typedef struct TsGpuDecoding {
  TsGpuDecode x;
  TsTileBuild b;
  TsTileVal q, k, v, table, mask, last, sink, y; /* parameters */
  TsTileVal batch;                               /* of the part, with `last` */
  TsTileVal seen; /* keys that the last query of the part sees: T, or up to `last` */
  /* Of pages with a window: the first key in it. The query may stand behind all keys. */
  TsTileVal low;
  TsTileVal j, e, t, c, n, l, h, p; /* sizes */
  TsTileVal blocks;                 /* of keys */
  TsTileVal from, chunks, total;    /* the first chunk, how many; all parts */
  TsTileVal splits, shorts;         /* of a head */
  TsTileVal block;                  /* the number of this one */
  TsTileVal part, exponent, sum;    /* scratch: [room,rows,D], [room,rows] twice */
  TsTileVal counter, heads;         /* of parts claimed, and done by head */
  TsTileVal sq, sk, sv, box;        /* memory of the block */
  TsTileVal full_q, empty_q, full_k, empty_k, full_v, empty_v, done, read;
  TsTileVal head, first, count; /* of this part: its head, its blocks of keys */
  TsTileVal folded;             /* whether its chunks become one */
} TsGpuDecoding;

/* Where a ring is. */
typedef struct TsGpuDecodeRing {
  TsTileVal slot, parity;
} TsGpuDecodeRing;

/* The part of number n: the long ones of all heads come first, then the short ones. */
void ts_gpu_decode_split_of(TsGpuDecoding *a, TsTileVal n);
/* Whose keys the part is of, and which of them its query sees: all T, or as its batch says. */
void ts_gpu_decode_text_of(TsGpuDecoding *a);
/* The number of the next part, behind whose barrier the queries are too. */
TsTileVal ts_gpu_decode_receive(TsGpuDecoding *a, const TsGpuDecodeRing *q);
/* Of a chunk that is folded: of this block. */
TsTileVal ts_gpu_decode_own_place(TsGpuDecoding *a, TsTileVal slot);
/* Sums, and the exponent they are relative to, to a place of scratch. */
void ts_gpu_decode_leave(TsGpuDecoding *a, TsTileVal place, TsTileVal o, TsTileVal exponent,
                         TsTileVal sum);

/* Of pages: fetches block i of the part's keys or values into a slot, page by page. */
void ts_gpu_decode_fetch_pages(TsGpuDecoding *a, TsTileVal to, TsTileVal from, TsTileVal full,
                               TsTileVal empty, const TsGpuDecodeRing *r, TsTileVal i);
/* Values of block i, which are there, that the query does not see become zeros, if some are. */
void ts_gpu_decode_blank(TsGpuDecoding *a, TsTileVal slot, TsTileVal i);

/* Whether some row does not see the whole block that begins at key k0. */
TsTileVal ts_gpu_decode_is_partial(TsGpuDecoding *a, TsTileVal k0);

/* Add a role. */
void ts_gpu_decode_mma(TsGpuDecoding *a);
void ts_gpu_decode_join(TsGpuDecoding *a);

/* ---- short names of its files */
static inline TsTileVal number(TsGpuDecoding *a, int64_t i) { return ts_tile_index(&a->b, i); }

static inline TsTileVal op2(TsGpuDecoding *a, int op, TsTileVal x, TsTileVal y) {
  return ts_tile_op2(&a->b, op, x, y);
}

static inline TsTileVal by(TsGpuDecoding *a, int op, TsTileVal x, int64_t y) {
  return ts_gpu_by(&a->b, op, x, y);
}

static inline TsTileVal fma3(TsGpuDecoding *a, TsTileVal x, TsTileVal y, TsTileVal z) {
  return ts_tile_op3(&a->b, TS_OP_fma, x, y, z);
}

static inline void ts_gpu_decode_advance(TsGpuDecoding *a, TsGpuDecodeRing *r, int n) {
  ts_gpu_advance(&a->b, &r->slot, &r->parity, n);
}

static inline TsTileVal ts_gpu_decode_keys_at(TsGpuDecoding *a, TsTileVal i) {
  return ts_gpu_by(&a->b, TS_OP_mul, ts_tile_op2(&a->b, TS_OP_add, a->first, i),
                   TS_GPU_DECODE_KEYS);
}

static inline TsTileVal ts_gpu_decode_choose(TsGpuDecoding *a, TsTileVal is, TsTileVal x,
                                             TsTileVal y) {
  return ts_tile_op3(&a->b, TS_OP_where, is, x, y);
}

static inline TsTileVal ts_gpu_decode_constant(TsGpuDecoding *a, double v, TsTileVal like) {
  return like ? ts_gpu_all(&a->b, v, &like->type) : NULL;
}

/* A number of each row, to all columns. */
static inline TsTileVal ts_gpu_decode_spread(TsGpuDecoding *a, TsTileVal x, TsTileVal like) {
  return x && like ? ts_gpu_spread(&a->b, x, &like->type, 0) : NULL;
}

static inline TsTileVal ts_gpu_decode_narrow(TsGpuDecoding *a, TsTileVal x) {
  return x ? ts_tile_cast(&a->b, x, a->x.dtype) : NULL;
}

#endif
