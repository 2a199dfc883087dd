/* The kernel of moves: what devices have goes to where it is wanted, written by its owner, since links
 * carry writes faster than reads. */
#ifndef TS_JIT_COLLECTIVE_PUSH_H
#define TS_JIT_COLLECTIVE_PUSH_H

#include "ir/tile/tile.h"

enum { TS_PUSH_MOST = 16 /* boxes of a device */ };

/* Sizes of a run. A box is `outer` runs of inner * across rows of `width` elements; runs begin so many
 * rows apart in what is read and in what is written. */
typedef enum TsPushDim {
  TS_PUSH_outer,
  TS_PUSH_from, /* rows from one run to the next */
  TS_PUSH_to,
  TS_PUSH_inner,
  TS_PUSH_blocks,
  TS_PUSH_rank,
  TS_PUSH_go, /* as TS_SUM_go */
  TS_PUSH_NDIM
} TsPushDim;

/* nout boxes of one form, of one memory (nin 1) or of one each, and n devices. A tile has `across`
 * rows of as many runs as make a tile of TS_SUM_TILE elements. Parameters: what is read, what is
 * written, the words of all devices. */
typedef struct TsPushKernel {
  int n, nin, nout, width, across;
  TsDtype word;
} TsPushKernel;

/* NULL with the error. */
TsTile *ts_push_kernel(const TsPushKernel *p, const char *target, TsError *err);

#endif
