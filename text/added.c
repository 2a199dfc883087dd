/* Reading and finding added tokens: at each place from the left the longest. */
#include "text/added.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"

const TsAddedToken *ts_added_get(const TsAdded *all, int32_t id) {
  int32_t at = id >= 0 && (uint32_t)id < all->end ? all->of_id[id] : -1;
  return at < 0 ? NULL : &all->at[at];
}

/* Is the character behind i, or in front of it, one of a word? */
static int in_word(const TsAdded *all, const char *s, size_t n, size_t i, bool before,
                   TsError *err) {
  if (before ? !i : i == n) return 0;
  size_t from = i;
  if (before) do
      from--;
    while (!ts_char_begins(s[from]));
  TsMatches m = ts_pattern_matches(all->word, s + from, ts_char_len((unsigned char)s[from]));
  return ts_matches_next(&m, err);
}

/* Where the white space ends that begins at i, or begins that ends there. */
static size_t space_to(const char *s, size_t n, size_t i) {
  for (uint32_t len; i < n && ts_char_is_space(ts_char_get(s + i, &len));) i += len;
  return i;
}

static size_t space_from(const char *s, size_t i) {
  while (i) {
    size_t last = i;
    uint32_t len;
    do last--;
    while (!ts_char_begins(s[last]));
    if (!ts_char_is_space(ts_char_get(s + last, &len))) break;
    i = last;
  }
  return i;
}

/* The longest string at s[i], as a position in `at`, or -1. */
static int32_t longest(const TsTrie *t, const char *s, size_t n, size_t i, size_t *end) {
  int32_t found = -1;
  for (uint32_t node = 0; i < n; i++) {
    node = ts_trie_step(t, node, (unsigned char)s[i]);
    if (!node) break;
    if (t->node[node].id >= 0) found = t->node[node].id, *end = i + 1;
  }
  return found;
}

int ts_added_divide(const TsAdded *all, const TsTrie *trie, bool special, const TsLine *l,
                    TsPiece p, TsPieces *to, TsError *err) {
  const char *s = l->s + p.from;
  size_t n = p.n, done = 0, end = 0;
  for (size_t i = 0; i < n && trie->n > 1;) {
    if (!(i & 0xffff) && ts_cpu_interrupted())
      return ts_error_set(err, TS_ERR_interrupt, "interrupted");
    if (!trie->first[(unsigned char)s[i]]) {
      i++;
      continue;
    }
    int32_t k = longest(trie, s, n, i, &end);
    if (k < 0) {
      i++;
      continue;
    }
    const TsAddedToken *t = &all->at[k];
    size_t from = i, stop = end;
    i = end;
    if (!special && ts_vocab_find(&all->special, t->s, t->n) >= 0) continue;
    if (t->single_word) {
      int before = in_word(all, s, n, from, true, err);
      int behind = before ? before : in_word(all, s, n, stop, false, err);
      if (behind < 0) return -1;
      if (behind) continue;
    }
    if (t->lstrip) {
      from = space_from(s, from);
      if (from < done) from = done;
    }
    if (t->rstrip) stop = space_to(s, n, stop);
    uint32_t at = p.from + (uint32_t)from;
    if (done < from && ts_pieces_add(to,
                                     (TsPiece){p.from + (uint32_t)done, (uint32_t)(from - done),
                                               l->track ? l->at[p.from + done].from : 0, -1},
                                     err))
      return -1;
    if (ts_pieces_add(
            to, (TsPiece){at, (uint32_t)(stop - from), l->track ? l->at[at].from : 0, t->id},
            err))
      return -1;
    done = stop;
  }
  if (done >= n) return 0;
  uint32_t at = p.from + (uint32_t)done;
  return ts_pieces_add(
      to, (TsPiece){at, (uint32_t)(n - done), l->track ? l->at[at].from : 0, -1}, err);
}

