/* See jit/patch/patch.h. */
#include "jit/patch/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/compile/compile.h"
#include "jit/level.h"

void ts_patch_remarks(TsPatch *p, const char *lines) {
  if (p->remarks.len) ts_text_char(&p->remarks, '\n');
  ts_text_str(&p->remarks, lines);
}

void ts_patch_remark(TsPatch *p, const char *format, ...) {
  char text[300];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  ts_patch_remarks(p, text);
}

/* ---- texts */
static void say_number(const TsPatch *p, TsText *t) {
  bool inside = p->u != &p->b->fusion;
  ts_text_format(t, "%s%s%d", inside ? p->u->g->name : "", inside ? "/" : "", p->g->index);
}

static void say_group(const TsPatch *p, TsText *t) {
  ts_text_str(t, "// group ");
  say_number(p, t);
  ts_text_str(t, ": ");
  ts_sched_what(p->g, t);
  TsText where = {0};
  ts_sched_where(p->g, &where);
  ts_text_take(t, " at ", &where);
  ts_text_char(t, '\n');
}

int ts_patch_text(TsJitFunction *f, const char *level, const char *kernel, bool usual,
                  const TsTarget *target, TsText *text) {
  TsError *err = &f->jit->c->err;
  TsPatch p = {.g = NULL};
  TsSchedKernel k = {.tile = NULL};
  uint8_t key[32];
  TsJitBuild x;
  if (ts_level_check(TS_LEVEL_part, level, target, err)) return -1;
  f = ts_jit_used(f);
  ts_jit_step(f);
  int failed = ts_jit_open_build(f, target, &x);
  p.b = x.b;
  failed = failed || ts_patch_find(&p, kernel, NULL, err) ||
           (usual ? ts_build_usual(p.b, p.u, p.g, &k, key, err)
                  : ts_build_tile(p.b, p.u, p.g, &k, err));
  if (!failed) {
    say_group(&p, text);
    if (!strcmp(level, "schedule"))
      ts_patch_schedule_text(p.u, p.g, k.tile, text);
    else
      failed = ts_build_kernel_text(p.b->device, p.b->target, k.tile, level, text, err);
  }
  ts_tile_free(k.tile);
  ts_jit_close_build(&x);
  return failed ? -1 : 0;
}

/* ---- opening */
/* Of the block form the head says what passes make of it. */
static bool same_code(const TsTile *a, const TsTile *b) {
  uint8_t x[32], y[32];
  if (a->sequence || b->sequence) return a->sequence == b->sequence;
  if (!ts_tile_same_choice(a, b)) return false;
  ts_kernel_digest(a, x);
  ts_kernel_digest(b, y);
  return !memcmp(x, y, sizeof x);
}

/* How many kernels of the function have p's key. */
static int alike(TsPatch *p) {
  int n = 0;
  for (const TsFusion *f = &p->b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++) {
      TsSchedKernel k;
      TsError ignored = {0};
      uint8_t key[32];
      if (!ts_build_worth_on(p->b, f->sched->group[i]) ||
          ts_build_usual(p->b, f, f->sched->group[i], &k, key, &ignored))
        continue;
      n += !memcmp(key, p->key, sizeof key);
      ts_tile_free(k.tile);
    }
  return n;
}

/* The same values of the graph in the same places, whatever sizes the kernels have of their own. */
static bool takes_the_same(const TsSchedKernel *a, const TsSchedKernel *b) {
  if (a->tile->nparam != b->tile->nparam || a->tile->nin != b->tile->nin ||
      a->ndraw != b->ndraw)
    return false;
  for (int i = 0; i < a->tile->nparam; i++) {
    int64_t below[2], above[2];
    ts_tile_reach(&a->tile->param[i]->type, a->dim, &below[0], &above[0]);
    ts_tile_reach(&b->tile->param[i]->type, b->dim, &below[1], &above[1]);
    if (a->value[i] != b->value[i] || below[0] != below[1] || above[0] != above[1])
      return false;
  }
  return true;
}

