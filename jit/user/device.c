/* Kernels that a program brings along, on devices with kernels of their own: the block form
 * as it was written, for the device's target. What a device cannot have, the CPU runs over
 * fetched bytes. */
#include <string.h>

#include "devices/device.h"
#include "ir/tile/copy.h"
#include "jit/eager/offload.h"
#include "jit/launch/launch.h"
#include "jit/launch/profile.h"
#include "jit/user/state.h"

TsTile *ts_user_tile_on(const TsUserKernel *u, const TsTarget *t, const int64_t *dim,
                        int64_t *fixed, TsError *err) {
  memset(fixed, -1, sizeof *fixed * TS_TILE_DIMS);
  TsTile *k = dim ? ts_user_sized(u, dim, fixed, err) : ts_tile_copy(u->tile, NULL, NULL, err);
  if (k) k->target = t->name;
  return k;
}

static TsDeviceKernel *open(const TsUserKernel *u, Compiled *p, const TsTarget *t,
                            const int64_t *dim) {
  TsTile *k = ts_user_tile_on(u, t, dim, p->dim, &p->why);
  TsDeviceKernel *on = k ? ts_device_kernel_open(p->device, k, &p->why) : NULL;
  if (on)
    p->tile = k;
  else
    ts_tile_free(k);
  return on;
}

/* Memory that failed may be there the next time; what cannot be compiled stays so. */
static void attempt(TsUserKernel *u, Compiled *p, const int64_t *dim) {
  const char *why;
  const TsTarget *t = ts_device_target(p->device, &why);
  ts_error_clear(&p->why);
  if (!t) {
    ts_error_set(&p->why, TS_ERR_device, "%s", why ? why : "the device has no kernels");
    return;
  }
  if (!u->sized_on) p->on = open(u, p, t, NULL);
  if (p->on || p->why.code == TS_ERR_memory) return;
  ts_error_clear(&p->why);
  p->on = open(u, p, t, dim);
  u->sized_on = u->sized_on || p->on;
}

static int arguments(TsUserKernel *u, TsDevice *d, TsTensor *const *in, TsTensor *const *out,
                     void **arg) {
  for (int i = 0; i < u->tile->nparam; i++) {
    int k = i - u->tile->nin;
    if (k >= 0 && !ts_meta_numel(&out[k]->meta)) {
      arg[i] = NULL;
    } else if (k < 0 ? !(arg[i] = ts_tensor_read_on(in[i], d->index))
                     : !(arg[i] = ts_tensor_write_on(out[k], d->index, true))) {
      return -1;
    }
  }
  return 0;
}

static bool writes(const TsUserKernel *u, TsTensor *const *out) {
  for (int i = 0; i < u->tile->nparam - u->tile->nin; i++)
    if (ts_meta_numel(&out[i]->meta)) return true;
  return false;
}

/* Bytes of the operands are touched, and counted. */
static double touch(TsUserKernel *u, TsContext *c, TsTensor *const *in, TsTensor *const *out,
                    void *const *arg) {
  double bytes = 0;
  for (int i = 0; i < u->tile->nparam; i++) {
    int k = i - u->tile->nin;
    const TsTensor *t = k < 0 ? in[i] : out[k];
    ts_launch_touch(c, t, arg[i], k >= 0);
    bytes += (double)ts_meta_nbytes(&t->meta);
  }
  return bytes;
}

int ts_user_run_on(TsUserKernel *u, TsContext *c, TsDevice *d, TsTensor *const *in,
                   TsTensor *const *out, const int64_t *dim) {
  bool known;
  void *arg[USER_PARAMS];
  if (!ts_offload_runs(c)) return 0;
  if (!writes(u, out)) return 1;
  if (ts_launch_flush(c)) return -1; /* a kernel that makes room may be in what was put off */
  Compiled *p = u->last = ts_user_find(u, c, d, dim, &known);
  if (!p->on && (!known || p->why.code == TS_ERR_memory)) attempt(u, p, dim);
  if (!p->on && p->why.code == TS_ERR_memory) return c->err = p->why, -1;
  if (ts_offload_own(c, d, p->on ? p->tile : u->tile, p->on ? NULL : p->why.message)) return -1;
  if (!p->on) return 0;
  if (arguments(u, d, in, out, arg)) return -1;
  double bytes = touch(u, c, in, out, arg);
  if (ts_profile_on()) ts_profile_label(u->tile->name, bytes, 0);
  return ts_launch(c, p->on, u->tile->nparam, arg, u->tile->ndim, dim) ? -1 : 1;
}