/* ---- reading */
static int read_one(TsAddedToken *t, TsArena *a, const TsTree *e, TsNormals *normal,
                    TsError *err) {
  const TsTree *v;
  t->normalized = true;
  if (e->kind != TS_TREE_object)
    return ts_error_set(err, TS_ERR_format, "an added token must be an object");
  if (ts_tree_find(e, "content", TS_TREE_string, true, &v, err) ||
      ts_tree_text(a, e, "content", &t->s, &t->n, err) ||
      ts_tree_flag(e, "special", &t->special, err))
    return -1;
  t->normalized = !t->special;
  if (ts_tree_flag(e, "normalized", &t->normalized, err) ||
      ts_tree_flag(e, "single_word", &t->single_word, err) ||
      ts_tree_flag(e, "lstrip", &t->lstrip, err) || ts_tree_flag(e, "rstrip", &t->rstrip, err))
    return -1;
  t->found = t->s;
  t->nfound = t->n;
  if (!t->normalized || !normal->n || !t->n) return 0;
  TsLine line = {.most = 1 << 24, .err = err};
  int bad = ts_normal_apply(normal, t->s, NULL, (uint32_t)t->n, 0, &line);
  char *own = bad ? NULL : ts_arena_alloc(a, line.n + 1);
  if (own && line.n) memcpy(own, line.s, line.n);
  if (own) t->found = own, t->nfound = line.n;
  if (!bad && !own) bad = ts_error_memory(err);
  ts_line_free(&line);
  return bad;
}

static int make_trie(TsAdded *all, TsTrie *t, bool normalized, TsError *err) {
  TsTrieString *list = malloc(((size_t)all->n + 1) * sizeof *list);
  uint32_t n = 0;
  if (!list) return ts_error_memory(err);
  for (int32_t i = 0; i < all->n; i++) {
    const TsAddedToken *k = &all->at[i];
    if (k->normalized != normalized || ts_added_get(all, k->id) != k) continue;
    list[n++] = (TsTrieString){k->found, (uint32_t)k->nfound, i};
  }
  int bad = ts_trie_make(t, list, n, err);
  free(list);
  return bad;
}

int ts_added_read(TsAdded *all, TsArena *a, const TsTree *list, const TsModel *m,
                  TsNormals *normal, TsError *err) {
  static const char word[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]";
  uint32_t n = list ? list->n : 0, i = 0;
  int64_t next = m->vocab.n;
  all->at = calloc(n + 1, sizeof *all->at);
  all->end = m->vocab.end + n + 1;
  all->of_id = malloc(((size_t)all->end + 1) * sizeof *all->of_id);
  if (!all->at || !all->of_id) return ts_error_memory(err);
  for (uint32_t k = 0; k < all->end; k++) all->of_id[k] = -1;
  all->word = ts_pattern_regex(word, sizeof word - 1, err);
  if (!all->word) return -1;
  for (const TsTree *e = list ? list->first : NULL; e; e = e->next) {
    TsAddedToken *t = &all->at[i];
    if (read_one(t, a, e, normal, err)) return -1;
    if (!t->n) continue;
    t->id = ts_vocab_find(&all->vocab, t->s, t->n);
    if (t->id < 0) t->id = ts_vocab_find(&m->vocab, t->s, t->n);
    if (t->id < 0) t->id = (int32_t)next++;
    if ((uint32_t)t->id >= all->end) /* a vocabulary with holes */
      return ts_error_set(err, TS_ERR_format, "added token %u gets an id above all", i);
    if (ts_vocab_add(&all->vocab, t->s, t->n, t->id, err)) return -1;
    if (t->special && ts_vocab_add(&all->special, t->s, t->n, 0, err)) return -1;
    all->of_id[t->id] = (int32_t)i++;
    all->n = (int32_t)i;
  }
  return make_trie(all, &all->given, false, err) || make_trie(all, &all->normalized, true, err)
             ? -1
             : 0;
}

void ts_added_free(TsAdded *all) {
  ts_vocab_free(&all->vocab);
  ts_vocab_free(&all->special);
  ts_trie_free(&all->given);
  ts_trie_free(&all->normalized);
  ts_pattern_free(all->word);
  free(all->at);
  free(all->of_id);
  *all = (TsAdded){0};
}
