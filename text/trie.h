/* Strings as a tree of their bytes, to find those that begin at a place of a text. */
#ifndef TS_TEXT_TRIE_H
#define TS_TEXT_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"

typedef struct TsTrieString {
  const char *s;
  uint32_t n;
  int32_t id; /* not negative */
} TsTrieString;

/* A node's children are neighbours, by their byte. */
typedef struct TsTrieNode {
  uint32_t child;
  int32_t id; /* of the string that ends here, or -1 */
  uint16_t nchild;
  unsigned char byte;
} TsTrieNode;

typedef struct TsTrie {
  TsTrieNode *node;
  uint32_t n;
  uint32_t first[256]; /* of the root's children that of a byte, or 0 */
} TsTrie;

/* The list is put in order; empty strings are left out; of equal ones the last has its id. */
int ts_trie_make(TsTrie *t, TsTrieString *list, uint32_t n, TsError *err);
void ts_trie_free(TsTrie *t);

/* The child of a node by a byte, or 0. */
static inline uint32_t ts_trie_step(const TsTrie *t, uint32_t node, unsigned char byte) {
  if (!node) return t->first[byte];
  const TsTrieNode *of = &t->node[node];
  const TsTrieNode *c = t->node + of->child;
  uint32_t n = of->nchild;
  if (n > 8) {
    uint32_t lo = 0;
    while (n > 1) {
      uint32_t half = n / 2;
      if (c[lo + half].byte <= byte) lo += half;
      n -= half;
    }
    return c[lo].byte == byte ? of->child + lo : 0;
  }
  for (uint32_t i = 0; i < n; i++)
    if (c[i].byte == byte) return of->child + i;
  return 0;
}

#endif
