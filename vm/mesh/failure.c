/* See vm/mesh/failure.h. */
#include "vm/mesh/failure.h"

#include <stdio.h>
#include <string.h>

#include "devices/device.h"

static const char PART[] = ": in part ", MOVE[] = ": moving ";

static bool is_meant(const TsError *e) {
  return (e->code == TS_ERR_memory || e->code == TS_ERR_device) && !strstr(e->message, PART) &&
         !strstr(e->message, MOVE);
}

void ts_mesh_failed_bare(char *message) {
  char *at = strstr(message, PART);
  if (at) *at = 0;
  if ((at = strstr(message, MOVE))) *at = 0;
}

static const char *mesh_text(const TsMesh *m, char *text, size_t room) {
  size_t n = 0;
  text[0] = 0;
  for (int a = 0; a < m->naxis && n < room; a++)
    n += (size_t)snprintf(text + n, room - n, "%s%s=%d", a ? " " : "", m->axis[a], m->size[a]);
  return text;
}

static int hint(TsError *e) {
  if (e->code != TS_ERR_memory || e->hint[0]) return -1;
  return ts_error_hint(e, "split it along more axes of the mesh, or over more devices: "
                          "dist.inspect(x) shows who holds what");
}

int ts_mesh_failed_part(TsContext *c, TsOp op, const TsMesh *m, int p, const TsMeta *whole) {
  char was[sizeof c->err.message], a[TS_META_TEXT], axes[80];
  if (!is_meant(&c->err)) return -1;
  TsMeta part = *whole;
  if (ts_layout_of(whole)) part = ts_layout_part(ts_layout_of(whole), whole, p);
  const char *device = m->device[p] >= 0 ? ts_device_at(m->device[p])->name : "elsewhere";
  snprintf(was, sizeof was, "%s", c->err.message);
  snprintf(c->err.message, sizeof c->err.message,
           "%.260s%s%d of %s on %s: %s over %s, of which %s has %lld bytes", was, PART, p,
           ts_op_info(op)->name, device, ts_meta_text(whole, a),
           mesh_text(m, axes, sizeof axes), device, (long long)ts_meta_nbytes(&part));
  return hint(&c->err);
}

int ts_mesh_failed_move(TsContext *c, const TsMeta *from, const TsLayout *to) {
  char was[sizeof c->err.message], a[TS_META_TEXT], b[TS_META_TEXT], axes[80];
  if (!is_meant(&c->err)) return -1;
  TsMeta after = *from;
  after.layout = to->id, after.device = TS_DEVICE_MESH;
  int64_t most = 0;
  for (int p = 0; p < to->mesh->n; p++) {
    TsMeta part = ts_layout_part(to, &after, p);
    if (ts_layout_has(to, p) && ts_meta_nbytes(&part) > most) most = ts_meta_nbytes(&part);
  }
  snprintf(was, sizeof was, "%s", c->err.message);
  snprintf(c->err.message, sizeof c->err.message,
           "%.260s%s%s to %s over %s, %lld bytes a device", was, MOVE, ts_meta_text(from, a),
           ts_meta_text(&after, b), mesh_text(to->mesh, axes, sizeof axes), (long long)most);
  return hint(&c->err);
}
