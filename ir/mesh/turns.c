/* The schedules of pipelines. A place that has no backward pass to do takes the next micro-batch
 * forward, up to a number that depends on how many places come behind it; from then on it does one
 * of each in turn, and in the end what is left. With several chunks a place goes through as many
 * micro-batches as there are places, chunk by chunk. */
#include "ir/mesh/order.h"

static int chunks_of(const TsMeshHow *how, int nplace, int place) {
  int n = 0, all = how->chunks ? how->chunks : 1;
  for (int c = place; c < all; c += nplace) n++;
  return n;
}

int ts_turns_count(const TsMeshHow *how, int nplace, int place) {
  return 2 * how->micro * chunks_of(how, nplace, place);
}

/* Number i of the turns of one direction: micro-batches in groups, chunk by chunk. */
static TsTurn turn_at(const TsMeshHow *how, int nplace, int place, int i, TsPhase phase) {
  int n = chunks_of(how, nplace, place),
      group = how->turns == TS_TURNS_gpipe ? how->micro : nplace;
  int first = i / (group * n) * group;
  if (first + group > how->micro) group = how->micro - first;
  int rest = i - first * n, chunk = rest / group;
  if (phase == TS_PHASE_backward) chunk = n - 1 - chunk;
  return (TsTurn){phase, place + chunk * nplace, first + rest % group};
}

void ts_turns_fill(const TsMeshHow *how, int nplace, int place, TsTurn *turn) {
  int n = chunks_of(how, nplace, place), all = how->micro * n, f = 0, b = 0, at = 0;
  int ahead = nplace - place - 1;
  if (n > 1) ahead = 2 * ahead + (n - 1) * nplace;
  if (how->turns == TS_TURNS_gpipe || ahead > all) ahead = all;
  while (f < ahead) turn[at++] = turn_at(how, nplace, place, f++, TS_PHASE_forward);
  while (b < all) {
    if (f < all) turn[at++] = turn_at(how, nplace, place, f++, TS_PHASE_forward);
    turn[at++] = turn_at(how, nplace, place, b++, TS_PHASE_backward);
  }
}
