/* The levels of a function's kernels as text, with the lines of the program that they came
 * from: nothing is kept for it, each level is made once more from the schedule. */
#include <string.h>

#include "devices/device.h"
#include "jit/build/build.h"
#include "ir/tile/sequence.h"
#include "jit/gpu/gpu.h"
#include "jit/gpu/roles.h"
#include "jit/level.h"
#include "jit/compile/llvm.h"
#include "jit/build/instruction.h"
#include "jit/device/kernel.h"

typedef int LevelFn(const TsBuildJob *b, const TsTile *block, TsText *text, TsError *err);

static void head(const TsGroup *g, TsText *text) {
  ts_text_format(text, "// group %d: ", g->index);
  ts_sched_what(g, text);
  TsText where = {0};
  ts_sched_where(g, &where);
  ts_text_take(text, " at ", &where);
  ts_text_char(text, '\n');
}

/* ---- levels of one kernel */
/* What a part is given: parameters of the whole by name, temporaries by number. */
static void step_head(const TsTile *k, int i, TsText *text) {
  const TsTileStep *p = &k->sequence->step[i];
  ts_text_format(text, "// step %d of %d: @%s(", i + 1, k->sequence->n, p->k->name);
  for (int a = 0; a < p->k->nparam; a++) {
    int of = p->arg[a];
    const char *name = of >= 0 ? k->param[of]->name : NULL;
    if (a) ts_text_str(text, ", ");
    if (name)
      ts_text_format(text, "%%%s", name);
    else if (of >= 0)
      ts_text_format(text, "parameter %d", of);
    else
      ts_text_format(text, "temporary %d", -1 - of);
    if (p->byte[a]) ts_text_format(text, " from byte %lld", (long long)p->byte[a]);
  }
  ts_text_str(text, ")\n");
}

/* The kernel, or each that it is made of. */
static int each_step(const TsBuildJob *b, LevelFn *level, const TsTile *k, TsText *text,
                     TsError *err) {
  if (!k->sequence) return level(b, k, text, err);
  for (int i = 0; i < k->sequence->n; i++) {
    step_head(k, i, text);
    if (level(b, k->sequence->step[i].k, text, err)) return -1;
  }
  return 0;
}

static int block_text(const TsBuildJob *b, const TsTile *block, TsText *text, TsError *err) {
  (void)b, (void)err;
  ts_tile_text_places(block, text);
  return 0;
}

/* A device's kernels of block form stay so; what its threads do is told by LLVM. */
static int explicit_text(const TsBuildJob *b, const TsTile *block, TsText *text, TsError *err) {
  if (ts_target_gpu(ts_build_target(b))) return block_text(b, block, text, err);
  TsTile *k = ts_build_explicit(block, b->target, true, err);
  if (!k) return -1;
  ts_tile_text_places(k, text);
  ts_tile_free(k);
  return 0;
}

static int gpu_text(const TsTarget *t, const TsTile *block, bool assembly, TsText *text,
                    TsError *err) {
  TsGpuRoles info;
  if (block->form == TS_FORM_explicit)
    return ts_gpu_roles_text(block, !assembly, &info, text, err);
  return ts_gpu_text(block, t, assembly ? "asm" : "llvm", text, err);
}

static int code_text(const TsBuildJob *b, const TsTile *block, bool assembly, TsText *text,
                     TsError *err) {
  const TsTarget *t = ts_build_target(b);
  if (ts_target_gpu(t)) return gpu_text(t, block, assembly, text, err);
  if (b->device)
    return ts_error_set(err, TS_ERR_device, "there is no code for %s", b->device->name);
  TsTile *k = ts_build_explicit(block, b->target, false, err);
  int failed = !k || ts_llvm_text(k, b->target, assembly, text, err);
  ts_tile_free(k);
  return failed ? -1 : 0;
}

static int llvm_text(const TsBuildJob *b, const TsTile *block, TsText *text, TsError *err) {
  return code_text(b, block, false, text, err);
}

static int asm_text(const TsBuildJob *b, const TsTile *block, TsText *text, TsError *err) {
  return code_text(b, block, true, text, err);
}

