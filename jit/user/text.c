/* A kernel that a program brings along, at every level, for the CPU, for a device, or for a target
 * that the machine does not have. */
#include <string.h>

#include "ir/tile/copy.h"
#include "ir/tile/text.h"
#include "jit/build/build.h"
#include "jit/compile/llvm.h"
#include "jit/jit.h"
#include "jit/level.h"
#include "jit/user/state.h"

/* What the text is for: the device that ran it last, if one did, or, device NULL, a target. */
typedef struct Place {
  const TsDevice *device;
  const TsTarget *target;
} Place;

static Place place_of(const TsUserKernel *u, TsContext *c, const char *level, TsError *err) {
  const Compiled *p = u->last;
  if (p && p->on) return (Place){p->device, ts_target_of(p->device)};
  /* Passes to explicit form need a target's numbers but no code generator. */
  bool code = !strcmp(level, "llvm") || !strcmp(level, "asm");
  Place own = {.target = code ? ts_user_target(c, err) : ts_jit_target(c->k->isa)};
  if (!own.target && !err->code)
    ts_error_set(err, TS_ERR_device, "there are no vectors on this processor");
  return own;
}

static TsTile *tile_for(const TsUserKernel *u, Place at, const int64_t *dim, TsError *err) {
  int64_t fixed[TS_TILE_DIMS];
  return ts_user_tile_on(u, at.target, dim, fixed, err);
}

static int text_for(const TsUserKernel *u, Place at, const int64_t *dim, const char *level,
                    TsText *text, TsError *err) {
  TsTile *k = tile_for(u, at, dim, err);
  int failed = k ? ts_build_kernel_text(NULL, at.target, k, level, text, err) : -1;
  ts_tile_free(k);
  return failed;
}

int ts_user_kernel_text(const TsUserKernel *u, TsContext *c, const char *level,
                        const TsTarget *target, TsText *text, TsError *err) {
  if (ts_level_check(TS_LEVEL_kernel, level, target, err)) return -1;
  const Compiled *p = u->last;
  bool written = !strcmp(level, "tile") && !target && !(p && p->on);
  if (written) return ts_tile_text_places(u->tile, text), 0;
  Place at = target ? (Place){.target = target} : place_of(u, c, level, err);
  if (!at.target) return -1;
  if (at.device) return ts_build_kernel_text(at.device, at.target, p->tile, level, text, err);
  bool sized = ts_target_gpu(at.target) ? u->sized_on : u->sized;
  if (!sized && !text_for(u, at, NULL, level, text, err)) return 0;
  if (err->code == TS_ERR_memory) return -1;
  if (!u->called && *err->hint) return -1;
  if (!u->called) return ts_error_hint(err, "call it first: then its sizes are known");
  ts_error_clear(err);
  return text_for(u, at, u->seen, level, text, err);
}
