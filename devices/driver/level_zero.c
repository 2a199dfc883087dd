/* Intel's GPUs as devices, by Level Zero (driver.h has what is no matter of the maker's). A GPU
 * of several tiles is as many devices, since each tile has memory of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/driver/level_zero_api.h"
#include "devices/driver/spirv.h"

static char none[160];
static TsZe gpu[TS_MAX_DEVICES];
static int ngpu;

/* ---- what there is. Lists are asked for their length before: drivers differ in what they say
 * of one that is longer than what they have. */
static uint32_t at_most(uint32_t n, uint32_t most) { return n < most ? n : most; }

static int compute_group(void *device) {
  ZeQueueGroup group[16];
  uint32_t n = 0;
  if (ts_ze.zeDeviceGetCommandQueueGroupProperties(device, &n, NULL)) return -1;
  n = at_most(n, sizeof group / sizeof *group);
  for (uint32_t i = 0; i < n; i++)
    group[i] = (ZeQueueGroup){.head = {ZE_TYPE_QUEUE_GROUP, NULL}};
  if (ts_ze.zeDeviceGetCommandQueueGroupProperties(device, &n, group)) return -1;
  for (uint32_t i = 0; i < n; i++)
    if (group[i].flags & ZE_GROUP_COMPUTE && group[i].queues) return (int)i;
  return -1;
}

static void add(void *driver, void *context, void *device) {
  TsZe *s = &gpu[ngpu];
  uint32_t version = 0;
  int compute = compute_group(device);
  if (ngpu == TS_MAX_DEVICES || compute < 0) return;
  *s = (TsZe){.driver = driver, .context = context, .device = device};
  s->properties.head.type = ZE_TYPE_DEVICE;
  if (ts_ze.zeDeviceGetProperties(device, &s->properties)) return;
  if (s->properties.type != ZE_DEVICE_TYPE_GPU) return;
  ts_ze.zeDriverGetApiVersion(driver, &version);
  s->in_order = version >= ZE_VERSION_IN_ORDER;
  s->compute = (uint32_t)compute;
  s->of.driver = &ts_ze_driver, s->of.device = ngpu++;
}

static void add_with_parts(void *driver, void *context, void *device) {
  void *part[TS_MAX_DEVICES];
  uint32_t n = 0;
  if (ts_ze.zeDeviceGetSubDevices(device, &n, NULL)) n = 0;
  n = at_most(n, TS_MAX_DEVICES);
  if (n && ts_ze.zeDeviceGetSubDevices(device, &n, part)) n = 0;
  for (uint32_t i = 0; i < n; i++) add(driver, context, part[i]);
  if (!n) add(driver, context, device);
}

static void look(void) {
  void *driver[8], *device[TS_MAX_DEVICES], *context;
  uint32_t n = 0;
  ZeResult code = ts_ze.zeDriverGet(&n, NULL);
  n = at_most(n, sizeof driver / sizeof *driver);
  if (!code) code = ts_ze.zeDriverGet(&n, driver);
  for (uint32_t i = 0; i < n && !code; i++) {
    ZeContextDesc desc = {{ZE_TYPE_CONTEXT_DESC, NULL}, 0};
    uint32_t m = 0;
    if (ts_ze.zeDeviceGet(driver[i], &m, NULL) || !m) continue;
    m = at_most(m, TS_MAX_DEVICES);
    if (ts_ze.zeDeviceGet(driver[i], &m, device)) continue;
    if (ts_ze.zeContextCreate(driver[i], &desc, &context)) continue;
    for (uint32_t k = 0; k < m; k++) add_with_parts(driver[i], context, device[k]);
  }
  snprintf(none, sizeof none, "Level Zero works, but shows no GPU (zeDriverGet: 0x%x)",
           (unsigned)code);
}

int ts_level_zero_count(const char **why) {
  static bool done;
  *why = ts_ze_load();
  if (*why) return 0;
  if (!done) look();
  done = true;
  *why = ngpu ? NULL : none;
  return ngpu;
}

/* ---- one device */
static bool has_groups(const ZeComputeProperties *c, uint32_t lanes) {
  for (uint32_t i = 0; i < c->nsubgroup && i < 8; i++)
    if (c->subgroup[i] == lanes) return true;
  return false;
}

