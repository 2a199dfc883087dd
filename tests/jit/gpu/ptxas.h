/* What tests of PTX share: ptxas, where it is installed, and the printing of one case. */
#ifndef TESTS_JIT_GPU_PTXAS_H
#define TESTS_JIT_GPU_PTXAS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jit/gpu/roles.h"
#include "tests/jit/gpu/cubin.h"
#include "tests/skip.h"

/* Asked once by a test. */
static inline bool has_ptxas(void) {
  bool has = !system("ptxas --version > /dev/null 2>&1");
  if (!has) skip("no ptxas: PTX is made, not assembled");
  return has;
}

typedef struct Assembled {
  int spills, registers; /* bytes; spills -1: ptxas did not say */
  char complaint[512];   /* "" if it is right; serialised products and late reads are wrong */
} Assembled;

static inline Assembled assemble(const TsText *ptx, const char *target) {
  Assembled a = {.spills = -1};
  char path[64] = "/tmp/tessera-ptx-XXXXXX", code[80], command[256], line[512];
  int fd = mkstemp(path);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (!f) return strcpy(a.complaint, "no temporary file"), a;
  fwrite(ptx->at, 1, ptx->len, f);
  fclose(f);
  snprintf(code, sizeof code, "%s.cubin", path);
  snprintf(command, sizeof command, "ptxas -v -arch=%s %s -o %s 2>&1", target, path, code);
  FILE *out = popen(command, "r");
  while (out && fgets(line, sizeof line, out)) {
    char *at = strstr(line, "bytes spill stores");
    if (at) {
      while (at > line && at[-1] != ',') at--;
      a.spills = atoi(at);
    }
    if ((at = strstr(line, "Used "))) a.registers = atoi(at + 5);
    if (strstr(line, "(C75") || strstr(line, "error")) strcpy(a.complaint, line);
  }
  if ((!out || pclose(out)) && !*a.complaint) strcpy(a.complaint, "not assembled");
  if (!*a.complaint) late_reads(code, a.complaint, sizeof a.complaint);
  unlink(path), unlink(code);
  return a;
}

/* Says what is wrong of a case, and all of it where PTXAS is set; gives how much was wrong. */
static inline int judge(const TsText *ptx, const char *target, int spills, const void *of,
                        void (*say)(const void *of, const char *what)) {
  Assembled a = assemble(ptx, target);
  char line[100];
  snprintf(line, sizeof line, "%d bytes spilled, %d registers, %zu bytes of PTX", a.spills,
           a.registers, ptx->len);
  bool complains = *a.complaint, spilled = a.spills > spills;
  if (complains) say(of, a.complaint);
  if (spilled || getenv("PTXAS")) say(of, line);
  return complains + spilled;
}

/* The PTX of k, with nmap views of tensor maps, judged where there is ptxas; frees k. Gives how
 * much was wrong. */
static inline int judge_kernel(TsTile *k, int nmap, int spills, bool ptxas, const void *of,
                               void (*say)(const void *of, const char *what)) {
  TsError err = {0};
  TsGpuRoles info;
  TsText ptx = {0};
  int wrong = 0;
  if (ts_gpu_roles_text(k, false, &info, &ptx, &err))
    wrong++, say(of, err.message);
  else if (info.shared > 232448 || info.threads != k->threads || info.nmap != nmap)
    wrong++, say(of, "not the kernel that was asked for");
  else if (ptxas)
    wrong += judge(&ptx, k->target, spills, of, say);
  ts_text_free(&ptx);
  ts_tile_free(k);
  return wrong;
}

static inline void print_code(const TsTile *k, bool llvm) {
  TsError err = {0};
  TsGpuRoles info;
  TsText text = {0};
  puts(ts_gpu_roles_text(k, llvm, &info, &text, &err) ? err.message : text.at);
  ts_text_free(&text);
}

#endif
