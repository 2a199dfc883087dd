/* AMD GPUs as devices, by HIP (driver.h has what is no matter of the maker's). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/driver/hip_api.h"

static char none[120];
static TsDriven gpu[TS_MAX_DEVICES];

int ts_hip_count(const char **why) {
  *why = ts_hip_load();
  if (*why) return 0;
  int n = 0, code = ts_hip_driver.count(&n);
  if (!code && n > 0) return n;
  snprintf(none, sizeof none, "the AMD driver works, but shows no GPU (hipGetDeviceCount: %d)",
           code);
  *why = none;
  return 0;
}

static int attribute(const TsDriven *s, int which) {
  int value = 0;
  ts_hip_driver.attribute(&value, which, s->device);
  return value;
}

/* The processor's name, "gfx942" of "gfx942:sramecc+:xnack-", is in a struct alone, whose
 * layout changed from version to version: it is the only word in it that begins so. */
static void find_code(TsDriven *s) {
  enum { ROOM = 8192 };
  static char properties[ROOM]; /* much more than any version has */
  memset(properties, 0, ROOM);
  if (ts_hip.properties(properties, s->device)) return;
  const char *at = memmem(properties, ROOM - 32, "gfx", 3);
  size_t n = 3;
  while (at && isxdigit((unsigned char)at[n]) && n + 1 < sizeof s->code) n++;
  if (at && (!at[n] || at[n] == ':')) memcpy(s->code, at, n), s->code[n] = 0;
}

/* Its own row, or the one of all of its family: gfx908 is of none. */
static const TsTarget *target_of(const char *code) {
  static const struct {
    const char *begin, *target; /* the first that fits */
  } family[] = {
      {"gfx94", "gfx9-4-generic"}, {"gfx950", "gfx9-4-generic"}, {"gfx900", "gfx9-generic"},
      {"gfx902", "gfx9-generic"},  {"gfx904", "gfx9-generic"},   {"gfx906", "gfx9-generic"},
      {"gfx909", "gfx9-generic"},  {"gfx90c", "gfx9-generic"},   {"gfx103", "gfx10-3-generic"},
      {"gfx11", "gfx11-generic"},  {"gfx120", "gfx12-generic"}};
  const TsTarget *t = ts_target(code);
  for (size_t i = 0; i < sizeof family / sizeof *family && !t; i++)
    if (!strncmp(code, family[i].begin, strlen(family[i].begin)))
      t = ts_target(family[i].target);
  return t;
}

void ts_hip_device(TsDevice *d) {
  int number = atoi(strchr(d->name, ':') + 1);
  TsDriven *s = &gpu[number];
  d->state = s;
  s->driver = &ts_hip_driver;
  ts_hip_driver.device(&s->device, number);
  if (ts_hip_driver.model(s->model, sizeof s->model, s->device) || !s->model[0])
    snprintf(s->model, sizeof s->model, "AMD GPU");
  find_code(s);
  if (!s->code[0]) snprintf(s->code, sizeof s->code, "of no name");
  s->processors = attribute(s, HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  s->khz = attribute(s, HIP_ATTRIBUTE_CLOCK_RATE);
  ts_hip_driver.total(&s->total, s->device);
  ts_hip_driver.version(&d->driver);
  d->target = target_of(s->code);
  d->bandwidth = 2e3 * attribute(s, HIP_ATTRIBUTE_MEMORY_CLOCK_RATE) *
                 attribute(s, HIP_ATTRIBUTE_MEMORY_BUS_WIDTH) / 8;
  ts_driver_device(d);
  d->run = &ts_hip_run;
}
