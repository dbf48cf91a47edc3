# Flags for every target, and krafla_library(): one static library per folder of src/.

add_library(krafla_flags INTERFACE)
# The arithmetic contract (docs/arithmetic.md) rounds every multiply and add by itself.
target_compile_options(krafla_flags INTERFACE -ffp-contract=off -fno-math-errno
  -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wvla -Wnon-virtual-dtor -Werror
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)  # libstdc++ 12's own std::stable_sort
target_include_directories(krafla_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
if(CMAKE_SIZEOF_VOID_P EQUAL 4)
  # Files of 2 GB and more can be opened, so that they are refused with a clear message.
  target_compile_definitions(krafla_flags INTERFACE _FILE_OFFSET_BITS=64)
  target_compile_options(krafla_flags INTERFACE -Wno-psabi)  # no notes on an old change of the ABI
endif()
if(KRAFLA_SANITIZE)
  target_compile_options(krafla_flags INTERFACE
    -fsanitize=${KRAFLA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(krafla_flags INTERFACE -fsanitize=${KRAFLA_SANITIZE})
  if(NOT KRAFLA_FUZZ)
    set(KRAFLA_UNHURRIED -O0)  # for code that takes longer to compile with sanitizers than to run
  endif()
endif()

# krafla_library(NAME [folders it may include ...]): a static library krafla_NAME of all sources in this
# folder and its subfolders. tools/check_includes.py checks the includes against the same list.
function(krafla_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(krafla_${name} STATIC ${sources})
  target_link_libraries(krafla_${name} PUBLIC krafla_flags)
  foreach(dependency IN LISTS ARGN)
    target_link_libraries(krafla_${name} PUBLIC krafla_${dependency})
  endforeach()
endfunction()
