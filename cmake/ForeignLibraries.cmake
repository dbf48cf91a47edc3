# The libraries of a cross build for a foreign CPU. Debian's cross compilers find the headers of header-only
# libraries. GoogleTest is compiled from Debian's source package.
foreach(name IN ITEMS fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11)
  add_library(${name} INTERFACE IMPORTED)
endforeach()
if(KRAFLA_TESTS)
  set(INSTALL_GTEST OFF)
  set(BUILD_GMOCK OFF)
  add_subdirectory(/usr/src/googletest googletest EXCLUDE_FROM_ALL)
endif()
