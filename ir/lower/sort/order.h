/* Sorting on a device, for whoever needs an order: keys, sorting in a block, passes over rows
 * of any length. Every sort is stable and by counting (row `places` of ir/tile/tile.def), eight
 * bits at a time, so nothing is atomic and there is one result.
 *
 * Elements of a block are tiles [chunks, warps, 32] that stand in the order of axes 1, 0, 2:
 * each warp has neighbours. */
#ifndef TS_IR_LOWER_SORT_ORDER_H
#define TS_IR_LOWER_SORT_ORDER_H

#include "ir/lower/short.h"
#include "ir/lower/steps.h"

enum { TS_ORDER_DIGIT = 8, TS_ORDER_BINS = 256 };

/* Unsigned numbers of so many bits in the order of a type's values: NaN largest, -0 as +0. */
typedef struct TsOrderKey {
  TsDtype dtype;
  bool descending, wide; /* wide: in i64, else in i32 */
  int bits;
} TsOrderKey;

bool ts_order_has(TsDtype d); /* values of this type have keys */
TsOrderKey ts_order_key(TsDtype d, bool descending);
TsTileVal ts_order_key_of(TsTileBuild *b, const TsOrderKey *k, TsTileVal x);
/* The largest key, which stands behind all that come before it. */
TsTileVal ts_order_last(TsTileBuild *b, const TsOrderKey *k, const TsTileType *like);

typedef struct TsOrderTile {
  int chunks, warps;
} TsOrderTile;

TsTileType ts_order_type(const TsOrderTile *t, TsDtype d);
TsTileVal ts_order_position(TsTileBuild *b, const TsOrderTile *t); /* i64 */
/* Tiles of shared memory that has their elements in order. */
TsTileVal ts_order_load(TsTileBuild *b, const TsOrderTile *t, TsTileVal shared);
void ts_order_store(TsTileBuild *b, const TsOrderTile *t, TsTileVal shared, TsTileVal x);
/* The digit of keys from bit `low` (i64 scalar) on: i32. */
TsTileVal ts_order_digit(TsTileBuild *b, TsTileVal key, TsTileVal low, int bits);
typedef struct TsOrderPlaces {
  TsTileVal place, start, count; /* i32 */
} TsOrderPlaces;
TsOrderPlaces ts_order_places(TsTileBuild *b, TsTileVal digit, int bins);
/* `edge`: elements at negative positions are dropped. */
void ts_order_scatter(TsTileBuild *b, TsTileVal memory, TsTileVal at, TsTileVal x, bool edge);

/* Steps that sort rows of n keys, row-major temporaries: key (i32, or i64 if wide) becomes
 * the sorted ones and place (i32) where each stood, at first or, if `own`, the elements' own
 * numbers. */
typedef struct TsOrderRows {
  int64_t rows, n;
  int bits; /* of the keys */
  bool wide, own;
  int key, place; /* arguments; both change */
} TsOrderRows;
void ts_order_rows(TsSteps *x, TsOrderRows *r);

#endif
