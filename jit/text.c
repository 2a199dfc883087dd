/* The levels of a function's kernels as text, with the lines of the program that they came
 * from: each level is made once more from the schedule; what LLVM made of a kernel is kept
 * (jit/code/texts.h). */
#include <stdlib.h>
#include <string.h>

#include "devices/device.h"
#include "jit/build/build.h"
#include "jit/build/patched.h"
#include "ir/tile/sequence.h"
#include "jit/gpu/gpu.h"
#include "jit/gpu/roles.h"
#include "jit/facts.h"
#include "jit/level.h"
#include "jit/code/texts.h"
#include "jit/compile/llvm.h"
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

/* A GPU's blocks take tiles in an order that the text calculates, which is a few lines of divisions: it
 * is said in front of them. docs/debug.md explains it. */
static void order_note(const TsTile *k, TsText *text) {
  static const char bands[] = "bands:";
  if (!k->order) return;
  if (!strncmp(k->order, bands, sizeof bands - 1)) {
    const char *rows = k->order + sizeof bands - 1;
    ts_text_format(text,
                   "// order of blocks: tile after tile down %s row%s of tiles, then the "
                   "next column; %%span tiles are such a band\n",
                   rows, strcmp(rows, "1") ? "s" : "");
  } else if (!strcmp(k->order, "heads")) {
    ts_text_str(text, "// order of blocks: the heads of a group side by side, tile after tile; "
                      "%span tiles are such a group\n");
  }
}

static int block_text(const TsBuildJob *b, const TsTile *block, TsText *text, TsError *err) {
  (void)b, (void)err;
  if (ts_target_gpu(ts_target(block->target))) order_note(block, text);
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

void ts_build_digest(const TsTile *k, TsText *text) {
  uint8_t key[32];
  ts_device_kernel_key(k, key);
  for (int i = 0; i < 8; i++) ts_text_format(text, "%02x", key[i]);
}

/* The names under which kernels of devices are compiled and kept. */
static void digests(const TsTile *k, TsText *text) {
  int n = k->sequence ? k->sequence->n : 1;
  ts_text_str(text, n > 1 ? " kernels" : " kernel");
  for (int i = 0; i < n; i++) {
    ts_text_char(text, ' ');
    ts_build_digest(k->sequence ? k->sequence->step[i].k : k, text);
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

bool ts_build_has_level(const char *level) { return level_of(level) != NULL; }

/* ---- of kernels: those of many layers are the same, and each is made once */
static int known(const TsBuildJob *b, const char *level, LevelFn *of, const TsTile *k,
                 TsText *text, TsError *err) {
  TsText key = {0};
  size_t from = text->len;
  if (of == block_text) return each_step(b, of, k, text, err);
  ts_text_format(&key, "%s %p\n", level, (const void *)ts_build_target(b));
  int failed = each_step(b, block_text, k, &key, err);
  if (!failed && key.failed) failed = ts_error_memory(err);
  if (!failed && !ts_texts_find(&key, text)) {
    failed = each_step(b, of, k, text, err);
    if (!failed && !text->failed && text->at)
      ts_texts_keep(&key, text->at + from, text->len - from);
  }
  ts_text_free(&key);
  return failed ? -1 : 0;
}

int ts_build_kernel_text(const TsDevice *d, const TsTarget *t, const TsTile *k,
                         const char *level, TsText *text, TsError *err) {
  TsBuildJob b = {.device = (TsDevice *)(uintptr_t)d, .target = d ? NULL : t};
  LevelFn *of = level_of(level);
  if (of) return known(&b, level, of, k, text, err);
  if (ts_level_check(TS_LEVEL_call, level, NULL, err)) return -1;
  ts_text_format(text, "  %s %s %s", k->name, d ? "on" : "for", d ? d->name : t->name);
  digests(k, text);
  ts_text_char(text, '\n');
  return 0;
}

int ts_build_group_text(const TsBuildJob *b, const TsFusion *f, const TsGroup *g,
                        const char *level, TsText *text, TsError *err) {
  TsSchedKernel k;
  LevelFn *of = level_of(level);
  if (!of) return ts_error_set(err, TS_ERR_argument, "level '%s' is not of kernels", level);
  if (!b->target && !b->device && of != block_text)
    return ts_error_set(err, TS_ERR_value, "there is no %s: nothing is compiled here", level);
  if (ts_build_tile(b, f, g, &k, err)) return -1;
  int failed = known(b, level, of, k.tile, text, err);
  ts_tile_free(k.tile);
  return failed;
}

/* A group that has no kernel says so; the others are shown. Without memory nobody knows. */
static int group_text(const TsBuildJob *b, const TsFusion *f, const TsGroup *g,
                      const char *level, TsText *text, TsError *err) {
  head(g, text);
  if (!ts_build_group_text(b, f, g, level, text, err)) return 0;
  if (err->code == TS_ERR_memory || err->code == TS_ERR_interrupt) return -1;
  ts_text_format(text, "// no kernel: %s\n", err->message);
  ts_error_clear(err);
  return 0;
}

static int kernels_text(const TsBuildJob *b, const char *level, TsText *text, TsError *err) {
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++)
      if (ts_build_worth_on(b, f->sched->group[i]) &&
          group_text(b, f, f->sched->group[i], level, text, err))
        return -1;
  if (!text->len) ts_text_str(text, "// no group is worth a kernel\n");
  return 0;
}

static int schedules_text(const TsBuildJob *b, TsText *text) {
  for (const TsFusion *f = &b->fusion; f; f = f->next) ts_sched_text_notes(f->sched, text);
  return 0;
}

int ts_build_text(const TsBuildJob *b, const char *level, TsText *text, TsError *err) {
  LevelFn *of = level_of(level);
  if (!strcmp(level, "schedule")) return schedules_text(b, text);
  if (!of) return ts_error_set(err, TS_ERR_argument, "there is no level '%s'", level);
  if (b->target || b->device || of == block_text) return kernels_text(b, level, text, err);
  return ts_error_set(err, TS_ERR_value, "there is no %s: nothing is compiled here", level);
}
