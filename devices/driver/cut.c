/* Allocations of the driver that are cut into pieces, where it has no more of the size that is
 * wanted: the piece that fits best is handed out, what is left of it stays, and neighbours that
 * are free become one. So a program that nearly fills a GPU meets the driver, which waits for
 * all work when it gets memory back, only until its sizes have found their places. */
#include <stdlib.h>
#include <string.h>

#include "devices/driver/driver.h"

typedef struct Piece {
  uintptr_t at;
  int64_t nbytes;
  uint64_t used; /* when it became free, by the pool's clock; 0: handed out */
} Piece;

/* One allocation: its pieces by address, side by side. */
typedef struct Cut {
  int n, room;
  Piece *piece;
} Cut;

struct TsCuts {
  int n, room;
  Cut *cut; /* by address */
};

static uintptr_t begins(const Cut *c) { return c->piece[0].at; }
static uintptr_t ends(const Cut *c) {
  return c->piece[c->n - 1].at + (uintptr_t)c->piece[c->n - 1].nbytes;
}

/* Room for one more, doubled when it is used up; false: the host has none. */
static bool grow(void **list, int n, int *room, size_t size) {
  if (n < *room) return true;
  int more = *room ? 2 * *room : 8;
  void *at = realloc(*list, (size_t)more * size);
  if (!at) return false;
  *list = at, *room = more;
  return true;
}

TsCuts *ts_cuts_new(void) { return calloc(1, sizeof(TsCuts)); }

bool ts_cuts_add(TsCuts *s, uintptr_t at, int64_t nbytes, uint64_t used) {
  void *list = s->cut, *piece = NULL;
  Cut new = {1, 0, NULL};
  bool whole = grow(&list, s->n, &s->room, sizeof *s->cut);
  s->cut = list;
  if (!whole || !grow(&piece, 0, &new.room, sizeof *new.piece)) return false;
  new.piece = piece, new.piece[0] = (Piece){at, nbytes, used};
  int i = s->n++;
  for (; i > 0 && begins(&s->cut[i - 1]) > at; i--) s->cut[i] = s->cut[i - 1];
  s->cut[i] = new;
  return true;
}

/* Piece i without what is behind its first nbytes, which is a piece of its own. */
static bool cut_off(Cut *c, int i, int64_t nbytes) {
  void *list = c->piece;
  bool whole = grow(&list, c->n, &c->room, sizeof *c->piece);
  c->piece = list;
  if (!whole) return false;
  memmove(c->piece + i + 1, c->piece + i, (size_t)(c->n++ - i) * sizeof *c->piece);
  c->piece[i].nbytes = nbytes;
  c->piece[i + 1].at += (uintptr_t)nbytes, c->piece[i + 1].nbytes -= nbytes;
  return true;
}

bool ts_cuts_take(TsCuts *s, int64_t nbytes, uintptr_t *at, uint64_t *used) {
  Cut *in = NULL;
  int best = 0;
  for (Cut *c = s->cut; c < s->cut + s->n; c++)
    for (int i = 0; i < c->n; i++)
      if (c->piece[i].used && c->piece[i].nbytes >= nbytes &&
          (!in || c->piece[i].nbytes < in->piece[best].nbytes))
        in = c, best = i;
  if (!in || (in->piece[best].nbytes > nbytes && !cut_off(in, best, nbytes))) return false;
  *at = in->piece[best].at, *used = in->piece[best].used;
  in->piece[best].used = 0;
  return true;
}

/* The cut that an address lies in, or NULL. */
static Cut *cut_of(TsCuts *s, uintptr_t at) {
  int lo = 0, hi = s->n;
  while (lo < hi) {
    int mid = (lo + hi) / 2;
    if (begins(&s->cut[mid]) <= at)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo && at < ends(&s->cut[lo - 1]) ? &s->cut[lo - 1] : NULL;
}

/* Piece i and the one behind it are one. */
static void join(Cut *c, int i) {
  Piece *a = &c->piece[i];
  if (i < 0 || i + 1 >= c->n || !a[0].used || !a[1].used) return;
  a[0].nbytes += a[1].nbytes;
  if (a[1].used > a[0].used) a[0].used = a[1].used;
  memmove(a + 1, a + 2, (size_t)(--c->n - i - 1) * sizeof *a);
}

bool ts_cuts_give(TsCuts *s, uintptr_t at, uint64_t now, uintptr_t *whole, int64_t *nbytes) {
  Cut *c = cut_of(s, at);
  *nbytes = 0;
  if (!c) return false;
  int i = 0;
  while (i < c->n && c->piece[i].at != at) i++;
  if (i == c->n || c->piece[i].used)
    TS_BUG("the GPU's block %llx is none", (unsigned long long)at);
  c->piece[i].used = now;
  join(c, i);
  join(c, i - 1);
  if (c->n > 1) return true;
  *whole = c->piece[0].at, *nbytes = c->piece[0].nbytes;
  free(c->piece);
  memmove(c, c + 1, (size_t)(s->cut + --s->n - c) * sizeof *c);
  return true;
}
