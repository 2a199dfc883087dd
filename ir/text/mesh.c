/* See ir/text/mesh.h. */
#include "ir/text/mesh.h"

#include <stdlib.h>
#include <string.h>

#include "devices/device.h"
#include "ir/text/value.h"
#include "net/world.h"

void ts_text_mesh(TsText *t, const TsMesh *m, int leaves) {
  bool there = false;
  ts_text_str(t, "mesh {");
  for (int a = 0; a < m->naxis; a++)
    ts_text_format(t, "%s%s=%d", a ? " " : "", m->axis[a], m->size[a]);
  ts_text_char(t, '}');
  if (leaves) ts_text_format(t, " leaves %d", leaves);
  for (int p = 0; p < m->n; p++) there |= m->index[p] >= 0;
  for (int p = 0; p < m->n && there; p++) {
    ts_text_format(t, "%s%d", p ? "," : " on [", m->index[p]);
    if (m->rank[p] >= 0) ts_text_format(t, "@%d", m->rank[p]);
  }
  ts_text_str(t, there ? "]\n" : "\n");
}

static int read_number(TsReader *r, int least, int most, int *out) {
  int64_t n;
  const char *at = r->now.at;
  if (ts_read_size(r, &n)) return -1;
  if (n < least || n > most)
    return ts_read_fail(r, at, "a number from %d to %d stands here", least, most);
  *out = (int)n;
  return 0;
}

typedef struct Head {
  char name[TS_MESH_AXES][16];
  const char *axis[TS_MESH_AXES];
  int size[TS_MESH_AXES], naxis, n, device[TS_MESH_MOST], rank[TS_MESH_MOST];
  bool ranks; /* of a job of several processes */
} Head;

static int read_axes(TsReader *r, Head *h) {
  if (ts_read_expect(r, '{', "'{' and the axes of the mesh")) return -1;
  for (h->n = 1; r->now.kind != '}'; h->naxis++) {
    TsToken t = r->now;
    if (t.kind != TS_TOKEN_word) return ts_read_unexpected(r, "an axis of the mesh or '}'");
    if (h->naxis == TS_MESH_AXES || t.len > 15)
      return ts_read_fail(r, t.at, "a mesh has at most %d axes, of names of 15 letters",
                          TS_MESH_AXES);
    memcpy(h->name[h->naxis], t.at, (size_t)t.len);
    h->name[h->naxis][t.len] = 0;
    h->axis[h->naxis] = h->name[h->naxis];
    ts_read_next(r);
    if (ts_read_expect(r, '=', "'=' and a size") ||
        read_number(r, 1, TS_MESH_MOST, &h->size[h->naxis]))
      return -1;
    if (h->n > TS_MESH_MOST / h->size[h->naxis])
      return ts_read_fail(r, t.at, "a mesh has at most %d devices", TS_MESH_MOST);
    h->n *= h->size[h->naxis];
  }
  return ts_read_next(r);
}

/* The "@2" behind a number: whose device it is. */
static int read_rank(TsReader *r, Head *h, int n) {
  h->rank[n] = -1;
  if (r->now.kind != TS_TOKEN_symbol) return 0;
  const char *digits = r->now.at + 1;
  char *end;
  long rank = r->now.len > 1 ? strtol(digits, &end, 10) : -1;
  if (rank < 0 || rank > 1 << 20 || end != r->now.at + r->now.len)
    return ts_read_fail(r, r->now.at, "a rank stands here, as @1");
  h->rank[n] = (int)rank, h->ranks = true;
  return ts_read_next(r);
}

/* Whether this job has the device. */
static bool is_there(const Head *h, int n) {
  if (h->rank[n] < 0) return h->device[n] < ts_device_count();
  return ts_world_size() > 1 && h->rank[n] < ts_world_size();
}

/* A machine that has fewer devices plans with all of them. */
static int read_devices(TsReader *r, Head *h) {
  const char *at = r->now.at;
  bool there = true;
  int n = 0;
  ts_read_next(r);
  if (ts_read_expect(r, '[', "'[' and numbers of devices")) return -1;
  while (r->now.kind != ']') {
    if (n == h->n) return ts_read_fail(r, at, "more than %d devices", h->n);
    if (read_number(r, 0, TS_DEVICE_MESH - 1, &h->device[n])) return -1;
    if (read_rank(r, h, n)) return -1;
    there &= is_there(h, n++);
    if (!ts_read_accept(r, ',')) break;
  }
  if (n != h->n) return ts_read_fail(r, at, "%d devices for a mesh of %d", n, h->n);
  for (int p = 0; p < h->n && !there; p++) h->device[p] = h->rank[p] = -1;
  h->ranks &= there;
  return ts_read_expect(r, ']', "',' or ']'");
}

