/* Profile marks: where a stage of a kernel begins and ends. A kernel has them where its head
 * says `marks`; then the passes to explicit form put marks around what they make, unless its
 * text has some of its own. Elsewhere they are nothing. */
#ifndef TS_IR_TILE_MARKS_H
#define TS_IR_TILE_MARKS_H

#include "ir/tile/tile.h"

/* In the order of the attribute's words. */
typedef enum TsTileStage {
  TS_STAGE_load,
  TS_STAGE_wait,
  TS_STAGE_mma,
  TS_STAGE_epilogue,
  TS_STAGE_store,
  TS_STAGE_other,
} TsTileStage;

const char *ts_tile_stage_name(int stage);

/* The beginning or end of a stage; what: a few words, or NULL. Nothing where k has no marks. */
void ts_tile_mark(TsTileBuild *b, TsTileStage stage, const char *what, bool end);

/* Whether the text of a kernel has marks: then passes add none. */
bool ts_tile_has_marks(const TsTile *k);

/* The stages of a kernel, each once: by stage, words and line. */
enum { TS_TILE_MARKS = 48 };
typedef struct TsTileMark {
  const TsTileStmt *stmt; /* its first mark */
  int stage;
  const char *what; /* or NULL */
} TsTileMark;
int ts_tile_marks(const TsTile *k, TsTileMark mark[TS_TILE_MARKS]);
/* The number of the stage of a mark; -1: there are too many. */
int ts_tile_mark_index(int n, const TsTileMark *mark, const TsTileStmt *s);

#endif
