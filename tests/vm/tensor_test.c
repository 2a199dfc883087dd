/* Storages: their memory comes back whole, and their bytes move only when needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/device.h"
#include "devices/memory.h"
#include "vm/core/scratch.h"
#include "vm/core/vm.h"
#include "vm/drive/index.h"

static int failures;
#define CHECK(x)                                                                               \
  ((x) ? (void)0 : (void)(failures++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

static TsTensor *vector(TsContext *c, int64_t n) {
  TsMeta m = {.dtype = TS_DT_f32, .ndim = 1, .dim = {n}};
  return ts_tensor_new(c, &m);
}

/* A header and a data block may be neighbours in one chunk: each must still go back
 * to its own size class. */
static void test_sizes(TsContext *c) {
  int64_t before = ts_memory_stats().live;
  for (int64_t n = 0; n < 20000; n += n < 1100 ? 1 : 97) {
    TsTensor *t[3];
    for (int i = 0; i < 3; i++) t[i] = vector(c, n);
    for (int i = 0; i < 3; i++) memset(ts_tensor_write(t[i]), i, (size_t)n * 4);
    for (int i = 0; i < 3 && n; i++) CHECK(((char *)ts_tensor_read(t[i]))[n * 4 - 1] == i);
    for (int i = 0; i < 3; i++) ts_tensor_unref(t[i]);
    CHECK(ts_memory_stats().live == before);
  }
  CHECK(c->live_bytes == 0);
}

static int64_t uploads, downloads;
static int (*real_upload)(TsDevice *, void *, const void *, int64_t, TsError *);
static int (*real_download)(TsDevice *, void *, const void *, int64_t, TsError *);

static int count_upload(TsDevice *d, void *to, const void *from, int64_t n, TsError *err) {
  uploads++;
  return real_upload(d, to, from, n, err);
}

static int count_download(TsDevice *d, void *to, const void *from, int64_t n, TsError *err) {
  downloads++;
  return real_download(d, to, from, n, err);
}

static void test_residency(TsContext *c) {
  TsDevice *null = ts_device_find("null", &c->err);
  real_upload = null->upload, real_download = null->download;
  null->upload = count_upload, null->download = count_download;
  TsTensor *x = vector(c, 100), *y, *z;
  memset(ts_tensor_write(x), 7, 400);
  y = ts_tensor_to(c, x, null->index);
  z = ts_tensor_to(c, x, null->index);
  CHECK(uploads == 1 && downloads == 0); /* the second copy is valid already */
  CHECK(y->meta.device == null->index && null->live == 400);
  CHECK(((char *)ts_tensor_read(y))[5] == 7 && downloads == 0); /* the host's is valid too */
  memset(ts_tensor_write(x), 8, 400);                           /* now only the host's is */
  ts_tensor_unref(z);
  z = ts_tensor_to(c, x, null->index);
  CHECK(uploads == 2);
  z->storage->valid = 1u << null->index; /* as if the device had written */
  CHECK(((char *)ts_tensor_read(z))[5] == 8 && downloads == 1);
  ts_tensor_unref(x);
  ts_tensor_unref(y);
  ts_tensor_unref(z);
  CHECK(null->live == 0 && c->live_bytes == 0);
  null->upload = real_upload, null->download = real_download;
}

static int released;
static void release(void *arg) { released += *(int *)arg; }

static void test_foreign_memory(TsContext *c) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int one = 1;
  TsMeta m = {.dtype = TS_DT_f32, .ndim = 2, .dim = {2, 3}};
  TsTensor *x = ts_tensor_wrap(c, &m, data, release, &one);
  int64_t stride[2] = {1, 3};
  TsMeta t = {.dtype = TS_DT_f32, .ndim = 2, .dim = {3, 2}};
  TsTensor *view = ts_tensor_view(x, &t, stride, 0);
  ts_tensor_unref(x);
  CHECK(released == 0 && !view->contiguous);
  TsTensor *copy = ts_tensor_contiguous(c, view);
  CHECK(ts_tensor_get(copy, 1) == 3.0 && ts_tensor_get(view, 1) == 3.0);
  ts_tensor_unref(view);
  CHECK(released == 1);
  ts_tensor_unref(copy);
}

/* Scratch begins with a line or a page, for each worker. */
static void test_scratch(void) {
  static const int64_t size[] = {0, 1, 100, 4095, 4096, 33280, 532480};
  for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
    TsScratch s;
    uintptr_t align = size[i] < 4096 ? 64 : 4096;
    CHECK(!ts_scratch_open(&s, size[i]) && s.step >= size[i]);
    CHECK((uintptr_t)s.at % align == 0 && (uintptr_t)ts_scratch_part(&s, 1) % align == 0);
    ts_scratch_close(&s);
  }
  CHECK(!ts_work_take(-1));
}

/* What could not be opened may be closed like all else. */
static void test_index(TsContext *c) {
  TsMeta m = {.dtype = TS_DT_i64, .ndim = 1, .dim = {2}};
  TsTensor *in[2] = {vector(c, 4), ts_tensor_new(c, &m)};
  TsCall call = {.ctx = c, .op = TS_OP_index_select, .nin = 2, .in = in};
  TsIndex ix;
  for (int64_t bad = 3; bad <= 4; bad++) {
    int64_t *at = ts_tensor_write(in[1]);
    at[0] = -1, at[1] = bad;
    CHECK((ts_index_open(&call, 1, 0, 4, &ix) != 0) == (bad == 4));
    CHECK(bad == 4 ? !ix.t && !ix.at && !ix.n : ix.n == 2 && ix.at[0] == 3);
    ts_index_close(&ix);
    ts_index_close(&ix);
    ts_error_clear(&c->err);
  }
  ts_tensor_unref(in[0]);
  ts_tensor_unref(in[1]);
}

int main(void) {
  TsContext *c = ts_context_open();
  test_index(c);
  test_sizes(c);
  test_residency(c);
  test_foreign_memory(c);
  test_scratch();
  CHECK(c->live_bytes == 0);
  ts_context_close(c);
  return failures != 0;
}
