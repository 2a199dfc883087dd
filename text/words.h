/* Words that were seen before, with their tokens. */
#ifndef TS_TEXT_WORDS_H
#define TS_TEXT_WORDS_H

#include "text/model.h"

typedef struct TsWords TsWords;

/* NULL: no memory. */
TsWords *ts_words_new(void);
void ts_words_free(TsWords *w);

/* Whether the word is known; its tokens are then behind those in `to`. -1 with the error. */
int ts_words_find(const TsWords *w, uint64_t hash, const char *s, uint32_t n, TsTokens *to,
                  TsError *err);
/* Long words and words with many tokens are not kept. */
void ts_words_keep(TsWords *w, uint64_t hash, const char *s, uint32_t n, const TsToken *t,
                   uint32_t nt);

#endif
