/* The stand-in's settings: whole numbers in the environment. */
#ifndef CUDA_SIM_SETTINGS_H
#define CUDA_SIM_SETTINGS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* `standard`, with a warning on stderr, when the variable is set to anything but a whole number in the range. */
static inline long setting(const char *name, long standard, long min, long max) {
    const char *text = getenv(name);
    if (!text || !*text) return standard;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || end == text || value < min || value > max) {
        fprintf(stderr, "CUDA stand-in: ignoring %s=%s: not a whole number from %ld to %ld; using %ld\n", name, text, min,
                max, standard);
        return standard;
    }
    return value;
}

#endif
