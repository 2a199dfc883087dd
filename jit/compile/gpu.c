/* From Tile IR in block form to PTX. See jit/gpu/gpu.h. */
#include "jit/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/tile/pass/nearly.h"
#include "jit/gpu/code.h"
#include "jit/compile/llvm.h"

#define NUMBERS .vector_bytes = 16, .registers = 255, .fma = true

static const TsGpuTarget target[] = {
    {8,
     0,
     "sm_80",
     "+ptx80",
     {.name = "sm_80", NUMBERS, .shared_bytes = 166912, .bare_products = true}},
    {8,
     6,
     "sm_80",
     "+ptx80",
     {.name = "sm_80", NUMBERS, .shared_bytes = 101376, .bare_products = true}},
    {9,
     0,
     "sm_90a",
     "+ptx83",
     {.name = "sm_90a", NUMBERS, .shared_bytes = 232448, .bare_products = true}},
    {9,
     0,
     "sm_90",
     "+ptx83",
     {.name = "sm_90", NUMBERS, .shared_bytes = 232448, .bare_products = true}},
    {12,
     0,
     "sm_90",
     "+ptx83",
     {.name = "sm_90", NUMBERS, .shared_bytes = 101376, .bare_products = true}},
};
enum { SM_80, SM_86, SM_90A, SM_90, SM_120 };

bool ts_gpu_oldest(void) {
  const char *s = getenv("TESSERA_GPU");
  return s && !strcmp(s, "sm_80");
}

/* Code for sm_90a runs there alone; the driver compiles that of sm_80 and sm_90 for all that
 * came later. */
const TsGpuTarget *ts_gpu_target(int major, int minor) {
  if (major < 8) return NULL;
  if (ts_gpu_oldest()) return &target[SM_80];
  if (major == 8) return &target[minor == 6 || minor == 9 ? SM_86 : SM_80];
  if (major == 9 && minor == 0) return &target[SM_90A];
  return &target[major == 12 ? SM_120 : SM_90];
}

const TsJitTarget *ts_gpu_jit_target(const TsGpuTarget *t) {
  static const TsJitTarget list[] = {
      {.tile = {.name = "sm_80"},
       .triple = "nvptx64-nvidia-cuda",
       .cpu = "sm_80",
       .features = "+ptx80",
       .half = true,
       .brain = true,
       .round = true},
      {.tile = {.name = "sm_90a"},
       .triple = "nvptx64-nvidia-cuda",
       .cpu = "sm_90a",
       .features = "+ptx83",
       .half = true,
       .brain = true,
       .round = true},
      {.tile = {.name = "sm_90"},
       .triple = "nvptx64-nvidia-cuda",
       .cpu = "sm_90",
       .features = "+ptx83",
       .half = true,
       .brain = true,
       .round = true},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (!strcmp(list[i].cpu, t->cpu)) return &list[i];
  return NULL;
}

static double now_usec(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* ---- the outline with what is planned */
static void put_phases(const TsGpuPlan *plan, TsGpuCode *code) {
  for (int i = 0; i < plan->nphase; i++) {
    TsGpuPhase *p = &code->phase[i];
    snprintf(p->name, sizeof p->name, "phase%d", i);
    p->threads = plan->phase[i].threads * plan->phase[i].rounds;
    p->rounds = plan->phase[i].rounds;
  }
}

int ts_gpu_code_outline(const TsTile *k, bool aligned, TsGpuCode *code, TsGpuPlan *plan,
                        TsError *err) {
  *code = (TsGpuCode){0};
  if (k->form != TS_FORM_block)
    return ts_error_set(err, TS_ERR_device, "jit: no kernel in block form");
  if (ts_gpu_plan(k, aligned, plan, err) || ts_gpu_outline(k, plan, code, err)) return -1;
  put_phases(plan, code);
  return 0;
}

/* ---- code */
static TsTile *expanded(const TsTile *k, TsError *err) {
  TsTile *n = ts_tile_nearly(k, err), *e = n ? ts_tile_expand(n, err) : NULL;
  ts_tile_free(n);
  if (e) ts_tile_dce(e);
  return e;
}

static int emit(const TsTile *k, const TsGpuTarget *t, TsGpuForm how, TsLlvmForm form,
                TsGpuCode *code, TsText *text, TsError *err) {
  TsGpuPlan plan;
  int64_t shared[TS_GPU_PHASES];
  TsTile *e = expanded(k, err);
  if (!e) return -1;
  int failed = ts_gpu_code_outline(e, how != TS_GPU_loose, code, &plan, err);
  TsGpuJob job = {.plan = &plan, .form = how, .shared = shared};
  if (!failed)
    failed = ts_llvm_emit(e, ts_gpu_jit_target(t), NULL, form, ts_gpu_emit, &job, text, err);
  for (int i = 0; !failed && i < plan.nphase; i++) {
    code->phase[i].shared = (uint32_t)(shared[i] * plan.phase[i].rounds);
    if (code->phase[i].shared > t->tile.shared_bytes)
      failed = ts_error_set(err, TS_ERR_device, "jit: a block needs %u bytes of shared memory",
                            code->phase[i].shared);
  }
  ts_tile_free(e);
  return failed;
}

int ts_gpu_code(const TsTile *k, const TsGpuTarget *t, TsGpuForm how, TsGpuCode *code,
                TsError *err) {
  TsText text = {0};
  double begun = now_usec();
  int failed = emit(k, t, how, TS_LLVM_assembly, code, &text, err);
  if (!failed && text.failed) failed = ts_error_set(err, TS_ERR_memory, "jit: out of memory");
  if (failed) return ts_text_free(&text), -1;
  code->ptx = text.at, code->size = text.len;
  code->usec = now_usec() - begun;
  return 0;
}

void ts_gpu_code_free(TsGpuCode *code) {
  free(code->ptx);
  code->ptx = NULL;
}

int ts_gpu_text(const TsTile *k, const TsGpuTarget *t, const char *level, TsText *out,
                TsError *err) {
  TsGpuCode code;
  bool llvm = !strcmp(level, "llvm");
  if (!llvm && strcmp(level, "ptx"))
    return ts_error_set(err, TS_ERR_argument, "levels of a GPU's kernel are llvm and ptx");
  return emit(k, t, TS_GPU_aligned, llvm ? TS_LLVM_ir : TS_LLVM_assembly, &code, out, err);
}
