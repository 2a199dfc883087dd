/* PTX of kernels with roles: jit/compile/llvm.c around jit/emit/roles/emit.c. See
 * jit/gpu/roles.h. */
#include "jit/gpu/roles.h"

#include <string.h>

#include "jit/compile/llvm.h"

#ifdef TS_LLVM

#include "jit/emit/roles/emit.h"

/* The loop of products is what the Tile IR says it is; addresses leave it, and that is all. */
static const char passes[] =
    "function(sroa,early-cse,instsimplify,simplifycfg,loop-mssa(licm),early-cse)";

static void emit(TsEmit *e, void *info) { ts_roles_module(e, info); }

/* What a kernel uses beyond its target ptxas refuses; nothing here asks. */
int ts_gpu_roles_text(const TsTile *k, bool llvm, TsGpuRoles *info, TsText *text,
                      TsError *err) {
  const TsTarget *target = k->target ? ts_target(k->target) : NULL;
  if (!ts_target_gpu(target))
    return ts_error_set(err, TS_ERR_device, "jit: kernels with roles are for GPUs, not %s",
                        k->target ? k->target : "no target");
  TsTile *expanded = ts_tile_expand(k, err);
  if (!expanded) return -1;
  int failed = ts_llvm_emit(expanded, target, passes, llvm ? TS_LLVM_ir : TS_LLVM_assembly,
                            emit, info, text, err);
  ts_tile_free(expanded);
  if (failed) return -1;
  return text->failed ? ts_error_set(err, TS_ERR_memory, "jit: out of memory") : 0;
}

#else

int ts_gpu_roles_text(const TsTile *k, bool llvm, TsGpuRoles *info, TsText *text,
                      TsError *err) {
  (void)info;
  return ts_llvm_text(k, NULL, llvm, text, err); /* which says that there is none */
}

#endif
