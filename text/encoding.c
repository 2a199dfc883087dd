/* Growing lists of tokens. */
#include "text/encoding.h"

#include <stdlib.h>

int ts_encoding_add(TsEncoding *e, TsItem item, TsError *err) {
  if (e->n == e->room) {
    uint32_t room = e->room ? e->room * 2 : 256;
    TsItem *at = realloc(e->at, room * sizeof *at);
    if (!at) return ts_error_memory(err);
    e->at = at;
    e->room = room;
  }
  e->at[e->n++] = item;
  return 0;
}

int ts_encoding_part(TsEncoding *e, TsError *err) {
  if (e->nend == e->end_room) {
    uint32_t room = e->end_room ? e->end_room * 2 : 8;
    uint32_t *end = realloc(e->end, room * sizeof *end);
    if (!end) return ts_error_memory(err);
    e->end = end;
    e->end_room = room;
  }
  e->end[e->nend++] = e->n;
  return 0;
}

void ts_encoding_clear(TsEncoding *e) { e->n = e->nend = 0; }

void ts_encoding_free(TsEncoding *e) {
  free(e->at);
  free(e->end);
  *e = (TsEncoding){0};
}
