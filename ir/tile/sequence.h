/* A kernel that is a sequence of others, its steps: what a device does one after another in
 * different forms (ir/tile/tile.h). The whole has parameters and no statements. */
#ifndef TS_IR_TILE_SEQUENCE_H
#define TS_IR_TILE_SEQUENCE_H

#include "ir/tile/tile.h"

enum { TS_TILE_STEP_PARAMS = 16 };

typedef struct TsTileStep {
  TsTile *k;
  int unless;  /* a shared temporary: it runs only if no other kernel writes that; 0: always */
  bool copies; /* its first argument to its second: nothing to do where these are one */
  int arg[TS_TILE_STEP_PARAMS];      /* a parameter of the whole, or -1 - a temporary */
  int64_t byte[TS_TILE_STEP_PARAMS]; /* where in it the step's own parameter begins */
  int64_t dim[TS_TILE_DIMS];         /* the symbolic sizes */
  unsigned char of[TS_TILE_DIMS];    /* 0, or 1 + the whole's size that it is instead */
} TsTileStep;

/* Memory that steps share. */
typedef struct TsTileTemp {
  int64_t nbytes;
  bool zero; /* zeros when the first step begins, and again when the last one is done */
  bool writes;
  uint64_t shared;  /* by all kernels that name it so, of which one writes it; 0: its own */
  const void *data; /* constants that it holds, and keeps; NULL: none */
} TsTileTemp;

struct TsTileSequence {
  TsTile *whole;
  int n, ntemp;
  TsTileStep *step; /* in the whole's arena, as is temp */
  TsTileTemp *temp;
};

/* Steps of k, none yet; NULL: out of memory. */
TsTileSequence *ts_tile_sequence(TsTile *k);
/* The next step, which takes k over. arg: as many as k has parameters. False: those are too many, k
 * is NULL, or memory ran out; k is freed. */
bool ts_tile_sequence_add(TsTileSequence *p, TsTile *k, const int *arg, const int64_t *dim);
/* The argument that stands for a new temporary; the whole has failed where memory ran out. */
int ts_tile_sequence_temp(TsTileSequence *p, int64_t nbytes, bool zero);
/* The same for constants, which are copied. */
int ts_tile_sequence_table(TsTileSequence *p, const void *data, int64_t nbytes);
/* The same for one that kernels share: what one left there the others find. */
int ts_tile_sequence_shared(TsTileSequence *p, int64_t nbytes, uint64_t name, bool writes);

#endif