/* The names under which kernels of devices are compiled and kept. */
static void digests(const TsTile *k, TsText *text) {
  int n = k->sequence ? k->sequence->n : 1;
  ts_text_str(text, n > 1 ? " kernels" : " kernel");
  for (int i = 0; i < n; i++) {
    uint8_t key[32];
    ts_device_kernel_key(k->sequence ? k->sequence->step[i].k : k, key);
    ts_text_char(text, ' ');
    for (int b = 0; b < 8; b++) ts_text_format(text, "%02x", key[b]);
  }
}

static LevelFn *level_of(const char *level) {
  static const struct {
    const char *name;
    LevelFn *of;
  } levels[] = {{"tile", block_text},
                {"explicit", explicit_text},
                {"llvm", llvm_text},
                {"asm", asm_text}};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
    if (!strcmp(level, levels[i].name)) return levels[i].of;
  return NULL;
}

int ts_build_kernel_text(const TsDevice *d, const TsTarget *t, const TsTile *k,
                         const char *level, TsText *text, TsError *err) {
  TsBuildJob b = {.device = (TsDevice *)(uintptr_t)d, .target = d ? NULL : t};
  LevelFn *of = level_of(level);
  if (of) return each_step(&b, of, k, text, err);
  if (ts_level_check(TS_LEVEL_call, level, NULL, err)) return -1;
  ts_text_format(text, "  %s %s %s", k->name, d ? "on" : "for", d ? d->name : t->name);
  digests(k, text);
  ts_text_char(text, '\n');
  return 0;
}

/* A group that has no kernel says so; the others are shown. */
static void group_text(const TsBuildJob *b, const TsFusion *f, const TsGroup *g, LevelFn *level,
                       TsText *text) {
  TsSchedKernel k;
  TsError err = {0};
  head(g, text);
  if (ts_build_tile(b, f, g, &k, &err)) {
    ts_text_format(text, "// no kernel: %s\n", err.message);
    return;
  }
  if (each_step(b, level, k.tile, text, &err))
    ts_text_format(text, "// no kernel: %s\n", err.message);
  ts_tile_free(k.tile);
}

static int kernels_text(const TsBuildJob *b, LevelFn *level, TsText *text) {
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++)
      if (ts_build_worth_on(b, f->sched->group[i]))
        group_text(b, f, f->sched->group[i], level, text);
  if (!text->len) ts_text_str(text, "// no group is worth a kernel\n");
  return 0;
}

/* ---- all groups */
static const char *vm_reason(const TsNode *n) {
  if (n->nregion) return "it runs functions; see their groups";
  if (n->op >= TS_OP_COUNT) return "it has no kernel";
  switch (ts_op_info((TsOp)n->op)->cls) {
  case TS_CLASS_RANDOM:
    return "it draws what kernels do not, or from a stream that is not known";
  case TS_CLASS_REDUCE: return "it does not reduce the first or last axes of floats";
  case TS_CLASS_POINTWISE: return "its types have no kernel";
  default: return "the VM's own kernel is used";
  }
}

/* Of a group that a GPU has no kernel of in the function: its call may have some. */
static void gpu_reason(const TsBuildJob *b, const TsFusion *f, const TsGroup *g, TsText *text) {
  TsSchedKernel k;
  TsError err = {0};
  if (g->node[0]->nregion || g->node[0]->op >= TS_OP_COUNT) {
    ts_text_str(text, vm_reason(g->node[0]));
  } else if (!ts_build_tile(b, f, g, &k, &err)) {
    ts_text_str(text, "its call launches it, with others of its kind");
    ts_tile_free(k.tile);
  } else {
    ts_text_format(text, "its call has copies, or the CPU runs it: %s", err.message);
  }
}

static void reason(const TsBuildJob *b, const TsFusion *f, const TsGroup *g, TsText *text) {
  const TsFusedGroup *u = &f->of[g->index];
  if (u->fused)
    ts_text_format(text, "kernel of %d operators", g->nnode);
  else if (ts_target_gpu(ts_build_target(b)) && !ts_build_worth_on(b, g))
    gpu_reason(b, f, g, text);
  else if (u->usec > 0)
    ts_text_format(text, "returned to the VM: %.1f us by its kernel, %.1f us without", u->usec,
                   u->usec_without);
  else if (g->kind == TS_GROUP_vm)
    ts_text_str(text, vm_reason(g->node[0]));
  else if (!ts_build_worth(g))
    ts_text_str(text, "one operator: the VM's own kernel is as good");
  else
    ts_text_format(text, "would be a kernel of %d operators", g->nnode);
}

