/* What became of a text: tokens with their places. */
#ifndef TS_TEXT_ENCODING_H
#define TS_TEXT_ENCODING_H

#include "text/line.h"

enum { TS_NO_WORD = UINT32_MAX };

typedef struct TsItem {
  int32_t id;
  uint32_t type;     /* of the sequence */
  uint32_t from, to; /* bytes of the given text; both 0 for what was put in */
  uint32_t word;     /* its number in the text, or TS_NO_WORD */
  uint32_t lead,
      trail;    /* characters of white space at both ends of the token, where somebody asks */
  bool special; /* put in by a post-processor */
  uint8_t text; /* of which text `from` and `to` are: 0, or 1 for the second of a pair */
} TsItem;

/* Tokens in parts, one behind the other: those of a text, or what a post-processor put in. */
typedef struct TsEncoding {
  TsItem *at;
  uint32_t n, room;
  uint32_t *end; /* of each part */
  uint32_t nend, end_room;
} TsEncoding;

int ts_encoding_add(TsEncoding *e, TsItem item, TsError *err);
/* What stands behind the last part becomes one. */
int ts_encoding_part(TsEncoding *e, TsError *err);
void ts_encoding_clear(TsEncoding *e);
void ts_encoding_free(TsEncoding *e);

#endif
