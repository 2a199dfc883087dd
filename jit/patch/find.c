/* Which kernel is meant: a number as :tiles and texts have it, or a name. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/patch/state.h"

static bool has_kernel(const TsPatch *p, const TsGroup *g) {
  return ts_build_worth_on(p->b, g);
}

/* "2" or "body/2": of the function itself, or of one inside. */
static bool by_number(TsPatch *p, const char *word) {
  const char *slash = strrchr(word, '/'), *digits = slash ? slash + 1 : word;
  char *end;
  long n = strtol(digits, &end, 10);
  if (!isdigit((unsigned char)*digits) || *end || end - digits > 6) return false;
  for (const TsFusion *f = &p->b->fusion; f; f = f->next) {
    size_t len = slash ? (size_t)(slash - word) : 0;
    bool here = slash ? strlen(f->g->name) == len && !memcmp(f->g->name, word, len)
                      : f == &p->b->fusion;
    if (!here || n >= f->sched->ngroup || !has_kernel(p, f->sched->group[n])) continue;
    p->u = f, p->g = f->sched->group[n];
    return true;
  }
  return false;
}

static bool is_called(const TsPatch *p, const TsFusion *f, const TsGroup *g, const char *name) {
  TsSchedKernel k;
  TsError ignored = {0};
  if (ts_build_tile(p->b, f, g, &k, &ignored)) return false;
  bool same = !strcmp(k.tile->name, name);
  ts_tile_free(k.tile);
  return same;
}

static int count(const TsPatch *p) {
  int n = 0;
  for (const TsFusion *f = &p->b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++) n += has_kernel(p, f->sched->group[i]);
  return n;
}

/* How many have the name; the first is p's. NULL: any. */
static int by_name(TsPatch *p, const char *name) {
  int n = 0;
  for (const TsFusion *f = &p->b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++) {
      const TsGroup *g = f->sched->group[i];
      if (!has_kernel(p, g) || (name && !is_called(p, f, g, name))) continue;
      if (!n++) p->u = f, p->g = g;
    }
  return n;
}

static void list(const TsPatch *p, TsText *t) {
  for (const TsFusion *f = &p->b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup && t->len < 180; i++) {
      if (!has_kernel(p, f->sched->group[i])) continue;
      ts_text_str(t, t->len ? ", " : "");
      if (f != &p->b->fusion) ts_text_format(t, "%s/", f->g->name);
      ts_text_format(t, "%d ", i);
      ts_text_str(t, ts_node_name(f->sched->group[i]->node[0]));
    }
}

static int none(const TsPatch *p, const char *what, TsError *err) {
  TsText have = {0};
  list(p, &have);
  ts_error_set(err, TS_ERR_value, "@%s: %s", p->b->g->name, what);
  if (have.len)
    ts_error_hint(err, "it has %.200s: :tiles lists them", have.at);
  else
    ts_error_hint(err, "no group is worth a kernel with the arguments that were shown last; "
                       "f:ir(\"tile\", x, {kernel = 0}) names others, :why says why");
  ts_text_free(&have);
  return -1;
}

/* "// group 2" of a text, or of one inside "// group body/2". */
static bool by_head(TsPatch *p, const char *text) {
  const char *head = text ? strstr(text, "// group ") : NULL;
  char word[80];
  if (!head || sscanf(head, "// group %79[^ :\n]", word) != 1) return false;
  return by_number(p, word);
}

int ts_patch_find(TsPatch *p, const char *kernel, const char *text, TsError *err) {
  char what[160], name[64] = "";
  const char *at = text ? strstr(text, "tile @") : NULL;
  int n;
  p->g = NULL;
  if (kernel) {
    if (by_number(p, kernel)) return 0;
    n = by_name(p, *kernel == '@' ? kernel + 1 : kernel);
    if (n == 1) return 0;
    snprintf(what, sizeof what, "%s kernel %.60s", n ? "more than one" : "there is no", kernel);
    return none(p, what, err);
  }
  if (by_head(p, text)) return 0;
  if (count(p) == 1) return by_name(p, NULL), 0;
  if (at && sscanf(at, "tile @%63[A-Za-z0-9_.]", name) == 1 && by_name(p, name) == 1) return 0;
  return none(p, "which of its kernels is meant must be said", err);
}
