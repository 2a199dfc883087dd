/* Pre-tokenizers as tokenizer.json has them. */
#include <stdlib.h>
#include <string.h>

#include "text/split.h"

static const char *const names[] = {
#define X(name) #name,
    TS_PRETOKENIZERS(X)
#undef X
};

static const char GPT2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
/* Words as Rust has them, with the joiners. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"
static const char WORDS[] = "[" WORD "]+|[^" WORD "\\s]+";

static int read_behavior(TsSplit *k, const TsTree *t, bool needed, TsError *err) {
  static const char *const of[] = {"Removed", "Isolated", "MergedWithPrevious",
                                   "MergedWithNext", "Contiguous"};
  const TsTree *v;
  if (ts_tree_find(t, "behavior", TS_TREE_string, needed, &v, err)) return -1;
  if (!v) return 0;
  for (int i = 0; i < TS_BEHAVIOR_n; i++)
    if (ts_tree_is(v, of[i])) return k->behavior = (TsBehavior)i, 0;
  char shown[64];
  ts_error_set(err, TS_ERR_format, "there is no behavior '%s'",
               ts_tree_shown(v->s, v->n, shown));
  return ts_error_hint(err,
                       "there are Removed, Isolated, MergedWithPrevious, MergedWithNext and "
                       "Contiguous");
}

/* One character. */
static int read_char(const TsTree *t, const char *name, const TsTree **v, TsError *err) {
  if (ts_tree_find(t, name, TS_TREE_string, true, v, err)) return -1;
  if ((*v)->n && (*v)->n == ts_char_len((unsigned char)(*v)->s[0])) return 0;
  return ts_error_set(err, TS_ERR_format, "'%s' must be one character", name);
}

static int read_metaspace(TsSplit *k, const TsTree *t, TsError *err) {
  const TsTree *v;
  bool split = true, prefix = true;
  if (read_char(t, "replacement", &v, err)) return -1;
  memcpy(k->mark, v->s, v->n);
  k->nmark = v->n;
  k->prepend = TS_PREPEND_always;
  if (ts_tree_find(t, "prepend_scheme", TS_TREE_string, false, &v, err)) return -1;
  if (v) {
    if (ts_tree_is(v, "first"))
      k->prepend = TS_PREPEND_first;
    else if (ts_tree_is(v, "never"))
      k->prepend = TS_PREPEND_never;
    else if (!ts_tree_is(v, "always"))
      return ts_error_set(err, TS_ERR_format,
                          "'prepend_scheme' must be \"first\", \"never\" or \"always\"");
  }
  if (ts_tree_flag(t, "split", &split, err) ||
      ts_tree_flag(t, "add_prefix_space", &prefix, err))
    return -1;
  if (!prefix && v && k->prepend != TS_PREPEND_never)
    return ts_error_set(err, TS_ERR_format, "'add_prefix_space' contradicts 'prepend_scheme'");
  if (!prefix) k->prepend = TS_PREPEND_never;
  k->behavior = TS_BEHAVIOR_MergedWithNext;
  if (split) k->pattern = ts_pattern_string(k->mark, k->nmark, err);
  return split && !k->pattern ? -1 : 0;
}

static int read_one(TsSplit *k, const TsTree *t, TsError *err) {
  const TsTree *v;
  bool flag = true, trim = true;
  int64_t length = 5;
  switch (k->kind) {
  case TS_SPLIT_ByteLevel:
    k->behavior = TS_BEHAVIOR_Isolated;
    k->prefix = true;
    if (ts_tree_flag(t, "add_prefix_space", &k->prefix, err) ||
        ts_tree_flag(t, "trim_offsets", &trim, err) || ts_tree_flag(t, "use_regex", &flag, err))
      return -1;
    if (flag) k->pattern = ts_pattern_regex(GPT2, sizeof GPT2 - 1, err);
    return flag && !k->pattern ? -1 : 0;
  case TS_SPLIT_Split:
    k->pattern = ts_normal_pattern(t, err);
    if (!k->pattern || ts_tree_flag(t, "invert", &k->invert, err)) return -1;
    return read_behavior(k, t, true, err);
  case TS_SPLIT_Whitespace:
    k->invert = true;
    k->pattern = ts_pattern_regex(WORDS, sizeof WORDS - 1, err);
    return k->pattern ? 0 : -1;
  case TS_SPLIT_Metaspace: return read_metaspace(k, t, err);
  case TS_SPLIT_Digits:
    if (ts_tree_flag(t, "individual_digits", &k->individual, err)) return -1;
    k->behavior = k->individual ? TS_BEHAVIOR_Isolated : TS_BEHAVIOR_Contiguous;
    return 0;
  case TS_SPLIT_Punctuation:
    k->behavior = TS_BEHAVIOR_Isolated;
    return read_behavior(k, t, false, err);
  case TS_SPLIT_CharDelimiterSplit:
    if (read_char(t, "delimiter", &v, err)) return -1;
    k->pattern = ts_pattern_string(v->s, v->n, err);
    return k->pattern ? 0 : -1;
  case TS_SPLIT_FixedLength:
    if (ts_tree_whole(t, "length", &length, err)) return -1;
    if (!length) return ts_error_set(err, TS_ERR_format, "'length' must be 1 at least");
    k->length = (uint32_t)length;
    return 0;
  default: return 0;
  }
}

int ts_split_read(TsSplits *all, const TsTree *t, TsError *err) {
  const TsTree *list;
  if (!all->space && !(all->space = ts_pattern_string(" ", 1, err))) return -1;
  if (t->kind == TS_TREE_object && ts_tree_get(t, "type") &&
      ts_tree_is(ts_tree_get(t, "type"), "Sequence")) {
    if (ts_tree_find(t, "pretokenizers", TS_TREE_list, true, &list, err)) return -1;
    for (const TsTree *v = list->first; v; v = v->next)
      if (ts_split_read(all, v, err)) return -1;
    return 0;
  }
  int kind = ts_normal_kind(t, names, TS_SPLIT_n, "pre-tokenizer", err);
  if (kind < 0) return -1;
  TsSplit *at = realloc(all->at, (size_t)(all->n + 1) * sizeof *at);
  if (!at) return ts_error_memory(err);
  all->at = at;
  at[all->n] = (TsSplit){.kind = (TsSplitKind)kind};
  TsSplit *k = &at[all->n++];
  if (read_one(k, t, err)) return -1;
  all->exact |= k->kind == TS_SPLIT_Metaspace && k->prepend == TS_PREPEND_first;
  return 0;
}

void ts_split_free(TsSplits *all) {
  for (int i = 0; i < all->n; i++) ts_pattern_free(all->at[i].pattern);
  free(all->at);
  ts_pattern_free(all->space);
  for (int i = 0; i < 2; i++) {
    ts_line_free(&all->line[i]);
    free(all->pieces[i].at);
  }
  *all = (TsSplits){0};
}
