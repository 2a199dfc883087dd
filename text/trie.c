/* Making a trie: level by level over strings in order, so that children become neighbours. */
#include "text/trie.h"

#include <stdlib.h>
#include <string.h>

typedef struct Range {
  uint32_t lo, hi, depth; /* the strings of a node, and their bytes so far */
} Range;

static int by_bytes(const void *a, const void *b) {
  const TsTrieString *p = a, *q = b;
  int c = memcmp(p->s, q->s, p->n < q->n ? p->n : q->n);
  return c ? c : p->n != q->n ? (p->n < q->n ? -1 : 1) : p->id < q->id ? -1 : p->id > q->id;
}

static int grow(TsTrie *t, Range **range, uint32_t *room, TsError *err) {
  if (t->n < *room) return 0;
  uint32_t more = *room ? *room * 2 : 1024;
  TsTrieNode *node = realloc(t->node, more * sizeof *node);
  if (node) t->node = node;
  Range *r = node ? realloc(*range, more * sizeof *r) : NULL;
  if (!r) return ts_error_memory(err);
  *range = r;
  *room = more;
  return 0;
}

int ts_trie_make(TsTrie *t, TsTrieString *list, uint32_t n, TsError *err) {
  Range *range = NULL;
  uint32_t room = 0;
  *t = (TsTrie){0};
  if (n) qsort(list, n, sizeof *list, by_bytes);
  int bad = grow(t, &range, &room, err);
  if (!bad) {
    t->node[t->n] = (TsTrieNode){.id = -1};
    range[t->n++] = (Range){0, n, 0};
  }
  for (uint32_t i = 0; !bad && i < t->n; i++) {
    Range r = range[i];
    /* In order: those that end here stand in front. */
    while (r.lo < r.hi && list[r.lo].n == r.depth) {
      if (i) t->node[i].id = list[r.lo].id;
      r.lo++;
    }
    t->node[i].child = t->n;
    while (!bad && r.lo < r.hi) {
      unsigned char byte = (unsigned char)list[r.lo].s[r.depth];
      uint32_t end = r.lo + 1;
      while (end < r.hi && (unsigned char)list[end].s[r.depth] == byte) end++;
      if ((bad = grow(t, &range, &room, err))) break;
      if (!i) t->first[byte] = t->n;
      t->node[i].nchild++;
      t->node[t->n] = (TsTrieNode){.id = -1, .byte = byte};
      range[t->n++] = (Range){r.lo, end, r.depth + 1};
      r.lo = end;
    }
  }
  free(range);
  if (bad) ts_trie_free(t);
  return bad;
}

void ts_trie_free(TsTrie *t) {
  free(t->node);
  *t = (TsTrie){0};
}