static int make_schedule(TsPatch *p, const char *text, TsError *err) {
  TsSchedChoice c;
  if (ts_patch_schedule_read(p, text, &c, err)) return -1;
  ts_patch_schedule_settle(p, &c);
  if (ts_build_unpatched(p->b, p->u, p->g, &c, &p->k[PATCH_made], err))
    return p->k[PATCH_made].tile = NULL, -1;
  if (takes_the_same(&p->k[PATCH_usual], &p->k[PATCH_made])) return 0;
  return ts_error_set(err, TS_ERR_value, "the kernel of this schedule takes other operands");
}

/* The kernel of the text itself: what stands around it are comments. Twice: errors name lines. */
static int make_tile(TsPatch *p, const char *text, TsError *err) {
  const TsSchedKernel *usual = &p->k[PATCH_usual];
  if (!usual->tile->sequence) {
    p->lines = ts_tile_parse_lines(text, err);
    if (!p->lines || ts_tile_check(p->lines, p->target, err)) return -1;
  }
  if (ts_build_of_text(usual, text, p->target, &p->k[PATCH_made], err))
    return p->k[PATCH_made].tile = NULL, -1;
  ts_text_str(&p->entry, text);
  return 0;
}

static int build(TsPatch *p, int i, TsError *err) {
  const TsTile *k = p->k[i].tile;
  if (p->device)
    p->there[i] = ts_device_kernel_open(p->device, k, err);
  else
    p->code[i] = ts_build_compile(k, p->target, err);
  return p->there[i] || p->code[i] ? 0 : -1;
}

static void make_small(TsPatch *p) {
  TsSchedKernel *k = &p->k[PATCH_small];
  TsSchedChoice c;
  TsError ignored = {0};
  if (p->device || p->g->kind != TS_GROUP_matmul) return;
  if (!ts_sched_choice_parse("rows 12 columns 64", &c)) return;
  if (ts_build_unpatched(p->b, p->u, p->g, &c, k, &ignored))
    k->tile = NULL;
  else if (takes_the_same(&p->k[PATCH_usual], k))
    p->oracle = PATCH_small;
}

static int open(TsPatch *p, const char *kernel, const char *text, TsError *err) {
  if (ts_patch_find(p, kernel, text, err)) return -1;
  say_number(p, &p->number);
  ts_sched_what(p->g, &p->what);
  if (ts_build_usual(p->b, p->u, p->g, &p->k[PATCH_usual], p->key, err))
    return p->k[PATCH_usual].tile = NULL, -1;
  if (ts_build_tile(p->b, p->u, p->g, &p->k[PATCH_now], err))
    return p->k[PATCH_now].tile = NULL, -1;
  if (!takes_the_same(&p->k[PATCH_usual], &p->k[PATCH_now]))
    return ts_error_set(err, TS_ERR_value,
                        "what was tuned for this kernel takes other operands");
  if (p->device && p->k[PATCH_now].tile->sequence) {
    ts_error_set(
        err, TS_ERR_value,
        "this operator is several kernels in sequence on %s, which are launched together "
        "and not tried one by one: it cannot be edited",
        p->device->name);
    return ts_error_hint(err, ":choose sets what of its schedule is free");
  }
  if (p->seen.schedule ? make_schedule(p, text, err) : make_tile(p, text, err)) return -1;
  p->seen.unchanged = same_code(p->k[PATCH_now].tile, p->k[PATCH_made].tile);
  for (int i = 0; i < PATCH_CODE; i++)
    if (build(p, i, err)) return -1;
  make_small(p);
  p->seen.alike = alike(p);
  if (p->entry.failed || p->what.failed || p->number.failed || p->remarks.failed)
    return ts_error_memory(err);
  if (p->device)
    ts_device_kernel_key(p->k[PATCH_now].tile, p->catch.key);
  else
    ts_kernel_digest(p->k[PATCH_now].tile, p->catch.key);
  return 0;
}

