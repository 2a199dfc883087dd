/* What all models share: their tables, and words that are known already. */
#include "text/model.h"

#include <stdlib.h>
#include <string.h>

#include "text/char.h"
#include "text/normal.h"
#include "text/words.h"

enum { PIECES = 4 };

typedef struct TsModelRoom {
  void *at[PIECES];
  size_t n[PIECES];
} TsModelRoom;

static const char *const names[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
const char *ts_model_name(TsModelKind kind) { return names[kind]; }

int ts_tokens_add(TsTokens *t, int32_t id, uint32_t from, uint32_t to, TsError *err) {
  if (t->n == t->room) {
    uint32_t room = t->room ? t->room * 2 : 256;
    TsToken *at = realloc(t->at, room * sizeof *at);
    if (!at) return ts_error_memory(err);
    t->at = at;
    t->room = room;
  }
  t->at[t->n++] = (TsToken){id, from, to};
  return 0;
}

void *ts_model_room(TsModel *m, int piece, size_t n, TsError *err) {
  TsModelRoom *r = m->room;
  if (r->n[piece] < n) {
    free(r->at[piece]);
    r->n[piece] = 0;
    r->at[piece] = malloc(n + n / 2);
    if (!r->at[piece]) return ts_error_memory(err), NULL;
    r->n[piece] = n + n / 2;
  }
  return r->at[piece];
}

int ts_model_no_unknown(const TsModel *m, TsError *err) {
  char name[64];
  if (!m->unk)
    return ts_error_set(err, TS_ERR_value,
                        "%s: a part of the text is in no token, and there is no unknown token",
                        names[m->kind]);
  return ts_error_set(err, TS_ERR_value, "%s: the unknown token '%s' is not in the vocabulary",
                      names[m->kind], ts_tree_shown(m->unk, m->nunk, name));
}

static int word(TsModel *m, const char *s, uint32_t n, TsTokens *to, TsError *err) {
  switch (m->kind) {
  case TS_MODEL_BPE: return ts_bpe_tokens(m, s, n, to, err);
  case TS_MODEL_Unigram: return ts_unigram_tokens(m, s, n, to, err);
  default: return ts_wordpiece_tokens(m, s, n, to, err);
  }
}

/* The word is made of GPT-2's characters; its tokens count bytes again. */
static int raw_word(TsModel *m, const char *s, uint32_t n, TsTokens *to, TsError *err) {
  char *text = ts_model_room(m, 3, (size_t)n * 2, err);
  uint32_t len = 0, first = to->n;
  if (!text) return -1;
  for (uint32_t i = 0; i < n; i++)
    len += ts_char_put(text + len, ts_char_of_byte((unsigned char)s[i]));
  if (word(m, text, len, to, err)) return -1;
  /* They follow one another. Where characters were dropped a token may end within one. */
  uint32_t byte = 0, at = 0, next;
  for (uint32_t i = first; i < to->n; i++) {
    TsToken *k = &to->at[i];
    uint32_t last = k->to ? k->to - 1 : 0;
    for (; byte < n && at + (next = ts_char_len((unsigned char)text[at])) <= k->from; byte++)
      at += next;
    k->from = byte;
    for (; byte < n && at + (next = ts_char_len((unsigned char)text[at])) <= last; byte++)
      at += next;
    k->to = byte + 1;
  }
  return 0;
}

static int known(TsModel *m, const char *s, uint32_t n, TsTokens *to, TsError *err) {
  uint64_t hash = ts_vocab_hash(s, n, m->vocab.salt);
  int found = ts_words_find(m->words, hash, s, n, to, err);
  if (found) return found < 0 ? -1 : 0;
  uint32_t first = to->n;
  if (m->raw ? raw_word(m, s, n, to, err) : word(m, s, n, to, err)) return -1;
  ts_words_keep(m->words, hash, s, n, to->at + first, to->n - first);
  return 0;
}

/* U+2581, which stands for a space. */
static bool is_mark(const char *s) { return !memcmp(s, "\xe2\x96\x81", 3); }

/* Words of a text that was not divided at spaces, where no token reaches over the cut. */
static int cut(TsModel *m, const char *s, uint32_t n, TsTokens *to, TsError *err) {
  uint32_t from = 0;
  bool mark = true; /* the character before is one */
  while (from < n) {
    uint32_t end = from;
    for (; end < n; end += ts_char_len((unsigned char)s[end])) {
      bool is = n - end >= 3 && is_mark(s + end);
      if (is && !mark && end > from && !m->held[(unsigned char)s[end - 1]]) break;
      mark = is;
    }
    mark = false;
    uint32_t first = to->n;
    if (known(m, s + from, end - from, to, err)) return -1;
    for (uint32_t i = first; i < to->n; i++) to->at[i].from += from, to->at[i].to += from;
    from = end;
  }
  return 0;
}

int ts_model_tokens(TsModel *m, const char *s, uint32_t n, TsTokens *to, TsError *err) {
  return m->apart ? cut(m, s, n, to, err) : known(m, s, n, to, err);
}

/* ---- reading */
static int read_vocab(TsModel *m, const TsTree *t, TsError *err) {
  const TsTree *v;
  char name[64];
  if (ts_tree_find(t, "vocab", TS_TREE_object, true, &v, err)) return -1;
  for (const TsTree *e = v->first; e; e = e->next) {
    int64_t id = ts_tree_count(e, INT32_MAX);
    if (id < 0)
      return ts_error_set(err, TS_ERR_format, "the id of '%s' is no whole number from 0 to %d",
                          ts_tree_shown(e->name, e->len, name), INT32_MAX);
    if (ts_vocab_add(&m->vocab, e->name, e->len, id, err)) return -1;
  }
  return 0;
}

static int read_words(TsModel *m, TsArena *a, const TsTree *t, TsError *err) {
  int64_t most = 100;
  m->unk = m->kind == TS_MODEL_WordPiece ? "[UNK]" : "<unk>";
  m->nunk = 5;
  if (read_vocab(m, t, err) || ts_tree_text(a, t, "unk_token", &m->unk, &m->nunk, err))
    return -1;
  if (m->kind == TS_MODEL_WordLevel) return 0;
  m->prefix = "##";
  m->nprefix = 2;
  if (ts_tree_text(a, t, "continuing_subword_prefix", &m->prefix, &m->nprefix, err) ||
      ts_tree_whole(t, "max_input_chars_per_word", &most, err))
    return -1;
  m->longest_word = (size_t)most;
  return 0;
}

static int find_bytes(TsModel *m) {
  for (int b = 0; b < 256; b++) {
    static const char hex[] = "0123456789ABCDEF";
    char name[] = {'<', '0', 'x', hex[b >> 4], hex[b & 15], '>'};
    m->byte[b] = ts_vocab_find(&m->vocab, name, sizeof name);
  }
  return 0;
}

/* Files of old have no type: it follows from what else there is. */
static int kind_of(const TsTree *t, TsError *err) {
  const TsTree *vocab = t->kind == TS_TREE_object ? ts_tree_get(t, "vocab") : NULL;
  if (!vocab || ts_tree_get(t, "type"))
    return ts_normal_kind(t, names, TS_MODEL_n, "model", err);
  if (vocab->kind == TS_TREE_list) return TS_MODEL_Unigram;
  if (ts_tree_get(t, "merges")) return TS_MODEL_BPE;
  return ts_tree_get(t, "max_input_chars_per_word") ? TS_MODEL_WordPiece : TS_MODEL_WordLevel;
}

int ts_model_read(TsModel *m, TsArena *a, const TsTree *t, TsError *err) {
  int kind = kind_of(t, err);
  if (kind < 0) return -1;
  m->kind = (TsModelKind)kind;
  m->unk_id = -1;
  m->room = calloc(1, sizeof *m->room);
  m->words = ts_words_new();
  if (!m->room || !m->words) return ts_error_memory(err);
  if (ts_tree_flag(t, "byte_fallback", &m->byte_fallback, err)) return -1;
  if (m->kind == TS_MODEL_Unigram) {
    if (ts_unigram_read(m, t, err)) return -1;
  } else if (m->kind == TS_MODEL_BPE) {
    if (read_vocab(m, t, err) || ts_bpe_read(m, a, t, err)) return -1;
  } else if (read_words(m, a, t, err)) {
    return -1;
  }
  if (m->unk && m->kind != TS_MODEL_Unigram)
    m->unk_id = ts_vocab_find(&m->vocab, m->unk, m->nunk);
  return find_bytes(m);
}

void ts_model_free(TsModel *m) {
  ts_vocab_free(&m->vocab);
  ts_trie_free(&m->trie);
  ts_words_free(m->words);
  if (m->room)
    for (int i = 0; i < PIECES; i++) free(m->room->at[i]);
  free(m->room);
  free(m->rank);
  free(m->merge);
  free(m->score);
  *m = (TsModel){0};
}
