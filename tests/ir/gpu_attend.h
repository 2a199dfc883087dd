/* Attention in plain C, in the order of the kernels for GPUs: a block of 128 keys after the other. */
#ifndef TESTS_IR_GPU_ATTEND_H
#define TESTS_IR_GPU_ATTEND_H

#include <math.h>

#include "tests/ir/gpu_roles.h"

/* One query over the blocks so far. */
typedef struct Attended {
  float o[128], l[4], m, x[128];
} Attended;

/* Keys k0 .. k0 + 127 of t, of which the query sees some. */
static void attend(TsDtype dtype, int d, int t, Attended *r, const void *q, const void *k,
                   const void *v, int k0, const bool seen[128], bool first) {
  const float scale = (float)(1 / sqrt(d) * 1.4426950408889634);
  float most = -INFINITY;
  for (int j = 0; j < 128; j++) {
    float s = 0;
    for (int e = 0; e < d && k0 + j < t; e++)
      s = fmaf(get(dtype, q, e), get(dtype, k, (int64_t)(k0 + j) * d + e), s);
    r->x[j] = seen[j] ? s : -INFINITY;
    most = fmaxf(most, r->x[j]);
  }
  most = fmaxf(most, first ? -1e30f : r->m);
  float factor = exp2f((r->m - most) * scale), less = -(most * scale), part[4];
  for (int j = 0; j < 128; j++) r->x[j] = exp2f(fmaf(r->x[j], scale, less));
  for (int q4 = 0; q4 < 4; q4++) {
    part[q4] = r->x[2 * q4] + r->x[2 * q4 + 1];
    for (int j = 8 + 2 * q4; j < 128; j += 8) part[q4] += r->x[j] + r->x[j + 1];
    r->l[q4] = first ? part[q4] : fmaf(r->l[q4], factor, part[q4]);
  }
  for (int e = 0; e < d; e++) {
    float sum = first ? 0 : r->o[e] * factor;
    for (int j = 0; j < 128; j++) {
      float p = get(dtype, (uint16_t[]){narrow(dtype, r->x[j])}, 0);
      float y = k0 + j < t ? get(dtype, v, (int64_t)(k0 + j) * d + e) : 0;
      sum = fmaf(p, y, sum);
    }
    r->o[e] = sum;
  }
  r->m = most;
}

#endif
