/* From Tile IR in block form to PTX, or a code object of AMD's. See jit/gpu/gpu.h. */
#include "jit/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/pass/nearly.h"
#include "ir/tile/square.h"
#include "jit/gpu/boxes.h"
#include "jit/gpu/code.h"
#include "jit/gpu/marks.h"
#include "jit/code/link.h"
#include "jit/compile/llvm.h"
#include "lib/clock.h"

/* ---- the outline with what is planned */
static void put_phases(const TsGpuPlan *plan, TsGpuCode *code) {
  for (int i = 0; i < plan->nphase; i++) {
    TsGpuPhase *p = &code->phase[i];
    snprintf(p->name, sizeof p->name, "phase%d", i);
    p->threads = plan->phase[i].threads * plan->phase[i].rounds;
    p->rounds = plan->phase[i].rounds;
  }
}

int ts_gpu_code_outline(const TsTile *k, const TsTarget *t, bool aligned, TsGpuCode *code,
                        TsGpuPlan *plan, TsError *err) {
  enum { ALIGN = 16 };
  *code = (TsGpuCode){0};
  if (k->form != TS_FORM_block)
    return ts_error_set(err, TS_ERR_device, "jit: no kernel in block form");
  if (ts_gpu_plan(k, t, aligned, plan, err) || ts_gpu_outline(k, plan, code, err)) return -1;
  put_phases(plan, code);
  bool boxes = t->matrix == TS_MATRIX_dpas && ts_gpu_boxes_used(k->body);
  code->align = boxes ? TS_BOX_ALIGN : ALIGN;
  return 0;
}

/* ---- code */
TsTile *ts_gpu_code_expanded(const TsTile *k, const TsTarget *t, TsError *err) {
  TsTile *n = t->single ? ts_tile_single(k, err) : NULL, *e = NULL;
  if (t->single && !n) return NULL;
  if (!t->portable) n = ts_tile_nearly(k, err);
  if (n || t->portable) e = ts_tile_expand(n ? n : k, err);
  ts_tile_free(n);
  if (!e || ts_tile_dce(e, err) >= 0) return e;
  ts_tile_free(e);
  return NULL;
}

/* A thread's number of turns becomes a register: not all code generators see to that. Intel's compiler
 * for CPUs (of 2026) loses what threads know before they meet, so it is in memory of their own there: a
 * block ends at each meeting (jit/emit/simt/spirv.c), and what another one reads is stored. Compilers of
 * GPUs are spared that (docs/performance_devices.md has what it costs). */
static const char *passes_of(const TsTile *k, const TsTarget *t) {
  if (t->forgets) return "function(early-cse,reg2mem)";
  return k->marks && ts_gpu_marks_by_launch(t) ? "function(sroa,early-cse)" : NULL;
}

static int emit(const TsTile *k, const TsTarget *t, TsGpuForm how, TsLlvmForm form,
                TsGpuCode *code, TsText *text, TsError *err) {
  TsGpuPlan plan;
  int64_t shared[TS_GPU_PHASES];
  TsTile *e = ts_gpu_code_expanded(k, t, err);
  if (!e) return -1;
  int failed = ts_gpu_code_outline(e, t, how != TS_GPU_loose, code, &plan, err);
  bool crowded = false;
  TsGpuJob job = {.plan = &plan, .form = how, .shared = shared, .crowded = &crowded};
  if (!failed) failed = ts_llvm_emit(e, t, passes_of(k, t), form, ts_gpu_emit, &job, text, err);
  if (failed && crowded) { /* caches have to do then */
    ts_error_clear(err);
    job.lean = true;
    failed = ts_llvm_emit(e, t, passes_of(k, t), form, ts_gpu_emit, &job, text, err);
  }
  for (int i = 0; !failed && i < plan.nphase; i++) {
    code->phase[i].shared = (uint32_t)(shared[i] * plan.phase[i].rounds);
    if (code->phase[i].shared > t->shared_bytes)
      failed = ts_error_set(err, TS_ERR_device, "jit: a block needs %u bytes of shared memory",
                            code->phase[i].shared);
  }
  ts_tile_free(e);
  return failed;
}

/* What LLVM made becomes what a driver takes: AMD's linked objects. */
static int take(const TsTarget *t, TsText *text, TsGpuCode *code, TsError *err) {
  if (!t->object || t->maker != TS_MAKER_amd) {
    code->image = text->at, code->size = text->len;
    return 0;
  }
  int failed = ts_link_amd(text->at, text->len, &code->image, &code->size, err);
  ts_text_free(text);
  return failed;
}

int ts_gpu_code(const TsTile *k, const TsTarget *t, TsGpuForm how, TsGpuCode *code,
                TsError *err) {
  TsText text = {0};
  double begun = ts_clock_usec();
  TsLlvmForm form = t->object ? TS_LLVM_object : TS_LLVM_assembly;
  int failed = emit(k, t, how, form, code, &text, err);
  if (!failed && text.failed) failed = ts_error_set(err, TS_ERR_memory, "jit: out of memory");
  if (failed) return ts_text_free(&text), -1;
  if (take(t, &text, code, err)) return -1;
  code->usec = ts_clock_usec() - begun;
  return 0;
}

void ts_gpu_code_free(TsGpuCode *code) {
  free(code->image);
  code->image = NULL;
}

int ts_gpu_text(const TsTile *k, const TsTarget *t, const char *level, TsText *out,
                TsError *err) {
  TsGpuCode code;
  bool llvm = !strcmp(level, "llvm");
  if (!llvm && strcmp(level, "asm"))
    return ts_error_set(err, TS_ERR_argument, "levels of a GPU's kernel are llvm and asm");
  if (emit(k, t, TS_GPU_aligned, llvm ? TS_LLVM_ir : TS_LLVM_assembly, &code, out, err))
    return -1;
  /* What a launch says is in no text otherwise. */
  for (int i = 0; i < code.nphase && !llvm; i++)
    ts_text_format(out,
                   "// %s: blocks of %d threads, %u bytes of shared memory by the launch\n",
                   code.phase[i].name, code.phase[i].threads, code.phase[i].shared);
  return 0;
}
