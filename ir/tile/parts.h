/* A kernel that is several ones, run one after another: what a device does in steps which want
 * different forms (ir/tile/tile.h). The whole has parameters and no statements. */
#ifndef TS_IR_TILE_PARTS_H
#define TS_IR_TILE_PARTS_H

#include "ir/tile/tile.h"

enum { TS_TILE_PARTS = 7, TS_TILE_TEMPS = 9, TS_TILE_PART_PARAMS = 16 };

typedef struct TsTilePart {
  TsTile *k;
  int unless; /* a shared temporary: it runs only if no other kernel writes that; 0: always */
  int arg[TS_TILE_PART_PARAMS]; /* a parameter of the whole, or -1 - a temporary */
  int64_t dim[TS_TILE_DIMS];    /* the symbolic sizes */
} TsTilePart;

/* Memory that parts share. */
typedef struct TsTileTemp {
  int64_t nbytes;
  bool zero; /* zeros when the first part begins, and again when the last one is done */
  bool writes;
  uint64_t shared; /* by all kernels that name it so, of which one writes it; 0: its own */
} TsTileTemp;

struct TsTileParts {
  int n, ntemp;
  TsTilePart part[TS_TILE_PARTS];
  TsTileTemp temp[TS_TILE_TEMPS];
};

/* Parts of k, none yet; NULL: out of memory. */
TsTileParts *ts_tile_parts(TsTile *k);
/* The next part, which takes k over. arg: as many as k has parameters. False: too many, or k is
 * NULL; k is freed. */
bool ts_tile_parts_add(TsTileParts *p, TsTile *k, const int *arg, const int64_t *dim);
/* The argument that stands for a new temporary. */
int ts_tile_parts_temp(TsTileParts *p, int64_t nbytes, bool zero);
/* The same for one that kernels share: what one left there the others find. */
int ts_tile_parts_shared(TsTileParts *p, int64_t nbytes, uint64_t name, bool writes);

#endif
