# Writes OUT, a C++ file with a function for each of ASSETS ("Function=file|..." ) that returns the file's bytes, as HEADER
# declares them in NAMESPACE. Run as a script when a file has changed; soapstone_embed() sees to that.
set(text "// Generated.\n#include \"${HEADER}\"\n\n")
string(APPEND text "namespace ${NAMESPACE} {\n")
string(REPLACE "|" ";" ASSETS "${ASSETS}")
foreach(asset IN LISTS ASSETS)
  string(REGEX MATCH "^([^=]+)=(.+)$" matched "${asset}")
  set(name ${CMAKE_MATCH_1})
  file(READ "${CMAKE_MATCH_2}" bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND text "namespace {\nconstexpr unsigned char k${name}[] = {${bytes}};\n}\n"
    "absl::string_view ${name}() {\n"
    "  return {reinterpret_cast<const char*>(k${name}), sizeof(k${name})};\n}\n")
endforeach()
string(APPEND text "}  // namespace ${NAMESPACE}\n")
file(WRITE "${OUT}" "${text}")
