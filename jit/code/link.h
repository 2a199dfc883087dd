/* From an object of AMD's, as LLVM emits it, to a code object that its driver loads: one file of
 * which all is known, position independent, so that to link is to put sections in their places and
 * to compute distances. lld would do it as well; it comes with its link-time optimiser, start calls
 * of all of LLVM's machines, and state of the process. */
#ifndef TS_JIT_LINK_H
#define TS_JIT_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/error.h"

/* *out: for free(). The bytes may be damaged: whatever they are, this gives a code object or an
 * error. In any thread. */
int ts_link_amd(const void *object, size_t nbytes, char **out, size_t *size, TsError *err);

/* jit/code/linked.c: whether these bytes are what ts_link_amd makes, with kernels of these names: tables
 * and segments within them, names and addresses within those, no chain of the table of names
 * that leads nowhere. A loader is given an address alone and believes all of it. */
bool ts_link_sound(const void *linked, size_t size, int nkernel, const char *const *kernel);

#endif
