#include "base/error.h"

extern "C" const char* ml_status_name(ml_status status) {
  switch (status) {
    case ML_OK: return "ML_OK";
    case ML_E_ERROR: return "ML_E_ERROR";
    case ML_E_ARG: return "ML_E_ARG";
    case ML_E_ISA: return "ML_E_ISA";
    case ML_E_IO: return "ML_E_IO";
    case ML_E_FORMAT: return "ML_E_FORMAT";
    case ML_E_SHAPE: return "ML_E_SHAPE";
    case ML_E_MEMORY: return "ML_E_MEMORY";
    case ML_E_CANCELLED: return "ML_E_CANCELLED";
    case ML_E_UNSUPPORTED: return "ML_E_UNSUPPORTED";
    case ML_E_NUMERIC: return "ML_E_NUMERIC";
    case ML_E_BUSY: return "ML_E_BUSY";
  }
  return "ML_E_?";
}

extern "C" int ml_exit_code(ml_status status) {
  return status <= ML_E_SHAPE ? static_cast<int>(status) : static_cast<int>(ML_E_ERROR);
}
