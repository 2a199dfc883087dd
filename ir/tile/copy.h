/* Copies a kernel statement by statement while somebody may put other statements in place of
 * some: the frame of every pass that builds a kernel from another. */
#ifndef TS_IR_TILE_COPY_H
#define TS_IR_TILE_COPY_H

#include "ir/tile/tile.h"

typedef struct TsTileCopy TsTileCopy;

/* Sees every statement before it is copied, outer ones first. Returns 0 to have it copied; 1
 * when it has emitted at c->b what stands in its place, which may be nothing, and has told the
 * results by ts_tile_copy_set; -1 with c->err filled. */
typedef int TsTileCopyFn(TsTileCopy *c, const TsTileStmt *s, void *arg);

struct TsTileCopy {
  const TsTile *from;
  TsTile *to;
  TsTileBuild b;  /* where the copy grows */
  TsTileVal *map; /* copies by the id of the original */
  TsTileCopyFn *each;
  void *arg;
  TsError *err;
};

/* A kernel with head, parameters, sizes and places of k and an empty body. NULL: out of
 * memory. */
TsTile *ts_tile_copy_head(const TsTile *k);

/* The copy; NULL with the error. each may be NULL. */
TsTile *ts_tile_copy(const TsTile *k, TsTileCopyFn *each, void *arg, TsError *err);

/* ---- for those who replace */
static inline TsTileVal ts_tile_copy_get(const TsTileCopy *c, TsTileVal old) {
  return c->map[old->id];
}
/* Later readers of old read by. by takes the name of old if it has none and is no constant. */
void ts_tile_copy_set(TsTileCopy *c, TsTileVal old, TsTileVal by);
/* The statement itself with its regions, through `each` inside of them. NULL: failed. */
TsTileStmt *ts_tile_copy_stmt(TsTileCopy *c, const TsTileStmt *s);
/* The statements of a region to where c->b stands; its parameters are set before. A loop that
 * is unrolled calls it once for each round. */
int ts_tile_copy_region(TsTileCopy *c, const TsTileRegion *r);

#endif
