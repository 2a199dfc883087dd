/* Kernels that a program brings along in Tile IR: checked once, compiled at the first call, in
 * the foreground, for the device of their inputs; the CPU runs what a device cannot have, and the
 * interpreter what the CPU cannot. Sizes are solved from the arguments. */
#ifndef TS_JIT_USER_KERNEL_H
#define TS_JIT_USER_KERNEL_H

#include "ir/tile/tile.h"
#include "lib/text.h"
#include "vm/core/tensor.h"

typedef struct TsUserKernel TsUserKernel;

/* Takes k over, also on failure. interpret: nothing is compiled, and positions outside of
 * memory are errors. NULL with the error. */
TsUserKernel *ts_user_kernel_new(TsTile *k, bool interpret, TsError *err);
TsUserKernel *ts_user_kernel_ref(TsUserKernel *u);
void ts_user_kernel_unref(TsUserKernel *u); /* NULL is fine */

const TsTile *ts_user_kernel_tile(const TsUserKernel *u);

/* Symbolic sizes and result types. dim: given sizes, -1 where they are to be solved; afterwards
 * all of them. */
int ts_user_kernel_infer(const TsUserKernel *u, int nin, const TsMeta *const *in, int64_t *dim,
                         TsMeta *out, TsError *err);
/* Results with one reference each; what the kernel does not write of them is unspecified. */
int ts_user_kernel_call(TsUserKernel *u, TsContext *c, int nin, TsTensor *const *in,
                        const int64_t *given, TsTensor **out);

/* Measures what could be chosen for it (jit/tune/tune.h) on these inputs, and runs the best
 * from then on. */
int ts_user_kernel_tune(TsUserKernel *u, TsContext *c, int nin, TsTensor *const *in,
                        const int64_t *given);

/* "tile", "explicit", "llvm", "asm", or "tiles", a line with the name under which code is
 * kept: for the target, or, NULL, of what ran last. */
int ts_user_kernel_text(const TsUserKernel *u, TsContext *c, const char *level,
                        const TsTarget *target, TsText *text, TsError *err);

/* How the last call ran. */
typedef struct TsUserKernelStatus {
  bool compiled, cached; /* cached: the object came from disk */
  const char *why;       /* it is not compiled */
  const char *device;    /* NULL: the CPU */
} TsUserKernelStatus;
TsUserKernelStatus ts_user_kernel_status(const TsUserKernel *u);

#endif