static int groups_text(const TsBuildJob *b, TsText *text) {
  for (const TsFusion *f = &b->fusion; f; f = f->next) {
    if (f != &b->fusion) ts_text_format(text, "in @%s:\n", f->g->name);
    for (int i = 0; i < f->sched->ngroup; i++) {
      const TsGroup *g = f->sched->group[i];
      TsText where = {0};
      ts_text_format(text, "  %-3d ", i);
      ts_sched_what(g, text);
      ts_sched_where(g, &where);
      ts_text_take(text, " at ", &where);
      ts_text_str(text, ": ");
      reason(b, f, g, text);
      ts_text_format(text, ", %.3g us expected", g->usec);
      if (f->of[i].fused) {
        ts_text_str(text, "; choice: ");
        ts_build_choice_text(g, text);
      }
      ts_text_char(text, '\n');
      ts_build_remarks_text(g, text);
    }
  }
  if (b->why.len) ts_text_format(text, "refused:\n%s", b->why.at);
  return 0;
}

/* ---- tiles */
static void shape(TsText *t, const char *before, int n, const int64_t *dim) {
  ts_text_format(t, "%s[", before);
  for (int i = 0; i < n; i++) ts_text_format(t, "%s%lld", i ? "," : "", (long long)dim[i]);
  ts_text_char(t, ']');
}

static void tile_line(const TsBuildJob *b, const TsFusion *f, const TsGroup *g, TsText *text) {
  TsError err = {0};
  TsSchedKernel k;
  ts_text_format(text, "  %-3d %-4s ", g->index, ts_group_kind_name(g->kind));
  shape(text, "space ", g->naxis, g->axis);
  if (ts_build_tile(b, f, g, &k, &err)) {
    ts_text_format(text, " no kernel: %s\n", err.message);
    ts_build_remarks_text(g, text);
    return;
  }
  shape(text, " tile ", k.tile->ntile, k.tile->tile);
  const TsFused *u = f->of[g->index].fused;
  const TsKernel *code = u && !b->device ? ts_instruction_kernel(u) : NULL;
  if (u && b->device) ts_text_format(text, " on %s", b->device->name);
  if (ts_target_gpu(ts_build_target(b))) digests(k.tile, text);
  if (code)
    ts_text_format(text, " %s, %d phase%s, %zu bytes of code%s", code->target, code->nphase,
                   code->nphase == 1 ? "" : "s", code->object_bytes,
                   code->cached ? " from disk" : "");
  ts_text_str(text, "; choice: ");
  ts_build_choice_text(g, text);
  ts_text_str(text, "  // ");
  ts_sched_what(g, text);
  ts_text_char(text, '\n');
  ts_build_remarks_text(g, text);
  ts_tile_free(k.tile);
}

static int tiles_text(const TsBuildJob *b, TsText *text) {
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++)
      if (ts_build_worth_on(b, f->sched->group[i])) tile_line(b, f, f->sched->group[i], text);
  return 0;
}

static int schedules_text(const TsBuildJob *b, TsText *text) {
  for (const TsFusion *f = &b->fusion; f; f = f->next) ts_sched_text_notes(f->sched, text);
  return 0;
}

int ts_build_text(const TsBuildJob *b, const char *level, TsText *text, TsError *err) {
  LevelFn *of = level_of(level);
  if (!strcmp(level, "schedule")) return schedules_text(b, text);
  if (!strcmp(level, "groups")) return groups_text(b, text);
  if (!strcmp(level, "tiles")) return tiles_text(b, text);
  if (!of) return ts_error_set(err, TS_ERR_argument, "there is no level '%s'", level);
  if (b->target || b->device || of == block_text) return kernels_text(b, of, text);
  return ts_error_set(err, TS_ERR_value, "there is no %s: nothing is compiled here", level);
}
