/* Lines, pieces, and changes of them. */
#include "text/line.h"

#include <stdlib.h>
#include <string.h>

int ts_line_room(TsLine *l, size_t n) {
  if (n <= l->room - l->n) return 0;
  if (n > l->most - l->n) {
    ts_error_set(l->err, TS_ERR_value, "the text becomes longer than %u bytes", l->most);
    return ts_error_hint(l->err, "a normalizer or pre-tokenizer makes much of little");
  }
  size_t room = l->room ? (size_t)l->room * 2 : 256;
  if (room < l->n + n) room = l->n + n;
  if (room > l->most) room = l->most;
  char *s = realloc(l->s, room);
  if (!s) return ts_error_memory(l->err);
  l->s = s;
  if (l->track) {
    TsSpan *at = realloc(l->at, room * sizeof *at);
    if (!at) return ts_error_memory(l->err);
    l->at = at;
  }
  l->room = (uint32_t)room;
  return 0;
}

int ts_line_add(TsLine *l, const char *s, const TsSpan *at, size_t n) {
  if (!n) return 0;
  if (ts_line_room(l, n)) return -1;
  memcpy(l->s + l->n, s, n);
  if (l->track) memcpy(l->at + l->n, at, n * sizeof *at);
  l->n += (uint32_t)n;
  return 0;
}

void ts_line_free(TsLine *l) {
  free(l->s);
  free(l->at);
  *l = (TsLine){0};
}

int ts_pieces_add(TsPieces *p, TsPiece piece, TsError *err) {
  if (!piece.n) return 0;
  if (p->n == p->room) {
    uint32_t room = p->room ? p->room * 2 : 64;
    TsPiece *at = realloc(p->at, room * sizeof *at);
    if (!at) return ts_error_memory(err);
    p->at = at;
    p->room = room;
  }
  p->at[p->n++] = piece;
  return 0;
}

static void skip(TsEdit *e, uint32_t count) {
  for (; count && e->read < e->n; count--) e->read += ts_char_len((unsigned char)e->s[e->read]);
}

void ts_edit_begin(TsEdit *e, TsLine *to, const char *s, const TsSpan *at, uint32_t n,
                   uint32_t origin, uint32_t removed) {
  *e = (TsEdit){s, at, n, origin, 0, to, false};
  /* What was inserted in front of everything belongs to no byte of the given text, and
   * stays. */
  if (to->track) {
    uint32_t front = 0;
    while (front < n && at[front].from == at[front].to) front++;
    e->failed = ts_line_add(to, s, at, front) != 0;
    e->read = front;
  }
  skip(e, removed);
}

void ts_edit_put(TsEdit *e, uint32_t c, int change) {
  TsLine *to = e->to;
  if (e->failed || (to->room - to->n < 4 && ts_line_room(to, 4))) {
    e->failed = true;
    return;
  }
  uint32_t len = ts_char_put(to->s + to->n, c);
  if (to->track) {
    TsSpan at = {e->origin, e->origin};
    if (change <= 0 && e->read < e->n)
      at = e->at[e->read];
    else if (e->read)
      at = e->at[e->read - 1];
    for (uint32_t i = 0; i < len; i++) to->at[to->n + i] = at;
  }
  to->n += len;
  if (change <= 0) skip(e, 1 + (uint32_t)-change);
}

int ts_edit_end(TsEdit *e) { return e->failed ? -1 : 0; }
