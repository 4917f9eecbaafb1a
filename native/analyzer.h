/*
 * analyzer.h - what clang-tidy is told about functions of other files.
 *
 * The analyzer looks at one file at a time and would otherwise consider that an
 * error setter returns 0, and report paths that cannot be. Included by the lint
 * stage of scripts/test.sh in front of every source but core/error.c; never
 * compiled.
 */
#ifndef AE_ANALYZER_H
#define AE_ANALYZER_H

#include "core/error.h"

#define ae_error_set(err, code, ...)          (ae_error_set((err), (code), __VA_ARGS__), (code))
#define ae_error_at(err, code, position, ...) (ae_error_at((err), (code), (position), __VA_ARGS__), (code))
#define ae_error_os(err, ...)                 (ae_error_os((err), __VA_ARGS__), AETHER_E_IO)

#endif