int ts_read_mesh(TsReader *r) {
  TsToken t = r->now;
  int leaves = 0;
  if (!ts_read_is_word(r, "mesh")) return 0;
  Head *h = ts_arena_alloc(r->arena, sizeof *h);
  if (!h) return ts_read_no_memory(r);
  memset(h, 0, sizeof *h);
  ts_read_next(r);
  if (read_axes(r, h)) return -1;
  if (ts_read_is_word(r, "leaves")) {
    ts_read_next(r);
    if (read_number(r, 1, TS_LEAVES_MOST, &leaves)) return -1;
  }
  for (int p = 0; p < h->n; p++) h->device[p] = -1;
  if (ts_read_is_word(r, "on") && read_devices(r, h)) return -1;
  if (r->failed) return -1;
  if (!(r->mesh = ts_mesh_make(h->naxis, h->axis, h->size, h->device, h->ranks ? h->rank : NULL,
                               ts_world_rank(), r->err)))
    return ts_read_blame(r, t.at);
  r->leaves = leaves;
  return 0;
}

static int read_axis(TsReader *r, TsLayout *l, int d, const char *name, int len) {
  if (!r->mesh)
    return ts_read_fail(r, name, "no mesh stands before the graph: mesh {%.*s=2}", len, name);
  int a = ts_mesh_axis(r->mesh, name, len);
  if (a < 0) return ts_read_fail(r, name, "the mesh has no axis %.*s", len, name);
  for (int e = 0; e < TS_MAX_RANK; e++)
    if (memchr(l->axis[e], a, l->naxis[e]))
      return ts_read_fail(r, name, "mesh axis %.*s splits two axes", len, name);
  if (l->partial >> a & 1)
    return ts_read_fail(r, name, "mesh axis %.*s stands twice", len, name);
  l->mesh = r->mesh, l->leaves = r->leaves;
  if (d < 0)
    l->partial |= (uint8_t)(1u << a);
  else
    l->axis[d][l->naxis[d]++] = (uint8_t)a;
  return ts_read_next(r);
}

/* "@tp*(dp)": what stands in parentheses splits how it is kept. */
int ts_read_split(TsReader *r, TsLayout *l, int d) {
  if (r->now.kind != TS_TOKEN_symbol && r->now.kind != '@') return 0;
  bool named = r->now.kind == TS_TOKEN_symbol, kept = false;
  if (named && read_axis(r, l, d, r->now.at + 1, r->now.len - 1)) return -1;
  if (!named && ts_read_next(r)) return -1;
  while (!named || ts_read_accept(r, '*')) {
    if (!kept && ts_read_accept(r, '(')) kept = true;
    if (r->now.kind != TS_TOKEN_word || (!named && !kept))
      return ts_read_unexpected(r, "an axis of the mesh");
    if (read_axis(r, l, d, r->now.at, r->now.len)) return -1;
    if (kept) l->stored |= (uint8_t)(1u << l->axis[d][l->naxis[d] - 1]);
    named = true;
  }
  if (kept && ts_read_expect(r, ')', "')'")) return -1;
  if (!ts_read_accept(r, '/')) return r->failed ? -1 : 0;
  const char *at = r->now.at;
  if (ts_read_size(r, &l->block[d])) return -1;
  return l->block[d] > 0 ? 0 : ts_read_fail(r, at, "a block has 1 element at least");
}

int ts_read_summands(TsReader *r, TsLayout *l) {
  while (ts_read_is_word(r, "sum") && r->now.at[3] == '@') {
    ts_read_next(r);
    if (r->now.kind != TS_TOKEN_symbol) return ts_read_unexpected(r, "an axis of the mesh");
    if (read_axis(r, l, -1, r->now.at + 1, r->now.len - 1)) return -1;
  }
  while (r->mesh && r->now.kind == TS_TOKEN_word && r->now.at[r->now.len] == '=') {
    int a = ts_mesh_axis(r->mesh, r->now.at, r->now.len), place = 0;
    if (a < 0)
      return ts_read_fail(r, r->now.at, "the mesh has no axis %.*s", r->now.len, r->now.at);
    ts_read_next(r);
    if (ts_read_expect(r, '=', "'=' and a place") ||
        read_number(r, 0, r->mesh->size[a] - 1, &place))
      return -1;
    l->mesh = r->mesh, l->leaves = r->leaves, l->pin[a] = (uint16_t)(place + 1);
  }
  return 0;
}
