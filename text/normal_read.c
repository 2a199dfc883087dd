/* Normalizers as tokenizer.json has them. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "lib/text.h"
#include "text/normal.h"

static const char *const names[] = {
#define X(name) #name,
    TS_NORMALIZERS(X)
#undef X
};

static const char *nth(const void *arg, int i) { return ((const char *const *)arg)[i]; }

int ts_normal_kind(const TsTree *t, const char *const *list, int n, const char *what,
                   TsError *err) {
  const TsTree *type;
  char shown[64], word[64];
  if (t->kind != TS_TREE_object)
    return ts_error_set(err, TS_ERR_format, "a %s must be an object", what);
  if (ts_tree_find(t, "type", TS_TREE_string, true, &type, err)) return -1;
  for (int i = 0; i < n; i++)
    if (ts_tree_is(type, list[i])) return i;
  ts_tree_shown(type->s, type->n, shown);
  ts_error_set(err, TS_ERR_format, "there is no %s '%s'", what, shown);
  snprintf(word, sizeof word, "%s", shown);
  const char *near = ts_text_closest(word, n, nth, list);
  if (near) return ts_error_hint(err, "did you mean '%s'?", near);
  TsText all = {0};
  for (int i = 0; i < n; i++) ts_text_format(&all, "%s%s", i ? ", " : "", list[i]);
  ts_error_hint(err, "there are %s", all.at ? all.at : "");
  ts_text_free(&all);
  return -1;
}

TsPattern *ts_normal_pattern(const TsTree *object, TsError *err) {
  const TsTree *p = ts_tree_get(object, "pattern"), *s = NULL;
  bool regex = false;
  if (p && p->kind == TS_TREE_string) s = p;
  if (p && p->kind == TS_TREE_object) {
    s = ts_tree_get(p, "String");
    if (!s) s = ts_tree_get(p, "Regex"), regex = true;
  }
  if (!s || s->kind != TS_TREE_string)
    return ts_error_set(err, TS_ERR_format,
                        "'pattern' must be {\"String\": ..} or {\"Regex\": ..}"),
           NULL;
  return regex ? ts_pattern_regex(s->s, s->n, err) : ts_pattern_string(s->s, s->n, err);
}

static int read_one(TsNormal *k, TsArena *a, const TsTree *t, TsError *err) {
  const TsTree *v;
  bool accents = true, lower = true;
  switch (k->kind) {
  case TS_NORMAL_Strip:
    k->left = k->right = true;
    return ts_tree_flag(t, "strip_left", &k->left, err) ||
                   ts_tree_flag(t, "strip_right", &k->right, err)
               ? -1
               : 0;
  case TS_NORMAL_Replace:
    k->pattern = ts_normal_pattern(t, err);
    if (!k->pattern) return -1;
    return ts_tree_find(t, "content", TS_TREE_string, true, &v, err) ||
                   ts_tree_text(a, t, "content", &k->text, &k->ntext, err)
               ? -1
               : 0;
  case TS_NORMAL_Prepend:
    return ts_tree_find(t, "prepend", TS_TREE_string, true, &v, err) ||
                   ts_tree_text(a, t, "prepend", &k->text, &k->ntext, err)
               ? -1
               : 0;
  case TS_NORMAL_BertNormalizer:
    k->clean = k->chinese = true;
    if (ts_tree_flag(t, "clean_text", &k->clean, err) ||
        ts_tree_flag(t, "handle_chinese_chars", &k->chinese, err) ||
        ts_tree_flag(t, "lowercase", &lower, err))
      return -1;
    accents = k->lower = lower;
    if (ts_tree_flag(t, "strip_accents", &accents, err)) return -1;
    k->accents = accents;
    return 0;
  case TS_NORMAL_Precompiled:
    if (ts_tree_find(t, "precompiled_charsmap", TS_TREE_string, true, &v, err) ||
        ts_tree_flag(t, "longest", &k->longest, err))
      return -1;
    k->map = ts_charsmap_read(v->s, v->n, err);
    return k->map ? 0 : -1;
  default: return 0;
  }
}

int ts_normal_read(TsNormals *all, TsArena *a, const TsTree *t, TsError *err) {
  const TsTree *list;
  if (t->kind == TS_TREE_object && ts_tree_get(t, "type") &&
      ts_tree_is(ts_tree_get(t, "type"), "Sequence")) {
    if (ts_tree_find(t, "normalizers", TS_TREE_list, true, &list, err)) return -1;
    for (const TsTree *v = list->first; v; v = v->next)
      if (ts_normal_read(all, a, v, err)) return -1;
    return 0;
  }
  int kind = ts_normal_kind(t, names, TS_NORMAL_n, "normalizer", err);
  if (kind < 0) return -1;
  TsNormal *at = realloc(all->at, (size_t)(all->n + 1) * sizeof *at);
  if (!at) return ts_error_memory(err);
  all->at = at;
  at[all->n] = (TsNormal){.kind = (TsNormalKind)kind};
  all->exact |= kind == TS_NORMAL_Replace;
  return read_one(&at[all->n++], a, t, err);
}

void ts_normal_free(TsNormals *all) {
  for (int i = 0; i < all->n; i++) {
    ts_pattern_free(all->at[i].pattern);
    ts_charsmap_free(all->at[i].map);
  }
  free(all->at);
  ts_line_free(&all->line[0]);
  ts_line_free(&all->line[1]);
  *all = (TsNormals){0};
}
