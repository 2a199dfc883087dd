/* The kernel of moves: what devices have goes to where it is wanted, written by its owner,
 * since links carry writes faster than reads. */
#ifndef TS_JIT_COLLECTIVE_PUSH_H
#define TS_JIT_COLLECTIVE_PUSH_H

#include "ir/tile/tile.h"

enum { TS_PUSH_MOST = 16 /* boxes of a device, and boxes that come to one */ };

/* Sizes of a run. A box is `outer` runs of inner * across rows of `width` elements; runs begin
 * so many rows apart in what is read and in what is written. */
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

/* Boxes of one form, of one memory (nin 1) or of one each, and n devices. A tile has `across`
 * rows of as many runs as make a tile of `tile` elements.
 *
 * nout of them are written where they belong, between two meetings: nobody writes what its
 * owner may still use, and all have come when a kernel ends. Or, with rooms, these are the own
 * ones, and nfar are written into the rooms (devices/flags.h) of who gets them; then all meet,
 * once, and each brings the nget boxes that have come, of the same form, to where they belong.
 * Half and place of a block are as in kernel.h; what is given as a room begins where that of
 * the box does. `once`: no block has more than one tile of a box, and none is in a loop.
 *
 * Parameters: what is read, that which is far last; the own words; the own room, for each box
 * that comes; where own boxes go; where those go that come; the rooms of those that are far;
 * the words of all devices. */
typedef struct TsPushKernel {
  int n, nin, nout, nfar, nget, width, across, tile, threads;
  bool rooms, once;
  TsDtype word;
} TsPushKernel;

/* Tiles of a box of these sizes. */
int64_t ts_push_tiles(const TsPushKernel *p, const int64_t *dim);
int ts_push_params(const TsPushKernel *p);
/* NULL with the error. */
TsTile *ts_push_kernel(const TsPushKernel *p, const char *target, TsError *err);

#endif
