# Compiler settings of the whole tree, and soapstone_library(): one target per folder.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(CCACHE ccache)
if(CCACHE)
  # Paths below the source tree are hashed as relative ones, so that another clone finds them.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=true CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(GTest REQUIRED)
find_package(Protobuf REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED)
# Debian's dnnl-config.cmake asks for the OpenCL development files, which the CPU engine does not
# need; the library and its header are enough.
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
if(NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
endif()
find_package(PkgConfig REQUIRED)
pkg_check_modules(zmq REQUIRED IMPORTED_TARGET libzmq)
# The header is in the compiler's own path. What libzmq's static dependencies need besides changes
# place between the first and the second configuration (a fault of FindPkgConfig with -isystem), by
# which everything would be built twice.
set_target_properties(PkgConfig::zmq PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "" INTERFACE_COMPILE_OPTIONS "")
pkg_check_modules(glog REQUIRED IMPORTED_TARGET libglog)

# Warnings are errors. -ffp-contract=off: a vectorised loop and its scalar tail must round alike,
# so that a parameter's bits do not depend on how tensors are sliced over shards.
set(SOAPSTONE_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${SOAPSTONE_WARNINGS};-ffp-contract=off;-g1>")
add_compile_options($<$<CONFIG:Release>:-O3> $<$<CONFIG:Debug>:-O1>)
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-Wthread-safety)
else()
  # GCC 12 reports moved std::variant members as uninitialised at -O3 (its bug 105562 and kin).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
endif()

set(SOAPSTONE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")
if(SOAPSTONE_SANITIZE)
  add_compile_options(-fsanitize=${SOAPSTONE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SOAPSTONE_SANITIZE})
  # A null is caught when it is followed; there is next to nothing with a vtable. A quarter of the
  # compile time is theirs.
  if(SOAPSTONE_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize=vptr,null)
  endif()
endif()
# Fuzzers see which edges of the code an input takes; the libraries count them (tests/fuzz).
option(SOAPSTONE_FUZZ "Build the libFuzzer programs of tests/fuzz; takes clang" OFF)
if(SOAPSTONE_FUZZ)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()
# Tests' own files: what is compiled there once and runs for a moment is not worth optimising, and
# it is the libraries that are examined for undefined behaviour.
set(SOAPSTONE_TEST_OPTIONS "$<$<CONFIG:Release>:-O1;-g0>" $<$<CONFIG:Debug>:-O0>)
if(SOAPSTONE_SANITIZE MATCHES undefined)
  list(APPEND SOAPSTONE_TEST_OPTIONS -fno-sanitize=undefined)
endif()

# A test is linked in a third of the time. What is dropped are the lines of source, which sanitizers name.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT SOAPSTONE_SANITIZE)
  set(SOAPSTONE_TEST_LINK_OPTIONS -fuse-ld=gold -Wl,--strip-debug)
endif()

# Half the compile time, for builds that are made to be run once; whoever changes a file again and
# again is faster without.
option(SOAPSTONE_UNITY "Compile sixteen files of a target as one, and tests' headers ahead" ON)
# Of what a gradient goes through six: GCC inlines the less the larger a unit is.
set(SOAPSTONE_DATA_PLANE base wire consistency compute transport server worker bench)

include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
include(GoogleTest)
include(SoapstoneCuda)

# What every second file includes: a third of a library's compilation.
if(SOAPSTONE_UNITY)
  add_library(soapstone_headers OBJECT ${CMAKE_SOURCE_DIR}/cmake/headers.cc)
  target_precompile_headers(soapstone_headers PRIVATE <algorithm> <cmath> <cstdint> <functional> <map>
    <memory> <optional> <set> <span> <string> <utility> <vector> <absl/status/statusor.h>
    <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h>
    <absl/time/time.h> <absl/types/span.h> <glog/logging.h>)
endif()

# soapstone_files(NAME FOLDER...): sets NAME_HDRS, NAME_SRCS and NAME_TESTS to the files of these folders, folder by
# folder and by name. For a folder whose files are all of one library: a new file needs no line there.
function(soapstone_files NAME)
  foreach(kind HDRS SRCS TESTS)
    set(${kind} "")
  endforeach()
  foreach(folder IN LISTS ARGN)
    file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${folder}/*.h)
    file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${folder}/*.cc)
    set(tests ${sources})
    list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
    list(FILTER tests INCLUDE REGEX "_test\\.cc$")
    list(APPEND HDRS ${headers})
    list(APPEND SRCS ${sources})
    list(APPEND TESTS ${tests})
  endforeach()
  foreach(kind HDRS SRCS TESTS)
    set(${NAME}_${kind} ${${kind}} PARENT_SCOPE)
  endforeach()
endfunction()

# soapstone_embed(OUT HEADER NAMESPACE Function=file...): OUT is a C++ file, made when one of the files has changed, by
# which the program has them in it: HEADER declares in NAMESPACE a function for each that returns its bytes.
function(soapstone_embed OUT HEADER NAMESPACE)
  list(TRANSFORM ARGN REPLACE "^[^=]+=" "" OUTPUT_VARIABLE files)
  list(JOIN ARGN "|" assets)
  add_custom_command(OUTPUT ${OUT}
    COMMAND ${CMAKE_COMMAND} -D OUT=${OUT} -D HEADER=${HEADER} -D NAMESPACE=${NAMESPACE} -D "ASSETS=${assets}"
      -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${CMAKE_SOURCE_DIR}/cmake/embed.cmake ${files}
    VERBATIM)
endfunction()

# soapstone_library(NAME HDRS ... SRCS ... TESTS ... DEPS ... [LABELS label] [SHARDS n] [OWN_OPTIONS])
# Defines target soapstone_NAME from the folder's files, and one test program NAME_test
# of its TESTS. DEPS are other folders' names (the include edges) or imported targets. OWN_OPTIONS: it is
# compiled by options of its own, for which headers that are compiled ahead do not fit.
function(soapstone_library NAME)
  cmake_parse_arguments(ARG "OWN_OPTIONS" "SHARDS" "HDRS;SRCS;TESTS;DEPS;LABELS" ${ARGN})
  set(links "")
  foreach(dep IN LISTS ARG_DEPS)
    if(TARGET soapstone_${dep})
      list(APPEND links soapstone_${dep})
    else()
      list(APPEND links ${dep})
    endif()
  endforeach()
  if(ARG_SRCS)
    add_library(soapstone_${NAME} STATIC ${ARG_SRCS} ${ARG_HDRS})
    target_link_libraries(soapstone_${NAME} PUBLIC ${links})
    if(SOAPSTONE_UNITY)
      set(batch 16)
      if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NAME IN_LIST SOAPSTONE_DATA_PLANE)
        set(batch 6)
      endif()
      set_target_properties(soapstone_${NAME} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
      if(NOT ARG_OWN_OPTIONS)
        target_precompile_headers(soapstone_${NAME} REUSE_FROM soapstone_headers)
      endif()
    endif()
  else()
    add_library(soapstone_${NAME} INTERFACE)
    target_link_libraries(soapstone_${NAME} INTERFACE ${links})
  endif()
  if(ARG_TESTS)
    if(NOT ARG_LABELS)
      set(ARG_LABELS unit)
    endif()
    soapstone_test(${NAME}_test SRCS ${ARG_TESTS} DEPS soapstone_${NAME} LABELS ${ARG_LABELS}
      SHARDS ${ARG_SHARDS})
  endif()
endfunction()

# Half of a test's compilation is these headers.
if(SOAPSTONE_UNITY)
  add_library(soapstone_test_headers OBJECT ${CMAKE_SOURCE_DIR}/cmake/test_headers.cc)
  target_link_libraries(soapstone_test_headers PRIVATE GTest::gmock GTest::gtest)
  target_compile_definitions(soapstone_test_headers PRIVATE
    SOAPSTONE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" SOAPSTONE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_compile_options(soapstone_test_headers PRIVATE ${SOAPSTONE_TEST_OPTIONS})
  target_precompile_headers(soapstone_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
endif()

# All test programs but those with real processes and the explorers; and of these all but those with
# values in their label: what ./check tests sanitized (its first lines say why).
add_custom_target(quick_tests)
add_custom_target(memory_tests)

# soapstone_test(NAME SRCS ... DEPS ... LABELS label [TIMEOUT s] [COST s] [SERIAL] [SHARDS n] [CI filter])
# CI: tests that only ./check --ci runs, as --gtest_filter names them. COST: of its longest test, about; where there are cores to choose from the dear ones start first.
# SHARDS: its tests run in so many processes, not in one each, and are counted by what these write
# (junit_counts.py): of thousands of tests that take no time, starting the processes would be all.
function(soapstone_test NAME)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT;COST;SHARDS;CI" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 0)
  endif()
  add_executable(${NAME} ${ARG_SRCS})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_link_options(${NAME} PRIVATE ${SOAPSTONE_TEST_LINK_OPTIONS})
  if(ARG_LABELS MATCHES slow)
    # The explorer is a template, and runs for minutes: it is compiled as a library is.
  elseif(TARGET soapstone_test_headers)
    set_target_properties(${NAME} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    target_precompile_headers(${NAME} REUSE_FROM soapstone_test_headers)
    # GCC 12 says that strings overflow or overlap which do not (its bug 105329), and that free() does
    # not go with an operator new that calls it. Sanitized builds have more of that kind.
    target_compile_options(${NAME} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict
      -Wno-mismatched-new-delete
      $<$<NOT:$<CONFIG:Release>>:-Wno-error>)
  endif()
  if(NOT ARG_LABELS MATCHES slow)
    target_compile_options(${NAME} PRIVATE ${SOAPSTONE_TEST_OPTIONS})
  endif()
  target_compile_definitions(${NAME} PRIVATE
    SOAPSTONE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" SOAPSTONE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  set(more "")
  if(ARG_SERIAL)
    list(APPEND more RUN_SERIAL TRUE)
  endif()
  if(ARG_LABELS MATCHES slow)
    # An explorer copies worlds of small objects: with all of them in glibc's per-thread cache it
    # takes 0.6 of the time.
    list(APPEND more ENVIRONMENT GLIBC_TUNABLES=glibc.malloc.tcache_count=65000:glibc.malloc.mxfast=0)
  endif()
  if(NOT ARG_LABELS MATCHES "slow|cluster")
    add_dependencies(quick_tests ${NAME})
    if(NOT ARG_LABELS MATCHES "values")
      add_dependencies(memory_tests ${NAME})
    endif()
  endif()
  if(NOT ARG_SHARDS)
    set(everyday "")
    if(ARG_CI)
      set(everyday TEST_FILTER "-${ARG_CI}")
      gtest_discover_tests(${NAME} TEST_FILTER "${ARG_CI}" TEST_LIST ${NAME}_ci DISCOVERY_TIMEOUT 600 PROPERTIES
        LABELS "ci-${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} ${more})
    endif()
    gtest_discover_tests(${NAME} ${everyday} DISCOVERY_TIMEOUT 600 PROPERTIES
      LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} ${more})
    return()
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(test ${NAME}.shard_${shard})
    add_test(NAME ${test} COMMAND ${NAME} --gtest_brief=1
      --gtest_output=xml:${CMAKE_BINARY_DIR}/shards/${test}.xml)
    set_tests_properties(${test} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600 COST 60
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()