TsPatch *ts_patch_open(TsJitFunction *f, const char *level, const char *kernel,
                       const char *text, TsError *err) {
  TsPatch *p = calloc(1, sizeof *p);
  if (!p) return ts_error_memory(err), NULL;
  f = ts_jit_used(f);
  ts_jit_step(f);
  p->b = &f->build;
  p->seen.schedule = !strcmp(level, "schedule");
  p->catch = (TsCatch){.with = p, .look = ts_patch_look};
  int bad = 0;
  if (!p->seen.schedule && strcmp(level, "tile")) {
    ts_error_set(err, TS_ERR_argument,
                 "kernels are edited at the levels schedule and tile, not %.40s", level);
    ts_error_hint(
        err, "f:with(\"tile\", text): text is that of f:ir(\"tile\", {kernel = 0}), edited");
    bad = -1;
  } else if (f->state != LIVE) {
    ts_error_set(err, TS_ERR_value, "@%s runs no kernels", f->g->name);
    ts_error_hint(err, ":why says why");
    bad = -1;
  } else if (f->jit->how != TS_BUILD_compiled) {
    bad =
        ts_error_set(err, TS_ERR_value, "the interpreter runs kernels now, which has no times");
  }
  p->device = f->device;
  p->profile = f->jit->c->profile;
  if (!bad) p->target = ts_build_target(p->b);
  bad = bad || open(p, kernel, text, err);
  p->b = NULL, p->u = NULL, p->g = NULL;
  if (!bad) return p;
  ts_patch_free(p);
  return NULL;
}

const TsCatch *ts_patch_catch(TsPatch *p) { return &p->catch; }

const TsPatchSeen *ts_patch_seen(const TsPatch *p) {
  TsPatchSeen *s = &((TsPatch *)(uintptr_t)p)->seen;
  s->name = p->k[PATCH_usual].tile->name;
  s->number = p->number.at ? p->number.at : "";
  s->what = p->what.at ? p->what.at : "";
  s->target = p->device ? p->device->name : p->target->name;
  s->remarks = p->remarks.at ? p->remarks.at : "";
  return s;
}

int ts_patch_keep(const TsPatch *p, bool on_disk, TsError *err) {
  TsPatchEntry e = {.schedule = p->seen.schedule,
                    .on_disk = on_disk,
                    .text = p->entry.at ? p->entry.at : "",
                    .was_usec = p->seen.was_usec,
                    .usec = p->seen.usec};
  return ts_patches_keep(p->key, &e, p->what.at ? p->what.at : "", err);
}

void ts_patch_free(TsPatch *p) {
  if (!p) return;
  for (int i = 0; i < PATCH_KERNELS; i++) ts_tile_free(p->k[i].tile);
  for (int i = 0; i < PATCH_CODE; i++) {
    ts_kernel_free(p->code[i]);
    ts_device_kernel_free(p->there[i]);
  }
  ts_tile_free(p->lines);
  ts_text_free(&p->entry);
  ts_text_free(&p->what);
  ts_text_free(&p->remarks);
  ts_text_free(&p->number);
  free(p);
}

/* ---- back, and again */
int ts_patch_without(TsJitFunction *f, const char *kernel, TsPatchEntry *was) {
  TsError *err = &f->jit->c->err;
  TsPatch p = {.g = NULL};
  TsSchedKernel k = {.tile = NULL};
  TsJitBuild x;
  f = ts_jit_used(f);
  int failed = ts_jit_open_build(f, NULL, &x);
  p.b = x.b;
  failed = failed || ts_patch_find(&p, kernel, NULL, err) ||
           ts_build_usual(p.b, p.u, p.g, &k, p.key, err);
  *was = (TsPatchEntry){.text = NULL};
  if (!failed && ts_patches_find(p.key, was)) free((char *)(uintptr_t)was->text);
  was->text = NULL;
  int dropped = failed ? -1 : ts_patches_drop(p.key);
  ts_tile_free(k.tile);
  ts_jit_close_build(&x);
  return dropped;
}

int ts_patch_renew(TsJitFunction *f) {
  TsJit *j = f->jit;
  f = ts_jit_used(f);
  ts_jit_forget(f);
  f->pinned = true;
  if (ts_jit_begin(f)) return ts_error_memory(&j->c->err);
  ts_queue_wait(j->queue);
  ts_jit_step(f);
  return 0;
}
