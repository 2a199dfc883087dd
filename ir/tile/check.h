/* The rules of single statements, for the check of a whole kernel. */
#ifndef TS_IR_TILE_CHECK_H
#define TS_IR_TILE_CHECK_H

#include "ir/tile/tile.h"

enum { TS_TILE_TYPE_TEXT = 120, TS_TILE_LANES = 256, TS_TILE_LANE_BYTES = 1024 };

typedef struct TsTileCheck {
  const TsTile *k;
  const TsTarget *target; /* or NULL */
  TsError *err;
  bool cpu; /* the kernel's target is one */
  int64_t shared_bytes;
  int roles, grid; /* roles and parallel loops that are open */
  char text[4][TS_TILE_TYPE_TEXT];
  int ntext;
} TsTileCheck;

/* "mul: <what is wrong>"; returns -1. */
int ts_tile_wrong(TsTileCheck *c, const TsTileStmt *s, TsErrorCode code, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));
/* The text of a type, good until three later calls. */
const char *ts_tile_shown(TsTileCheck *c, const TsTileType *t);

/* The type can be that of a value of this kernel; `s` makes it, or is NULL for a parameter. */
int ts_tile_check_type(TsTileCheck *c, const TsTileStmt *s, const TsTileType *t);
/* Operands, attributes, result types. Regions are not entered. */
int ts_tile_check_row(TsTileCheck *c, const TsTileStmt *s);
/* Bytes of an allocation, -1: unknown. */
int64_t ts_tile_nbytes(const TsTileType *t);

#endif
