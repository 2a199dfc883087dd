/* What became of a function's groups as facts (lib/facts.h). */
#ifndef TS_JIT_FACTS_H
#define TS_JIT_FACTS_H

#include "jit/build/build.h"

/* Into an object that is open: "why": functions, refused; "tiles": kernels; a level of kernels: kernels
 * with their texts. docs/commands.md has the fields. */
int ts_build_facts(const TsBuildJob *b, const char *level, TsText *text, TsError *err);

/* ---- jit/text.c */
bool ts_build_has_level(const char *level); /* of kernels: "tile", .. "asm" */
int ts_build_group_text(const TsBuildJob *b, const TsFusion *f, const TsGroup *g,
                        const char *level, TsText *text, TsError *err);
void ts_build_digest(const TsTile *k, TsText *text); /* the name under which its code is kept */

#endif
