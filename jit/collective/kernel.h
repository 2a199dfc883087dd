/* Kernels of collectives of the GPUs of one process: Tile IR in which devices meet (`meet` of
 * ir/tile/tile.def), read each other's memory and write it. One launch a device is all of
 * it. */
#ifndef TS_JIT_COLLECTIVE_KERNEL_H
#define TS_JIT_COLLECTIVE_KERNEL_H

#include "ir/tile/tile.h"
#include "vm/mesh/leaves.h"

enum {
  TS_SUM_MOST = 64,     /* summands of a kernel */
  TS_SUM_PARAMS = 112,  /* and parameters: eight devices with eight summands each by reading */
  TS_SUM_THREADS = 512, /* of a block, at most */
  TS_SUM_TILE = 4096,   /* elements that a block adds up at a time */
};

/* Sizes of a run: rows that this device adds up, blocks, rounds of each, its rank, and 1; 0:
 * nothing is done, so that the code is there before devices wait for each other. Of one that
 * pushes also: rows that are read of a summand, chunks of so many rounds, and which summand is
 * its first. */
typedef enum TsSumDim {
  TS_SUM_rows,
  TS_SUM_blocks,
  TS_SUM_rounds,
  TS_SUM_rank,
  TS_SUM_go,
  TS_SUM_reads,
  TS_SUM_chunks,
  TS_SUM_first,
  TS_SUM_NDIM
} TsSumDim;

/* nsum summands of type `of`, subtrees of a tree of so many leaves, are combined by op and
 * rounded once to `to`: into one memory, or into one of each device. Rows have `width`
 * elements, a block does `tile` elements at a time.
 *
 * One that pulls reads all summands where they lie, between two meetings. Parameters: the
 * summands; the own words; where it goes; the words of all devices.
 *
 * One that pushes (nown of the summands are its own) writes what it has to where it is added
 * up, into the room of devices/flags.h, as links carry writes faster than reads; meets the
 * others; adds up what has come to it. With one chunk and one memory that is one meeting in
 * all. Of more chunks one is added up while the others may write the next, into the other half
 * of the room of this block: who has come to the next meeting has done with the chunk before.
 * Which half it is says the number of meetings so far, so that a launch may be replayed.
 * `once`: of one chunk of one round, without loops around them. Parameters: for each own
 * summand what each device is to get of it (`apart`), or the summand; the own room and the own
 * words; where it goes; the room of all devices; the words of all. */
typedef struct TsSumKernel {
  const char *name;
  int n, nsum, nout, leaves, width, tile, threads;
  bool pushes, apart, once;
  int nown;
  TsOp op;
  TsDtype of, to;
  int level[TS_SUM_MOST], place[TS_SUM_MOST];
} TsSumKernel;

/* Rounds that fit into the room of a block; 0: none, and it cannot push. */
int64_t ts_sum_rounds(const TsSumKernel *s);
int ts_sum_params(const TsSumKernel *s);
/* NULL with the error. */
TsTile *ts_sum_kernel(const TsSumKernel *s, const char *target, TsError *err);

#endif
