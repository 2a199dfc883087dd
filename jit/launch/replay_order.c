/* See jit/launch/replay_order.h. */
#include "jit/launch/replay_order.h"

#include <stdlib.h>
#include <string.h>

static bool overlap(const TsAccess *x, const TsAccess *y) {
  return x->at < y->at + y->nbytes && y->at < x->at + x->nbytes;
}

bool ts_access_meet(const TsAccesses *a, const TsAccesses *b) {
  if (a->n < 0 || b->n < 0) return true;
  for (int i = 0; i < a->n; i++)
    for (int k = 0; k < b->n; k++)
      if ((a->of[i].write || b->of[k].write) && overlap(&a->of[i], &b->of[k])) return true;
  return false;
}

static bool append(TsReplayOrder *o, int *cap, int launch) {
  if (o->nwait == *cap) {
    int more = *cap ? 2 * *cap : 256;
    int *p = realloc(o->wait, sizeof *p * (size_t)more);
    if (!p) return false;
    o->wait = p, *cap = more;
  }
  o->wait[o->nwait++] = launch;
  return true;
}

/* From the nearest back; who is behind one that is waited for has been waited for. */
bool ts_replay_order(int n, const TsAccesses *a, TsReplayOrder *o) {
  int words = (n + 63) / 64, cap = 0;
  uint64_t *behind = calloc((size_t)n * (size_t)words + 1, sizeof *behind);
  *o = (TsReplayOrder){.n = n, .first = malloc(sizeof *o->first * ((size_t)n + 1))};
  bool whole = behind && o->first;
  for (int i = 0; i < n && whole; i++) {
    uint64_t *own = behind + (size_t)i * (size_t)words;
    o->first[i] = o->nwait;
    for (int k = i; k-- > 0 && whole;) {
      if ((own[k / 64] >> k % 64 & 1) || !ts_access_meet(&a[i], &a[k])) continue;
      const uint64_t *other = behind + (size_t)k * (size_t)words;
      for (int w = 0; w < words; w++) own[w] |= other[w];
      own[k / 64] |= 1ull << k % 64;
      whole = append(o, &cap, k);
    }
  }
  if (whole) o->first[n] = o->nwait;
  free(behind);
  if (!whole) ts_replay_order_free(o);
  return whole;
}

void ts_replay_order_free(TsReplayOrder *o) {
  free(o->first);
  free(o->wait);
  *o = (TsReplayOrder){.n = 0};
}
