/* Decoders as tokenizer.json has them. */
#include <stdlib.h>
#include <string.h>

#include "text/decode.h"

static int need(TsArena *a, const TsTree *t, const char *name, const char **to, size_t *n,
                TsError *err) {
  const TsTree *v;
  return ts_tree_find(t, name, TS_TREE_string, true, &v, err) ||
                 ts_tree_text(a, t, name, to, n, err)
             ? -1
             : 0;
}

static int read_metaspace(TsDecode *k, TsArena *a, const TsTree *t, TsError *err) {
  const TsTree *v;
  bool prefix = true;
  if (need(a, t, "replacement", &k->text, &k->ntext, err) ||
      ts_tree_find(t, "prepend_scheme", TS_TREE_string, false, &v, err) ||
      ts_tree_flag(t, "add_prefix_space", &prefix, err))
    return -1;
  if (!k->ntext) return ts_error_set(err, TS_ERR_format, "'replacement' must be one character");
  k->prepended = prefix && !(v && ts_tree_is(v, "never"));
  return 0;
}

static int read_one(TsDecode *k, TsArena *a, const TsTree *t, TsError *err) {
  k->cleanup = true;
  switch (k->kind) {
  case TS_DECODE_Metaspace: return read_metaspace(k, a, t, err);
  case TS_DECODE_WordPiece:
    return need(a, t, "prefix", &k->text, &k->ntext, err) ||
                   ts_tree_flag(t, "cleanup", &k->cleanup, err)
               ? -1
               : 0;
  case TS_DECODE_BPEDecoder: return need(a, t, "suffix", &k->text, &k->ntext, err);
  case TS_DECODE_Strip:
    if (need(a, t, "content", &k->text, &k->ntext, err) ||
        ts_tree_whole(t, "start", &k->start, err) || ts_tree_whole(t, "stop", &k->stop, err))
      return -1;
    if (!k->ntext) return ts_error_set(err, TS_ERR_format, "'content' must be one character");
    return 0;
  case TS_DECODE_Replace:
    k->pattern = ts_normal_pattern(t, err);
    return k->pattern ? need(a, t, "content", &k->text, &k->ntext, err) : -1;
  case TS_DECODE_CTC:
    return need(a, t, "pad_token", &k->text, &k->ntext, err) ||
                   need(a, t, "word_delimiter_token", &k->other, &k->nother, err) ||
                   ts_tree_flag(t, "cleanup", &k->cleanup, err)
               ? -1
               : 0;
  default: return 0;
  }
}

int ts_decode_read(TsDecodes *all, TsArena *a, const TsTree *t, TsError *err) {
  static const char *const names[] = {
#define X(name) #name,
      TS_DECODERS(X)
#undef X
  };
  const TsTree *list;
  if (t->kind == TS_TREE_object && ts_tree_get(t, "type") &&
      ts_tree_is(ts_tree_get(t, "type"), "Sequence")) {
    if (ts_tree_find(t, "decoders", TS_TREE_list, true, &list, err)) return -1;
    for (const TsTree *v = list->first; v; v = v->next)
      if (ts_decode_read(all, a, v, err)) return -1;
    return 0;
  }
  int kind = ts_normal_kind(t, names, TS_DECODE_n, "decoder", err);
  if (kind < 0) return -1;
  TsDecode *at = realloc(all->at, (size_t)(all->n + 1) * sizeof *at);
  if (!at) return ts_error_memory(err);
  all->at = at;
  at[all->n] = (TsDecode){.kind = (TsDecodeKind)kind};
  return read_one(&at[all->n++], a, t, err);
}

void ts_decode_free(TsDecodes *all) {
  for (int i = 0; i < all->n; i++) ts_pattern_free(all->at[i].pattern);
  free(all->at);
  *all = (TsDecodes){0};
}
