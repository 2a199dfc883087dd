/* Parts that are joined: written where they will lie, instead of moved there. */
#ifndef TS_JIT_BUILD_JOIN_H
#define TS_JIT_BUILD_JOIN_H

#include "jit/build/build.h"

/* For groups of f whose kernel writes several results with strides, all of which one concat of
 * the graph joins and nobody else reads: sets how they lie, and the group's `into`. */
int ts_build_join(const TsBuildJob *b, TsFusion *f);

#endif
