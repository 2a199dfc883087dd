/* The levels at which what runs is read (jit/level.def), and what is said of words that are none:
 * of levels and of targets, which stand side by side. */
#ifndef TS_JIT_LEVEL_H
#define TS_JIT_LEVEL_H

#include <stdbool.h>

#include "devices/target.h"
#include "lib/error.h"

typedef enum TsLevelOf {
  TS_LEVEL_function = 1,
  TS_LEVEL_loop = 2,
  TS_LEVEL_kernel = 4,
  TS_LEVEL_call = 8,
  TS_LEVEL_part = 16, /* one kernel of a function */
} TsLevelOf;

typedef struct TsLevel {
  const char *name, *help;
  int of; /* TsLevelOf */
  bool targets;
} TsLevel;

/* NULL behind the last. */
const TsLevel *ts_level_at(int i);
/* -1 for what has no such level, or where the level is the same for all targets. */
int ts_level_check(TsLevelOf of, const char *level, const TsTarget *target, TsError *err);
/* NULL for a word that is no target. */
const TsTarget *ts_level_target(const char *name, TsError *err);

#endif
