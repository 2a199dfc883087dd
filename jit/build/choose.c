/* Choices of groups in a build: what the program asked for, and how they are told. */
#include <stdlib.h>
#include <string.h>

#include "ir/lower/lower.h"
#include "jit/build/build.h"
#include "jit/build/patched.h"

/* In the place of what was chosen runs what was edited. */
static void remark_edit(TsSched *s, TsGroup *g) {
  TsText t = {0};
  ts_sched_choice_text(&g->want, &t);
  if (!t.len) return;
  ts_text_str(&t, " has no effect: the kernel was edited, and what was written runs");
  g->remarks = t.failed ? NULL : ts_arena_text(&s->arena, t.at);
  ts_text_free(&t);
}

void ts_build_settle(TsBuildJob *b) {
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++) {
      TsGroup *g = f->sched->group[i];
      const TsBuildChosen *c = f == &b->fusion ? b->chosen : NULL;
      for (; c; c = c->next)
        if (c->group == i) g->want = c->want, g->pinned = true;
      TsSched *s = (TsSched *)(uintptr_t)f->sched;
      if (g->pinned && ts_build_worth_on(b, g))
        ts_lower_settle(s, g, ts_layouts_of, ts_build_layouts(b, f->g));
      else if (g->pinned)
        ts_lower_settle_none(s, g);
      if (g->pinned && ts_build_is_patched(b, f, g)) remark_edit(s, g);
    }
}

TsBuildChosen *ts_build_chosen_copy(const TsBuildChosen *c) {
  TsBuildChosen *first = NULL, **at = &first;
  for (; c; c = c->next, at = &(*at)->next) {
    if (!(*at = malloc(sizeof *c))) break;
    **at = *c, (*at)->next = NULL;
  }
  return first;
}

void ts_build_chosen_free(TsBuildChosen *c) {
  for (TsBuildChosen *next; c; c = next) {
    next = c->next;
    free(c);
  }
}

/* "rows 64 columns 128, chosen by the user" */
void ts_build_choice_text(const TsGroup *g, TsText *t) {
  TsText c = {0};
  ts_sched_choice_text(&g->choice, &c);
  if (!c.len && g->origin != TS_CHOICE_usual) ts_text_str(&c, "the default");
  if (c.len) ts_text_str(&c, ", ");
  ts_text_take(t, "", &c);
  ts_text_str(t, ts_choice_origin(g->origin));
}

static void lines(const char *remarks, const char *before, TsText *t) {
  while (remarks && *remarks) {
    size_t n = strcspn(remarks, "\n");
    ts_text_format(t, "%s%.*s\n", before, (int)n, remarks);
    remarks += n + (remarks[n] == '\n');
  }
}

void ts_build_remarks_text(const TsGroup *g, TsText *t) {
  lines(g->remarks, "      remark: ", t);
}

void ts_build_remarks(const TsBuildJob *b, TsText *t) {
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; f->sched && i < f->sched->ngroup; i++) {
      const TsGroup *g = f->sched->group[i];
      TsText before = {0};
      ts_text_format(&before, "remark: group %d (", i);
      ts_sched_what(g, &before);
      ts_text_str(&before, "): ");
      if (before.at) lines(g->remarks, before.at, t);
      ts_text_free(&before);
    }
}
