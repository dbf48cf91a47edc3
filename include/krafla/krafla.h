/* Krafla: a CPU engine for open-weight language models.
 *
 * Conventions: every status is one of ml_status; ML_OK is 0. The command line programs exit with the
 * status where it is 1..6, and with 1 for all others (see ml_exit_code). */
#ifndef KRAFLA_KRAFLA_H
#define KRAFLA_KRAFLA_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ml_status {
  ML_OK = 0,
  ML_E_ERROR = 1,       /* any error without a status of its own */
  ML_E_ARG = 2,         /* an argument or option outside its range: a usage error */
  ML_E_ISA = 3,         /* the instruction set asked for is unknown or not on this CPU */
  ML_E_IO = 4,          /* a file cannot be opened, read or written */
  ML_E_FORMAT = 5,      /* a file is not what its format's page says */
  ML_E_SHAPE = 6,       /* dimensions that are zero, over the limit, or do not fit together */
  ML_E_MEMORY = 7,      /* not enough memory */
  ML_E_CANCELLED = 8,   /* the caller asked to stop */
  ML_E_UNSUPPORTED = 9, /* a valid input that uses something this build does not do */
  ML_E_NUMERIC = 10,    /* a NaN among the logits: the model's weights are broken */
  ML_E_BUSY = 11        /* too much work waits already: try again later */
} ml_status;

/* The status's name, "ML_E_FORMAT" for instance; "ML_E_?" for an invalid number. Never NULL. */
const char* ml_status_name(ml_status status);

/* The exit code a program ends with for a status: itself up to 6, else 1. */
int ml_exit_code(ml_status status);

#ifdef __cplusplus
}
#endif
#endif
