/* What the reader of Tile IR (ir/tile/parse.c) shares with that of kernels' heads. Not for
 * others. */
#ifndef TS_IR_TILE_PARSE_STATE_H
#define TS_IR_TILE_PARSE_STATE_H

#include "ir/text/line.h"
#include "ir/tile/text.h"

typedef struct Operand {
  TsTileVal v; /* NULL: a number */
  int64_t number;
} Operand;

typedef struct Parser {
  TsReader r;
  TsArena scratch; /* attributes, until the kernel has copied them */
  TsTextMap values, places;
  TsTextStack names, operands, types; /* TsToken, Operand, TsTileType */
  TsTextStack defined;                /* TsToken: what the regions around define */
  TsTile *k;
  TsTileBuild b;
  int depth;
  bool lines;          /* places are lines of the text, and all values keep their names */
  const char *at_line; /* its beginning, and its number */
  int line;
  int looks; /* lines since somebody looked for an interrupt */
} Parser;

static inline int no_memory(Parser *p) { return ts_read_no_memory(&p->r); }

/* ---- ir/tile/parse.c */
char *ts_tile_read_keep(Parser *p, TsArena *a, const char *s, int len); /* a copy of s */
int ts_tile_read_define(Parser *p, const TsToken *t, TsTileVal v);
int ts_tile_read_type(Parser *p, TsTileType *t);
int ts_tile_read_word(Parser *p, TsArena *a, const char **out);

/* ---- ir/tile/parse_head.c: what stands between a kernel's name and its lines */
int ts_tile_read_head(Parser *p);

#endif
