/* PTX of persistent kernels: functions of all codes and their kernel in one module. See
 * jit/gpu/persistent.h. */
#include "jit/gpu/persistent.h"

#include <stdio.h>
#include <string.h>

#include "jit/gpu/code.h"
#include "jit/compile/llvm.h"

static void phase_of(const TsGpuPhasePlan *p, TsPersistentPhase *out) {
  *out = (TsPersistentPhase){p->rounds, p->threads * p->rounds};
}

int ts_gpu_persistent_phases(const TsTile *k, const TsTarget *t, TsPersistentPhase *phase,
                             TsError *err) {
  TsGpuPlan plan;
  if (k->form == TS_FORM_explicit) {
    phase[0] = (TsPersistentPhase){.side = 1, .threads = k->threads};
    return 0;
  }
  TsTile *e = ts_gpu_code_expanded(k, t, err);
  int failed = !e || ts_gpu_plan(e, t, true, &plan, err);
  for (int i = 0; !failed && i < plan.nphase; i++) phase_of(&plan.phase[i], &phase[i]);
  ts_tile_free(e);
  return failed ? -1 : 0;
}

#ifdef TS_LLVM

#include "jit/emit/roles/emit.h"
#include "jit/emit/simt/task.h"

/* Functions are called from one place each; then what is done for kernels with roles. */
static const char passes[] =
    "always-inline,function(sroa,early-cse,instsimplify,simplifycfg,early-cse)";

typedef struct Job {
  TsGpuPersistent *out;
  TsTile *expanded[TS_GPU_TASK_CODES];
  TsGpuPlan plan[TS_GPU_TASK_CODES];
} Job;

/* Three groups of four warps, of which the last two do what kernels of threads do. */
static bool has_parts(const TsGpuPersistent *out) {
  enum { GROUP = 128 };
  bool roles = false;
  for (int i = 0; i < out->ncode; i++) {
    const TsGpuTaskCode *c = &out->code[i];
    if (!c->roles && c->threads > (TS_GPU_TASK_PARTS - 1) * GROUP) return false;
    roles |= c->roles;
  }
  return roles && out->threads == TS_GPU_TASK_PARTS * GROUP;
}

static void emit_code(TsEmit *e, Job *job, int i, int part, bool parts, TsGpuTaskFunction *of) {
  enum { GROUP = 128 };
  TsGpuTaskCode *c = &job->out->code[i];
  char name[32];
  snprintf(name, sizeof name, "task%d_%d", i, part);
  e->k = job->expanded[i];
  of->threads = c->roles || !parts ? c->threads : GROUP + c->threads;
  if (c->roles && part * GROUP < c->threads) {
    c->shared = ts_roles_task(e, &c->info, name, job->out->threads, parts ? part : -1);
    of->fn[part] = e->fn;
  } else if (!c->roles && parts && part) {
    bool first = part == 1; /* both call the same code */
    if (first) c->shared = ts_gpu_task(e, &job->plan[i], c->phase, name, GROUP);
    of->fn[part] = first ? e->fn : of->fn[1];
  } else if (!c->roles && !parts) {
    c->shared = ts_gpu_task(e, &job->plan[i], c->phase, name, 0);
    of->fn[part] = e->fn;
  }
  if (c->shared > job->out->shared) job->out->shared = c->shared;
}

static void emit(TsEmit *e, void *arg) {
  Job *job = arg;
  TsGpuPersistent *out = job->out;
  TsGpuTaskFunction of[TS_GPU_TASK_CODES];
  bool parts = has_parts(out);
  int n = parts ? TS_GPU_TASK_PARTS : 1;
  memset(of, 0, sizeof of);
  for (int i = 0; i < out->ncode; i++)
    for (int part = 0; part < n; part++) emit_code(e, job, i, part, parts, &of[i]);
  ts_gpu_task_kernel(e, TS_GPU_PERSISTENT_NAME, out->ncode, of, out->threads, n);
}

static int prepare(Job *job, const TsPersistentTask *task, const TsTarget *t, TsError *err) {
  TsGpuPersistent *out = job->out;
  TsGpuTaskCode *c = &out->code[task->code];
  if (c->k) return 0;
  *c = (TsGpuTaskCode){.k = task->k, .phase = task->phase};
  c->roles = task->k->form == TS_FORM_explicit;
  job->expanded[task->code] =
      c->roles ? ts_tile_expand(c->k, err) : ts_gpu_code_expanded(c->k, t, err);
  if (!job->expanded[task->code]) return -1;
  c->threads = c->k->threads;
  if (!c->roles) {
    TsGpuPlan *plan = &job->plan[task->code];
    if (ts_gpu_plan(job->expanded[task->code], t, true, plan, err)) return -1;
    const TsGpuPhasePlan *p = &plan->phase[c->phase];
    c->threads = p->threads * p->rounds;
    if (p->rounds != task->side)
      return ts_error_set(err, TS_ERR_device, "jit: @%.40s has other blocks as code",
                          c->k->name);
  }
  int whole = (c->threads + 31) / 32 * 32;
  if (whole > out->threads) out->threads = whole;
  return 0;
}

int ts_gpu_persistent_text(const TsPersistent *p, const TsTarget *t, TsGpuPersistent *out,
                           TsText *ptx, TsError *err) {
  Job job = {.out = out};
  memset(out, 0, sizeof *out);
  if (p->ncode > TS_GPU_TASK_CODES)
    return ts_error_set(err, TS_ERR_device, "there are %d different kernels, of %d at most",
                        p->ncode, TS_GPU_TASK_CODES);
  int failed = 0;
  for (int i = 0; i < p->ntask && !failed; i++) failed = prepare(&job, &p->task[i], t, err);
  out->ncode = p->ncode;
  if (!failed)
    failed = ts_llvm_emit(job.expanded[0], t, passes, TS_LLVM_assembly, emit, &job, ptx, err);
  for (int i = 0; i < p->ncode; i++) ts_tile_free(job.expanded[i]);
  if (failed) return -1;
  return ptx->failed ? ts_error_memory(err) : 0;
}

#else

int ts_gpu_persistent_text(const TsPersistent *p, const TsTarget *t, TsGpuPersistent *out,
                           TsText *ptx, TsError *err) {
  (void)p, (void)t, (void)out, (void)ptx;
  return ts_error_set(err, TS_ERR_device, "this tessera was built without LLVM");
}

#endif
