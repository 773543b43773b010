# Whether there is CUDA to build with: the toolkit (nvcc, cuBLAS's header) and cuDNN's header. Sets
# SOAPSTONE_HAS_CUDA, CUDNN_INCLUDE_DIR, CUDA_LIBRARY_DIRS. cuBLAS and cuDNN are loaded at run time,
# the driver by the runtime, which is linked statically: programs start without all of them.

set(SOAPSTONE_CUDA AUTO CACHE STRING "Build for NVIDIA devices: AUTO (where the toolkit is), ON, OFF")
set_property(CACHE SOAPSTONE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(SOAPSTONE_HAS_CUDA OFF)
# Sanitized builds examine the host's code.
if(SOAPSTONE_CUDA STREQUAL "OFF" OR
   (SOAPSTONE_CUDA STREQUAL "AUTO" AND SOAPSTONE_SANITIZE))
  return()
endif()

find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND)
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(CUBLAS_INCLUDE_DIR cublas_v2.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
endif()
if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND NOT DEFINED CMAKE_CUDA_COMPILER)
  # An nvcc that does not work with this host's compiler is none.
  include(CheckLanguage)
  set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
  check_language(CUDA)
endif()
if(CUDAToolkit_FOUND AND CMAKE_CUDA_COMPILER AND CUDNN_INCLUDE_DIR AND CUBLAS_INCLUDE_DIR
   AND TARGET CUDA::cudart_static)
  set(SOAPSTONE_HAS_CUDA ON)
  set(CUDA_LIBRARY_DIRS ${CUDAToolkit_LIBRARY_DIR})
  if(CUDNN_LIBRARY)
    get_filename_component(CUDNN_LIBRARY_DIR ${CUDNN_LIBRARY} DIRECTORY)
    list(PREPEND CUDA_LIBRARY_DIRS ${CUDNN_LIBRARY_DIR})
    list(REMOVE_DUPLICATES CUDA_LIBRARY_DIRS)
  endif()
elseif(SOAPSTONE_CUDA STREQUAL "ON")
  message(FATAL_ERROR "SOAPSTONE_CUDA=ON, but the CUDA toolkit's compiler (${CMAKE_CUDA_COMPILER}), "
    "cuBLAS (${CUBLAS_INCLUDE_DIR}) or cuDNN (${CUDNN_INCLUDE_DIR}) is missing; install them or put "
    "nvcc into PATH")
else()
  message(STATUS "Without the CUDA backend: toolkit, cuBLAS or cuDNN not found")
endif()

if(SOAPSTONE_HAS_CUDA)
  # From Turing on; code for a version runs on later ones of the same first number.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # the static one is linked by its full name
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  enable_language(CUDA)
  # 20 is unknown to CMake 3.25 for nvcc; device code does with 17.
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  # nvcc must not be given these again: it would then look for <math.h> behind <cmath> in vain.
  list(APPEND CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
endif()
