/* PTX of kernels with roles: jit/llvm.c around jit/emit_mma.c. See jit/gpu_mma.h. */
#include "jit/gpu_mma.h"

#include <string.h>

#include "jit/llvm.h"

#ifdef TS_LLVM

#include "jit/emit_mma.h"

/* The loop of products is what the Tile IR says it is; addresses leave it, and that is all. */
static const char passes[] =
    "function(sroa,early-cse,instsimplify,simplifycfg,loop-mssa(licm),early-cse)";

static void emit(TsEmit *e, void *info) { ts_emit_mma_module(e, info); }

int ts_gpu_mma_text(const TsTile *k, bool llvm, TsGpuMma *info, TsText *text, TsError *err) {
  static const TsJitTarget target = {.tile = {.name = "sm_90a", .fma = true},
                                     .triple = "nvptx64-nvidia-cuda",
                                     .cpu = "sm_90a",
                                     .features = "+ptx83",
                                     .half = true,
                                     .round = true};
  if (!k->target || strcmp(k->target, target.cpu))
    return ts_error_set(err, TS_ERR_device, "jit: kernels with roles are for sm_90a, not %s",
                        k->target ? k->target : "no target");
  TsTile *expanded = ts_tile_expand(k, err);
  if (!expanded) return -1;
  int failed = ts_llvm_emit(expanded, &target, passes, llvm ? TS_LLVM_ir : TS_LLVM_assembly,
                            emit, info, text, err);
  ts_tile_free(expanded);
  if (failed) return -1;
  return text->failed ? ts_error_set(err, TS_ERR_memory, "jit: no memory") : 0;
}

#else

int ts_gpu_mma_text(const TsTile *k, bool llvm, TsGpuMma *info, TsText *text, TsError *err) {
  (void)info;
  return ts_llvm_text(k, NULL, llvm, text, err); /* which says that there is none */
}

#endif
