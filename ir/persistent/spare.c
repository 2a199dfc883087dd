/* Tasks that an earlier one has done: the same program over the same memory and sizes, of which
 * nobody has written anything since. Tables of angles, which each layer of a model would make
 * anew, are made once.
 *
 * Needs: tasks in their order. Keeps: what is in memory behind each task that stays. Gives how
 * many went. */
#include <string.h>

#include "ir/persistent/program.h"

/* Once more over its own results it would give others. */
static bool reads_its_own(const TsPersistentTask *t) {
  for (int i = 0; i < t->ntouch; i++)
    for (int k = 0; k < t->ntouch; k++)
      if (i != k && t->touch[i].write &&
          ts_persistent_overlap(t->touch[i].all, t->touch[k].all))
        return true;
  return false;
}

static bool same(const TsPersistentTask *a, const TsPersistentTask *b) {
  int nscratch = a->ntouch - a->k->nparam;
  return a->code == b->code && a->ntouch == b->ntouch && a->rounds == b->rounds &&
         !memcmp(a->arg, b->arg, sizeof *a->arg * (size_t)a->k->nparam) &&
         !memcmp(a->scratch, b->scratch, sizeof *a->scratch * (size_t)nscratch) &&
         !memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->k->ndim);
}

static bool writes_to(const TsPersistentTask *t, const TsPersistentTask *of) {
  for (int i = 0; i < t->ntouch; i++)
    for (int k = 0; k < of->ntouch; k++)
      if (t->touch[i].write && ts_persistent_overlap(t->touch[i].all, of->touch[k].all))
        return true;
  return false;
}

/* From the nearest back: who writes there in between is another task, or the same one once
 * more. */
static bool is_done(const TsPersistent *p, int n, const TsPersistentTask *t) {
  if (t->chained || t->ntouch > t->k->nparam || reads_its_own(t)) return false;
  for (int i = n; i-- > 0;) {
    if (same(&p->task[i], t)) return true;
    if (writes_to(&p->task[i], t)) return false;
  }
  return false;
}

int ts_persistent_spare(TsPersistent *p) {
  int n = 0, gone = 0;
  for (int i = 0; i < p->ntask; i++) {
    if (is_done(p, n, &p->task[i]))
      gone++;
    else
      p->task[n++] = p->task[i];
  }
  p->ntask = n;
  p->nspare += gone;
  return gone;
}
