#include "jit/persistent/persistent.h"
static void *open(TsDevice *d, const TsPersistent *p, int64_t *resident, TsError *err) {
  (void)p, (void)resident;
  ts_error_set(err, TS_ERR_device, "%s has no persistent kernels", d->name);
  return NULL;
}
const TsPersistentKind ts_persistent_nvidia = {.open = open};
