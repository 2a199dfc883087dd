/* See jit/build/patched.h. */
#include "jit/build/patched.h"

#include <stdlib.h>
#include <string.h>

#include "ir/lower/lower.h"
#include "ir/tile/text.h"

int ts_build_unpatched(const TsBuildJob *b, const TsFusion *u, const TsGroup *g,
                       const TsSchedChoice *c, TsSchedKernel *out, TsError *err) {
  TsGroup own = *g;
  if (c) own.choice = *c;
  int failed =
      ts_lower_group(u->sched, &own, ts_layouts_of, ts_build_layouts(b, u->g), out, err);
  if (!failed) out->tile->marks = b->marks;
  return failed;
}

int ts_build_usual(const TsBuildJob *b, const TsFusion *u, const TsGroup *g, TsSchedKernel *out,
                   uint8_t key[32], TsError *err) {
  TsSchedChoice none = {0};
  if (ts_build_unpatched(b, u, g, &none, out, err)) return -1;
  ts_patches_key(out->tile, out->dim, ts_build_target(b), b->threads, key);
  return 0;
}

static const char same_head[] =
    "an edited kernel has the head that it had: its name may change";

int ts_build_alike(const TsTile *usual, const TsTile *k, TsError *err) {
  if (strcmp(usual->target, k->target))
    return ts_error_set(err, TS_ERR_value,
                        "@%s is for %s, the kernel that it stands for is for %s", k->name,
                        k->target, usual->target),
           ts_error_hint(
               err,
               "its head says target %s; f:ir(\"tile\", {kernel = 0}), without a target, is "
               "the text of what runs here",
               usual->target);
  if (usual->nparam != k->nparam || usual->nin != k->nin)
    return ts_error_set(err, TS_ERR_value, "@%s has %d inputs and %d results, not %d and %d",
                        k->name, k->nin, k->nparam - k->nin, usual->nin,
                        usual->nparam - usual->nin),
           ts_error_hint(err, "%s", same_head);
  if (usual->ndim != k->ndim)
    return ts_error_set(err, TS_ERR_value, "@%s has %d symbolic sizes, not %d", k->name,
                        k->ndim, usual->ndim),
           ts_error_hint(err, "%s", same_head);
  for (int i = 0; i < k->nparam; i++) {
    if (ts_tile_type_same(&usual->param[i]->type, &k->param[i]->type)) continue;
    TsText is = {0}, was = {0};
    ts_tile_type_text(k, &k->param[i]->type, &is);
    ts_tile_type_text(usual, &usual->param[i]->type, &was);
    ts_error_set(
        err, TS_ERR_value,
        "parameter %d of @%.60s, %%%.60s, has another type than the kernel has: %.100s, not "
        "%.100s",
        i + 1, k->name, k->param[i]->name ? k->param[i]->name : "?", is.at ? is.at : "?",
        was.at ? was.at : "?");
    ts_text_free(&is);
    ts_text_free(&was);
    return ts_error_hint(err, "%s", same_head);
  }
  return 0;
}

int ts_build_of_text(const TsSchedKernel *usual, const char *text, const TsTarget *t,
                     TsSchedKernel *out, TsError *err) {
  if (usual->tile->sequence)
    return ts_error_set(err, TS_ERR_value,
                        "this operator is several kernels in sequence, whose texts cannot be "
                        "edited"),
           ts_error_hint(err, "level schedule has what is free of them, and f:choose sets it");
  TsTile *k = ts_tile_parse(text, err);
  if (!k || ts_tile_check(k, t, err) || ts_build_alike(usual->tile, k, err))
    return ts_tile_free(k), -1;
  *out = *usual;
  out->tile = k;
  memset(out->over, 0, sizeof out->over); /* where it reads and writes is not known */
  return 0;
}

static bool by_choice(const TsBuildJob *b, const TsFusion *u, const TsGroup *g,
                      const char *text, TsSchedKernel *out, TsError *err) {
  TsSchedChoice c;
  if (!ts_sched_choice_parse(text, &c))
    return ts_error_set(err, TS_ERR_format, "there is no such schedule"), false;
  return !ts_build_unpatched(b, u, g, &c, out, err);
}

/* err: why there is one that is not taken. */
static bool patched(const TsBuildJob *b, const TsFusion *u, const TsGroup *g,
                    TsSchedKernel *out, TsError *err) {
  TsError ignored = {0};
  TsSchedKernel usual;
  TsPatchEntry e;
  uint8_t key[32];
  if (!ts_patches_any() || !ts_build_target(b) ||
      ts_build_usual(b, u, g, &usual, key, &ignored))
    return false;
  bool made = ts_patches_find(key, &e);
  if (made) {
    made = e.schedule ? by_choice(b, u, g, e.text, out, err)
                      : !ts_build_of_text(&usual, e.text, ts_build_target(b), out, err);
    free((char *)(uintptr_t)e.text);
  } else if (ts_patches_damaged(key)) {
    ts_error_set(err, TS_ERR_format, "its entry on disk is damaged");
  }
  ts_tile_free(usual.tile);
  if (made) out->tile->marks = b->marks;
  return made;
}

bool ts_build_patched(const TsBuildJob *b, const TsFusion *u, const TsGroup *g,
                      TsSchedKernel *out) {
  TsError ignored = {0};
  return patched(b, u, g, out, &ignored);
}

bool ts_build_is_patched(const TsBuildJob *b, const TsFusion *u, const TsGroup *g) {
  TsSchedKernel k;
  if (!ts_build_patched(b, u, g, &k)) return false;
  ts_tile_free(k.tile);
  return true;
}

void ts_build_patch_lost(const TsBuildJob *b, const TsFusion *u, const TsGroup *g,
                         TsText *why) {
  TsError err = {0};
  TsSchedKernel k;
  if (patched(b, u, g, &k, &err)) ts_tile_free(k.tile);
  if (err.code)
    ts_text_format(why, "      remark: an edit of it that was kept is not taken: %.200s\n",
                   err.message);
}
