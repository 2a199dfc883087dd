/* Schedules of one kernel: what is free of it stands behind `with`, in words and numbers. All that
 * the kernel has is shown; what of it was not changed stays the passes'. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/lower/lower.h"
#include "jit/patch/state.h"

/* ---- "rows 64 columns 128" as pairs */
static bool next_pair(const char **at, char word[16], int *number) {
  int n = 0;
  while (**at == ' ') (*at)++;
  if (sscanf(*at, "%15[a-z] %9d%n", word, number, &n) != 2) return false;
  *at += n;
  return true;
}

static int number_of(const char *pairs, const char *word) {
  char each[16];
  int number;
  while (pairs && next_pair(&pairs, each, &number))
    if (!strcmp(each, word)) return number;
  return 0;
}

static void add_pair(TsText *t, const char *word, int64_t number) {
  if (number > 0 && number < 1000000000 && !number_of(t->at, word))
    ts_text_format(t, "%s%s %lld", t->len ? " " : "", word, (long long)number);
}

/* What the kernel of a group has, as far as its head and the choice say. */
static void has(const TsGroup *g, const TsTile *k, TsText *t) {
  bool product = g->kind == TS_GROUP_matmul, gpu = ts_target_gpu(ts_target(k->target));
  if (product && k->ntile >= 2) {
    add_pair(t, "rows", k->tile[0]);
    add_pair(t, "columns", k->tile[1]);
  }
  if (g->kind == TS_GROUP_attention && k->ntile >= 1) add_pair(t, "rows", k->tile[0]);
  if ((g->kind == TS_GROUP_map || g->kind == TS_GROUP_columns) && k->ntile)
    add_pair(t, "piece", k->tile[k->ntile - 1]);
  if (gpu ? product || g->kind == TS_GROUP_attention : g->kind == TS_GROUP_rows)
    add_pair(t, "stages", k->stages);
  if (gpu && product && k->form == TS_FORM_explicit)
    add_pair(t, "cluster", k->cluster > 1 ? k->cluster : 1);
  if (gpu && !product && k->form == TS_FORM_block) add_pair(t, "threads", k->threads);
  add_pair(t, "unroll", k->unroll);
  add_pair(t, "vector", k->vector);
  TsText choice = {0};
  char word[16];
  int number;
  ts_sched_choice_text(&g->choice, &choice);
  for (const char *at = choice.at; at && next_pair(&at, word, &number);)
    add_pair(t, word, number);
  ts_text_free(&choice);
}

/* The group with these choices in its text. */
static void text_with(const TsFusion *u, const TsGroup *g, const char *pairs, TsText *text) {
  TsGroup own = *g;
  TsSchedChoice all;
  if (pairs && ts_sched_choice_parse(pairs, &all)) own.choice = all;
  ts_sched_text_group(u->sched, &own, text);
}

void ts_patch_schedule_text(const TsFusion *u, const TsGroup *g, const TsTile *now,
                            TsText *text) {
  TsText pairs = {0};
  has(g, now, &pairs);
  text_with(u, g, pairs.at, text);
  ts_text_free(&pairs);
}

/* ---- reading */
/* The line of the i-th group of a text, from 1. */
static int line_of_group(const char *text, int i) {
  int line = 1;
  bool inside = false;
  for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n', line++) {
    const char *q = p + strspn(p, " \t");
    if (!inside) {
      inside = memchr(p, '{', strcspn(p, "\n")) && !strncmp(q, "schedule", 8);
      continue;
    }
    if (*q && *q != '\n' && strncmp(q, "//", 2) && i-- == 0) return line;
  }
  return line;
}

static void plain_text(const TsSched *s, const TsGroup *g, TsText *t) {
  TsGroup own = *g;
  own.choice = (TsSchedChoice){0};
  ts_sched_text_group(s, &own, t);
  char *end = t->at ? strstr(t->at, " {\n") : NULL; /* the head is another's */
  if (end) memmove(t->at, end, strlen(end) + 1);
}

