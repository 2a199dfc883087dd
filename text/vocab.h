/* A vocabulary: strings with their ids, both ways. */
#ifndef TS_TEXT_VOCAB_H
#define TS_TEXT_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"

typedef struct TsVocabToken {
  const char *s; /* NULL: no token has this id */
  uint32_t n;
} TsVocabToken;

typedef struct TsVocab {
  struct TsVocabSlot *slot; /* open addressing */
  uint32_t nslot, n;        /* a power of two; tokens */
  TsVocabToken *at;         /* by id */
  uint32_t end, room;       /* ids are below it */
  uint32_t longest;         /* bytes of a token */
  struct TsVocabText *text; /* where their bytes are */
  uint64_t salt;
} TsVocab;

/* Who makes a file of colliding names shall not know it. */
uint64_t ts_vocab_salt(void);
uint64_t ts_vocab_hash(const char *s, size_t n, uint64_t salt);

/* Adds or changes a token; of two with one id the later is the id's. -1 with the error:
 * memory, or an id far above the number of tokens. */
int ts_vocab_add(TsVocab *v, const char *s, size_t n, int64_t id, TsError *err);
/* Its id, or -1. */
int32_t ts_vocab_find(const TsVocab *v, const char *s, size_t n);
int32_t ts_vocab_find_hashed(const TsVocab *v, const char *s, size_t n, uint64_t hash);
void ts_vocab_free(TsVocab *v);

#endif
