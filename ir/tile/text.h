/* What the printer, the reader, the comparer and the checker of Tile IR share. */
#ifndef TS_IR_TILE_TEXT_H
#define TS_IR_TILE_TEXT_H

#include "ir/text/map.h"
#include "ir/tile/tile.h"

enum { TS_TILE_DEEPEST = 32 }; /* regions in regions */

/* Names of values: those that they were given, made legal, and unique in the kernel by .1, .2;
 * values without one are numbered in the order of the lines. An i64 constant that only the
 * statement behind it uses has no line: it is the number that stands as the operand. With
 * places only where both have the same one. */
typedef struct TsTileNames {
  TsArena arena;
  bool places;
  TsTextMap value; /* by address */
} TsTileNames;

/* -1: out of memory. In both cases for _close. */
int ts_tile_names_open(TsTileNames *m, const TsTile *k, bool places);
void ts_tile_names_close(TsTileNames *m);
/* Without the sigil; "?" of what is not there, "" of what stands in place. */
const char *ts_tile_names_of(const TsTileNames *m, TsTileVal v);
bool ts_tile_names_in_place(const TsTileNames *m, TsTileVal v);

/* How the operands of a memory operation stand: first its memories, then positions. Those of
 * one memory are in its brackets; of a copy those in the memory that is written may be missing,
 * and the slot of the barrier stands before them. Behind `tail`, unless it is 0, a last one. */
typedef struct TsTileBrackets {
  int16_t op;
  uint8_t memories; /* 2 and 3: copies */
  char tail;
} TsTileBrackets;

/* NULL if op has its operands one behind the other. */
const TsTileBrackets *ts_tile_brackets(int op);
extern const char *const ts_space_name[];

void ts_tile_type_text(const TsTile *k, const TsTileType *type, TsText *text);
/* The line of one statement, without its regions. */
void ts_tile_stmt_text(const TsTile *k, const TsTileStmt *s, TsText *text);

#endif
