#include "compute/cuda/libraries.h"

#include <dlfcn.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace soapstone::compute {
namespace {

#define SOAPSTONE_TEXT_OF(x) #x
#define SOAPSTONE_TEXT(x) SOAPSTONE_TEXT_OF(x)

absl::StatusOr<void*> OpenLibrary(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  for (absl::string_view folder : absl::StrSplit(SOAPSTONE_CUDA_LIBRARIES, ':')) {
    library = dlopen(absl::StrCat(folder, "/", file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return library;
  }
  return absl::UnavailableError(
      absl::StrCat("cannot load ", file, " (", dlerror(), "); add its folder to LD_LIBRARY_PATH"));
}

template <typename F>
absl::Status FindFunction(void* library, const char* name, F** function) {
  *function = reinterpret_cast<F*>(dlsym(library, name));
  if (*function != nullptr) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the device's libraries have no ", name, "; a newer version is needed"));
}

absl::StatusOr<const DeviceLibraries*> LoadOnce() {
  static DeviceLibraries libraries;
  SOAP_ASSIGN_OR_RETURN(
      void* const cublas,
      OpenLibrary(absl::StrCat("libcublas.so.", SOAPSTONE_TEXT(CUBLAS_VER_MAJOR))));
  SOAP_ASSIGN_OR_RETURN(void* const cudnn,
                        OpenLibrary(absl::StrCat("libcudnn.so.", SOAPSTONE_TEXT(CUDNN_MAJOR))));
#define SOAPSTONE_FIND_CUBLAS(name) \
  SOAP_RETURN_IF_ERROR(FindFunction(cublas, #name, &libraries.name));
#define SOAPSTONE_FIND_CUDNN(name) \
  SOAP_RETURN_IF_ERROR(FindFunction(cudnn, #name, &libraries.name));
  SOAPSTONE_CUBLAS_FUNCTIONS(SOAPSTONE_FIND_CUBLAS)
  SOAPSTONE_CUDNN_FUNCTIONS(SOAPSTONE_FIND_CUDNN)
  return &libraries;
}

}  // namespace

absl::StatusOr<const DeviceLibraries*> LoadDeviceLibraries() {
  static const auto& loaded = *new absl::StatusOr<const DeviceLibraries*>(LoadOnce());
  return loaded;
}

}  // namespace soapstone::compute
