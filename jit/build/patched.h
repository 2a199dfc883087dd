/* Kernels of groups that a user's patch stands in for (jit/code/patches.h), and what they are made
 * of. */
#ifndef TS_JIT_BUILD_PATCHED_H
#define TS_JIT_BUILD_PATCHED_H

#include "jit/build/build.h"
#include "jit/code/patches.h"

/* The group's kernel whatever was patched; c NULL: by the group's own choice. */
int ts_build_unpatched(const TsBuildJob *b, const TsFusion *u, const TsGroup *g,
                       const TsSchedChoice *c, TsSchedKernel *out, TsError *err);
/* By the passes' own choice, and the name under which patches of it are kept. */
int ts_build_usual(const TsBuildJob *b, const TsFusion *u, const TsGroup *g, TsSchedKernel *out,
                   uint8_t key[32], TsError *err);
/* A kernel of this text in place of the usual one: legal for the target, with the same parameters
 * and sizes. */
int ts_build_of_text(const TsSchedKernel *usual, const char *text, const TsTarget *t,
                     TsSchedKernel *out, TsError *err);
/* Whether k can stand in for the usual one: its parameters and sizes. */
int ts_build_alike(const TsTile *usual, const TsTile *k, TsError *err);
/* Whether there is a patch of the group that this program takes; then its kernel. */
bool ts_build_patched(const TsBuildJob *b, const TsFusion *u, const TsGroup *g,
                      TsSchedKernel *out);
bool ts_build_is_patched(const TsBuildJob *b, const TsFusion *u, const TsGroup *g);
/* "" or why what was kept of the group is not taken, for people. */
void ts_build_patch_lost(const TsBuildJob *b, const TsFusion *u, const TsGroup *g, TsText *why);

#endif
