/* Unigram: of all ways to make tokens of a word the one with the greatest sum of their scores.
 * Sums grow from the left, and of equal ones the first stays, so that rounding is as in
 * tokenizers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "text/char.h"
#include "text/model.h"

enum { FOREIGN = 10 }; /* an unknown character costs so much more than the dearest token */

typedef struct Node {
  double score;  /* of the best way to here */
  uint32_t from; /* where its last token begins; or UINT32_MAX */
  int32_t id;
} Node;

static void offer(Node *at, double score, uint32_t from, int32_t id) {
  if (at->from == UINT32_MAX || score > at->score) *at = (Node){score, from, id};
}

static int walk(const TsModel *m, const char *s, uint32_t n, Node *at, TsError *err) {
  for (uint32_t i = 0, len; i < n; i += len) {
    len = ts_char_len((unsigned char)s[i]);
    double here = at[i].score;
    bool single = false;
    if (!(i & 0xfff) && ts_cpu_interrupted())
      return ts_error_set(err, TS_ERR_interrupt, "interrupted");
    for (uint32_t node = 0, k = i; k < n; k++) {
      node = ts_trie_step(&m->trie, node, (unsigned char)s[k]);
      if (!node) break;
      int32_t id = m->trie.node[node].id;
      if (id < 0) continue;
      offer(&at[k + 1], m->score[id] + here, i, id);
      single |= k + 1 - i == len;
    }
    if (single) continue;
    Node *next = &at[i + len];
    if ((next->from == UINT32_MAX || m->unk_score + here > next->score) && m->unk_id < 0)
      return ts_model_no_unknown(m, err);
    offer(next, m->unk_score + here, i, m->unk_id);
  }
  return 0;
}

/* Unknown characters in a row are one: a token if they happen to be one, or bytes. */
static int unknown(const TsModel *m, const char *s, uint32_t from, uint32_t to, TsTokens *out,
                   TsError *err) {
  int32_t id = ts_vocab_find(&m->vocab, s + from, to - from);
  bool bytes = id < 0 && m->byte_fallback;
  for (uint32_t i = from; bytes && i < to; i++) bytes = m->byte[(unsigned char)s[i]] >= 0;
  if (!bytes) return ts_tokens_add(out, id < 0 ? m->unk_id : id, from, to, err);
  for (uint32_t i = from; i < to; i++)
    if (ts_tokens_add(out, m->byte[(unsigned char)s[i]], from, to, err)) return -1;
  return 0;
}

int ts_unigram_tokens(TsModel *m, const char *s, uint32_t n, TsTokens *to, TsError *err) {
  Node *at = ts_model_room(m, 0, ((size_t)n + 1) * sizeof *at, err);
  if (!at) return -1;
  for (uint32_t i = 0; i <= n; i++) at[i] = (Node){0, UINT32_MAX, 0};
  if (walk(m, s, n, at, err)) return -1;
  /* Back from the end, turning the links round. */
  uint32_t next = n;
  for (uint32_t end = n; end;) {
    uint32_t from = at[end].from;
    at[end].from = next; /* where the token behind this one ends */
    next = end;
    end = from;
  }
  /* `next` is the end of the first token now. */
  for (uint32_t from = 0, end = next; from < n;) {
    uint32_t after = at[end].from;
    int32_t id = at[end].id;
    if (id != m->unk_id) {
      if (ts_tokens_add(to, id, from, end, err)) return -1;
    } else {
      while (end < n && at[after].id == m->unk_id) end = after, after = at[end].from;
      if (unknown(m, s, from, end, to, err)) return -1;
    }
    from = end;
    end = after;
  }
  return 0;
}

int ts_unigram_read(TsModel *m, const TsTree *t, TsError *err) {
  const TsTree *list, *unk;
  if (ts_tree_find(t, "vocab", TS_TREE_list, true, &list, err) ||
      ts_tree_find(t, "unk_id", TS_TREE_number, false, &unk, err))
    return -1;
  uint32_t n = 0;
  double least = INFINITY;
  TsTrieString *strings = malloc((list->n + 1) * sizeof *strings);
  m->score = malloc((list->n + 1) * sizeof *m->score);
  int bad = strings && m->score ? 0 : ts_error_memory(err);
  for (const TsTree *e = list->first; e && !bad; e = e->next, n++) {
    const TsTree *s = e->kind == TS_TREE_list && e->n == 2 ? e->first : NULL;
    if (!s || s->kind != TS_TREE_string || s->next->kind != TS_TREE_number) {
      bad = ts_error_set(err, TS_ERR_format, "token %u is no [string, score]", n);
      break;
    }
    bad = ts_vocab_add(&m->vocab, s->s, s->n, n, err);
    m->score[n] = s->next->number;
    if (m->score[n] < least) least = m->score[n];
    strings[n] = (TsTrieString){s->s, s->n, (int32_t)n};
  }
  m->unk_score = least - FOREIGN;
  if (!bad && unk && (m->unk_id = (int32_t)ts_tree_count(unk, (int64_t)n - 1)) < 0)
    bad = ts_error_set(err, TS_ERR_format, "'unk_id' is no token: there are %u", n);
  if (!bad) bad = ts_trie_make(&m->trie, strings, n, err);
  free(strings);
  /* All that are in the list are tokens, of which equal ones have the last's id, but have ids,
   * too. */
  return bad;
}
