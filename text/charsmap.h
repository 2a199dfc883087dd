/* SentencePiece's compiled map of characters: strings that become others, found by a trie of
 * double arrays. */
#ifndef TS_TEXT_CHARSMAP_H
#define TS_TEXT_CHARSMAP_H

#include "text/line.h"

typedef struct TsCharsmap TsCharsmap;

/* Of its bytes in base64. NULL with the error. */
TsCharsmap *ts_charsmap_read(const char *base64, size_t n, TsError *err);
void ts_charsmap_free(TsCharsmap *m);
/* -1 with the error. `longest`: at each place the longest string that the map has, as
 * SentencePiece itself does; else by graphemes, as tokenizers does. */
int ts_charsmap_apply(const TsCharsmap *m, bool longest, const char *s, uint32_t n, TsEdit *e);

#endif
