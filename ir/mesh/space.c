/* See ir/mesh/space.h. */
#include "ir/mesh/space.h"

#include <stdlib.h>
#include <string.h>

/* The devices at a place, each so many times. */
static const TsMesh *lane(const TsMeshSpace *s, int place, int times, TsError *err) {
  const TsMesh *r = s->real;
  const char *axis[TS_MESH_AXES + 1];
  int size[TS_MESH_AXES + 1], naxis = r->naxis;
  int *part = malloc(sizeof *part * (size_t)s->n * (size_t)times);
  if (!part) return ts_error_memory(err), NULL;
  for (int a = 0; a < naxis; a++) axis[a] = r->axis[a], size[a] = a == s->axis ? 1 : r->size[a];
  if (times > 1) axis[naxis] = "micro", size[naxis++] = times;
  for (int p = 0; p < s->n; p++)
    for (int k = 0; k < times; k++) part[p * times + k] = ts_space_part(s, place, p);
  const TsMesh *m = NULL;
  if ((int64_t)s->n * times > TS_MESH_MOST)
    ts_error_set(err, TS_ERR_layout, "%d micro-batches on %d devices: %d parts at most", times,
                 s->n, TS_MESH_MOST);
  else
    m = ts_mesh_of(r, naxis, axis, size, part, err);
  free(part);
  return m;
}

int ts_space_open(TsMeshSpace *s, const TsMesh *real, const TsMeshHow *how, TsError *err) {
  *s = (TsMeshSpace){.real = real, .axis = -1, .micro = -1, .nplace = 1, .nmicro = 1};
  if (how && how->chunks) s->axis = how->axis, s->nplace = real->size[how->axis];
  if (how && how->micro > 1) s->nmicro = how->micro, s->micro = real->naxis;
  s->n = real->n / s->nplace;
  s->lane = calloc((size_t)s->nplace * 2, sizeof *s->lane);
  if (!s->lane) return ts_error_memory(err);
  s->at = s->lane + s->nplace;
  for (int i = 0; i < s->nplace; i++)
    if (!(s->at[i] = s->nplace > 1 || s->axis >= 0 ? lane(s, i, 1, err) : real) ||
        !(s->lane[i] = s->nmicro > 1 ? lane(s, i, s->nmicro, err) : s->at[i]))
      return -1;
  s->mesh = s->lane[0];
  return 0;
}

void ts_space_close(TsMeshSpace *s) {
  free(s->lane);
  s->lane = NULL;
}

int ts_space_part(const TsMeshSpace *s, int place, int p) {
  const TsMesh *r = s->real;
  int part = 0, unit = 1;
  for (int a = r->naxis; a-- > 0;) {
    int n = r->size[a], at = place;
    if (a != s->axis) at = p % n, p /= n;
    part += at * unit, unit *= n;
  }
  return part;
}

const TsLayout *ts_space_onto(const TsLayout *l, const TsMesh *m, TsError *err) {
  TsLayout made = *l;
  if (l->mesh == m && !ts_layout_pinned(l)) return l;
  made.mesh = m;
  memset(made.pin, 0, sizeof made.pin);
  return ts_layout_make(&made, err);
}

const TsLayout *ts_space_real(const TsMeshSpace *s, const TsLayout *l, int place,
                              TsError *err) {
  TsLayout made = *l;
  made.mesh = s->real;
  memset(made.pin, 0, sizeof made.pin);
  int d = ts_space_batch(s, l);
  if (d >= 0) made.naxis[d]--; /* micro-batches are its last axis */
  if (s->axis >= 0 && place >= 0) made.pin[s->axis] = (uint16_t)(place + 1);
  return ts_layout_make(&made, err);
}

int ts_space_batch(const TsMeshSpace *s, const TsLayout *l) {
  for (int d = 0; d < l->ndim && s->micro >= 0; d++)
    if (memchr(l->axis[d], s->micro, l->naxis[d])) return d;
  return -1;
}

bool ts_space_apart(const TsMeshSpace *s, const TsLayout *a, const TsLayout *b) {
  int d = ts_space_batch(s, a);
  return d >= 0 && d == ts_space_batch(s, b) && a->naxis[d] == b->naxis[d] &&
         a->block[d] == b->block[d] && a->leaves == b->leaves &&
         !memcmp(a->axis[d], b->axis[d], a->naxis[d]);
}