static bool has_extension(void *driver, const char *name) {
  uint32_t n = 0;
  bool has = false;
  if (ts_ze.zeDriverGetExtensionProperties(driver, &n, NULL) || !n) return false;
  ZeExtension *list = calloc(n, sizeof *list);
  if (list && !ts_ze.zeDriverGetExtensionProperties(driver, &n, list))
    for (uint32_t i = 0; i < n; i++) has |= !strncmp(list[i].name, name, sizeof list[i].name);
  free(list);
  return has;
}

/* Which matrices, and of which sizes, no query tells: whether the compiler takes those that
 * kernels have. */
static bool takes_probe(TsZe *s) {
  uint32_t word[TS_SPIRV_PROBE_WORDS];
  void *module = NULL, *log = NULL;
  ZeModuleDesc desc = {.head = {ZE_TYPE_MODULE_DESC, NULL},
                       .format = ZE_MODULE_SPIRV,
                       .nbytes = ts_spirv_probe(word),
                       .code = (const void *)word,
                       .options = ""};
  bool takes = !ts_ze.zeModuleCreate(s->context, s->device, &desc, &module, &log);
  if (log) ts_ze.zeModuleBuildLogDestroy(log);
  if (takes) ts_ze.zeModuleDestroy(module);
  return takes;
}

static const TsTarget *target_of(TsZe *s) {
  ZeComputeProperties c = {.head = {ZE_TYPE_COMPUTE, NULL}};
  bool said = has_extension(s->driver, ZE_DOT_PRODUCTS);
  ZeDotProperties dot = {.head = {ZE_TYPE_DOT_PRODUCTS, NULL}};
  ZeModuleProperties m = {.head = {ZE_TYPE_MODULE_PROPERTIES, said ? &dot : NULL}};
  enum { WARP = 32, LANES = 16 };
  if (ts_ze.zeDeviceGetComputeProperties(s->device, &c) ||
      ts_ze.zeDeviceGetModuleProperties(s->device, &m) || !m.spirv)
    return NULL;
  s->f64 = m.flags & ZE_HAS_FP64;
  bool dpas = dot.flags & ZE_HAS_DPAS; /* what multiplies cooperative matrices as well */
  TsSpirvDevice d = {.f64 = s->f64,
                     .half = m.flags & ZE_HAS_FP16,
                     .warps = has_groups(&c, WARP),
                     .no_dpas = said && !dpas,
                     .cooperative = !s->f64 && dpas && has_groups(&c, LANES) && takes_probe(s),
                     .shared = c.shared,
                     .threads = c.threads};
  return ts_spirv_target(&d);
}

/* All of its memories; the bandwidth of the first. */
static void find_memory(TsDevice *d, TsZe *s) {
  ZeMemoryProperties m[4];
  uint32_t n = 0;
  memset(m, 0, sizeof m);
  if (ts_ze.zeDeviceGetMemoryProperties(s->device, &n, NULL)) n = 0;
  n = at_most(n, sizeof m / sizeof *m);
  for (uint32_t i = 0; i < n; i++) m[i].head.type = ZE_TYPE_MEMORY;
  if (n && ts_ze.zeDeviceGetMemoryProperties(s->device, &n, m)) n = 0;
  for (uint32_t i = 0; i < n; i++) s->of.total += m[i].total;
  if (n) d->bandwidth = 1e6 * m[0].clock * m[0].width / 8;
}

void ts_level_zero_device(TsDevice *d) {
  TsZe *s = &gpu[atoi(strchr(d->name, ':') + 1)];
  const ZeDeviceProperties *p = &s->properties;
  ZeDriverProperties driver = {.head = {ZE_TYPE_DRIVER, NULL}};
  d->state = s;
  memcpy(s->of.model, p->name, sizeof s->of.model - 1);
  s->of.processors = (int)(p->slices * p->subslices);
  s->of.khz = (int)p->clock * 1000;
  s->of.total = 0;
  find_memory(d, s);
  d->target = target_of(s);
  snprintf(s->of.code, sizeof s->of.code, "code of %s", d->target ? d->target->name : "none");
  if (!ts_ze.zeDriverGetProperties(s->driver, &driver)) d->driver = (int)driver.version;
  d->no_clock = "Level Zero does not say whether code may have ShaderClockKHR of SPIR-V";
  ts_driver_device(d);
  d->run = &ts_ze_run;
}