static bool same_structure(const TsSched *a, const TsGroup *x, const TsSched *b,
                           const TsGroup *y) {
  TsText s = {0}, t = {0};
  plain_text(a, x, &s);
  plain_text(b, y, &t);
  bool same = s.at && t.at && !strcmp(s.at, t.at);
  ts_text_free(&s);
  ts_text_free(&t);
  return same;
}

static int structural(const char *text, int i, TsError *err) {
  ts_error_set(
      err, TS_ERR_value,
      "line %d: a schedule says here which operators are one kernel, which is not free",
      line_of_group(text, i));
  return ts_error_hint(err, "edit what stands behind 'with': shapes of tiles, stages, unroll; "
                            "f:with(\"tile\", ..) takes other kernels");
}

static bool is_shape(const char *word) {
  return !strcmp(word, "rows") || !strcmp(word, "columns") || !strcmp(word, "cluster");
}

/* Only what was changed against `shown`, and with it the tile, since stages and clusters are chosen for
 * one; what the group had before stays. */
static void changed(const TsGroup *g, const char *shown, const char *said, TsText *out) {
  TsText before = {0};
  char word[16];
  int number;
  ts_sched_choice_text(&g->choice, &before);
  bool any = false;
  for (const char *at = said; at && next_pair(&at, word, &number);)
    any |= number_of(shown, word) != number;
  for (const char *at = said; at && next_pair(&at, word, &number);)
    if (number_of(shown, word) != number || number_of(before.at, word) ||
        (any && is_shape(word)))
      add_pair(out, word, number);
  ts_text_free(&before);
}

int ts_patch_schedule_read(TsPatch *p, const char *text, TsSchedChoice *c, TsError *err) {
  const TsSched *own = p->u->sched;
  TsSched *s = ts_sched_parse(p->u->g, text, err);
  if (!s) return -1;
  int at = s->ngroup == own->ngroup ? p->g->index : 0, bad = 0;
  bool one = s->ngroup == 1, whole = s->ngroup == own->ngroup;
  if (!one && !whole) bad = structural(text, 0, err);
  if (s->target && own->target && strcmp(s->target->name, own->target->name) && !bad)
    bad =
        ts_error_set(err, TS_ERR_value, "line 1: the function's kernels are for %s, not for %s",
                     own->target->name, s->target->name);
  for (int i = 0; i < s->ngroup && !bad; i++) {
    const TsGroup *mine = one ? p->g : own->group[i];
    if (!same_structure(s, s->group[i], own, mine)) bad = structural(text, i, err);
  }
  if (!bad) {
    TsText shown = {0}, said = {0};
    has(p->g, p->k[PATCH_now].tile, &shown);
    ts_sched_choice_text(&s->group[at]->choice, &said);
    if (whole && !one && !said.len) /* f:ir "schedule" has it in its notes */
      ts_sched_choice_text(&p->g->choice, &p->entry);
    else
      changed(p->g, shown.at, said.at, &p->entry);
    if (!ts_sched_choice_parse(p->entry.at ? p->entry.at : "", c))
      bad = ts_error_set(err, TS_ERR_value, "line %d: no such choice", line_of_group(text, at));
    ts_text_free(&shown);
    ts_text_free(&said);
  }
  ts_sched_free(s);
  return bad ? -1 : 0;
}

void ts_patch_schedule_settle(TsPatch *p, TsSchedChoice *c) {
  TsGroup own = *p->g;
  TsSched *s = (TsSched *)(uintptr_t)p->u->sched; /* remarks lie in its arena */
  own.want = *c, own.pinned = true, own.remarks = NULL;
  ts_lower_settle(s, &own, ts_layouts_of, ts_build_layouts(p->b, p->u->g));
  *c = own.choice;
  if (own.remarks) ts_patch_remarks(p, own.remarks);
  ts_text_free(&p->entry);
  ts_sched_choice_text(c, &p->entry);
}
