/* A tokenizer from its file, and what it shows of itself. */
#include <stdlib.h>
#include <string.h>

#include "text/whole.h"

static int read_truncation(TsTokenizer *t, const TsTree *v, TsError *err) {
  const TsTree *word;
  TsTruncation *k = &t->truncation;
  k->on = true;
  if (ts_tree_whole(v, "max_length", &k->most, err) ||
      ts_tree_whole(v, "stride", &k->stride, err) ||
      ts_tree_find(v, "strategy", TS_TREE_string, false, &word, err))
    return -1;
  if (word && ts_tree_is(word, "OnlyFirst")) k->strategy = TS_TRUNCATE_first;
  if (word && ts_tree_is(word, "OnlySecond")) k->strategy = TS_TRUNCATE_second;
  if (ts_tree_find(v, "direction", TS_TREE_string, false, &word, err)) return -1;
  k->left = word && ts_tree_is(word, "Left");
  return 0;
}

static int read_padding(TsTokenizer *t, const TsTree *v, TsError *err) {
  TsPadding *k = &t->padding;
  const TsTree *word, *how = ts_tree_get(v, "strategy");
  size_t n;
  k->on = true;
  if (how && how->kind == TS_TREE_object && ts_tree_whole(how, "Fixed", &k->length, err))
    return -1;
  if (ts_tree_find(v, "direction", TS_TREE_string, false, &word, err) ||
      ts_tree_whole(v, "pad_to_multiple_of", &k->multiple, err) ||
      ts_tree_whole(v, "pad_id", &k->id, err) ||
      ts_tree_whole(v, "pad_type_id", &k->type, err) ||
      ts_tree_text(&t->arena, v, "pad_token", &k->token, &n, err))
    return -1;
  k->left = word && ts_tree_is(word, "Left");
  return 0;
}

/* GPT-2's characters for bytes are left to the model's table of words. */
static bool takes_bytes(const TsTokenizer *t) {
  const TsSplits *s = &t->splits;
  return s->n && s->at[s->n - 1].kind == TS_SPLIT_ByteLevel && t->model.kind == TS_MODEL_BPE;
}

static int read_part(TsTokenizer *t, int part, const TsTree *v, TsError *err) {
  switch (part) {
  case 0: return ts_model_read(&t->model, &t->arena, v, err);
  case 1: return ts_normal_read(&t->normals, &t->arena, v, err);
  case 2: return ts_split_read(&t->splits, v, err);
  case 3: return ts_finish_read(&t->finishes, &t->arena, v, err);
  case 4: return ts_decode_read(&t->decodes, &t->arena, v, err);
  case 5: return read_truncation(t, v, err);
  default: return read_padding(t, v, err);
  }
}

static int read_all(TsTokenizer *t, const TsTree *tree, TsError *err) {
  static const char *const part[] = {"model",   "normalizer", "pre_tokenizer", "post_processor",
                                     "decoder", "truncation", "padding"};
  const TsTree *v;
  if (tree->kind != TS_TREE_object) return ts_error_set(err, TS_ERR_format, "no object");
  if (ts_tree_find(tree, "version", TS_TREE_string, false, &v, err)) return -1;
  if (v && !ts_tree_is(v, "1.0"))
    return ts_error_set(err, TS_ERR_format, "'version' is not 1.0");
  if (ts_tree_find(tree, "model", TS_TREE_object, true, &v, err)) return -1;
  for (int i = 0; i < 7; i++) {
    if (!(v = ts_tree_get(tree, part[i])) || !read_part(t, i, v, err)) continue;
    char message[sizeof err->message];
    memcpy(message, err->message, sizeof message);
    char hint[sizeof err->hint];
    memcpy(hint, err->hint, sizeof hint);
    ts_error_set(err, err->code, "%s: %.400s", part[i], message);
    if (hint[0]) ts_error_hint(err, "%s", hint);
    return -1;
  }
  if (ts_tree_find(tree, "added_tokens", TS_TREE_list, false, &v, err) ||
      ts_added_read(&t->added, &t->arena, v, &t->model, &t->normals, err))
    return -1;
  t->exact = t->normals.exact || t->splits.exact;
  t->model.raw = t->splits.raw = takes_bytes(t);
  if (t->model.raw) t->model.apart = false;
  return 0;
}

TsTokenizer *ts_tokenizer_read(const char *json, size_t n, TsError *err) {
  TsTokenizer *t = calloc(1, sizeof *t);
  TsArena arena = {0};
  const TsTree *tree = t ? ts_tree_read(&arena, json, n, err) : NULL;
  if (!t) ts_error_memory(err);
  if (!tree || read_all(t, tree, err)) {
    if (t) ts_tokenizer_free(t);
    t = NULL;
  }
  ts_arena_free(&arena);
  return t;
}

void ts_tokenizer_free(TsTokenizer *t) {
  ts_added_free(&t->added);
  ts_normal_free(&t->normals);
  ts_split_free(&t->splits);
  ts_model_free(&t->model);
  ts_finish_free(&t->finishes);
  ts_decode_free(&t->decodes);
  ts_line_free(&t->given);
  ts_line_free(&t->normal_line);
  ts_encoding_free(&t->encoding);
  ts_encoding_free(&t->other);
  ts_encoding_free(&t->uncut);
  free(t->first.at);
  free(t->pieces.at);
  free(t->tokens.at);
  free(t->place);
  ts_arena_free(&t->arena);
  free(t);
}

void ts_tokenizer_shown(const TsTokenizer *t, TsText *to) {
  static const char *const normal[] = {
#define X(name) #name,
      TS_NORMALIZERS(X)
#undef X
  };
  static const char *const split[] = {
#define X(name) #name,
      TS_PRETOKENIZERS(X)
#undef X
  };
  static const char *const finish[] = {
#define X(name) #name,
      TS_POSTPROCESSORS(X)
#undef X
  };
  ts_text_str(to, "tokenizer: ");
  for (int i = 0; i < t->normals.n; i++)
    ts_text_format(to, "%s, ", normal[t->normals.at[i].kind]);
  for (int i = 0; i < t->splits.n; i++) ts_text_format(to, "%s, ", split[t->splits.at[i].kind]);
  ts_text_str(to, ts_model_name(t->model.kind));
  for (int i = 0; i < t->finishes.n; i++)
    ts_text_format(to, ", %s", finish[t->finishes.at[i].kind]);
  ts_text_format(to, "; %lld tokens, %d of them added", (long long)ts_tokenizer_size(t),
                 t->added.n);
}
