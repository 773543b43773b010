// Where make_corpus and make_planner_corpus write: a folder for each target.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace soapstone::fuzz {

// As it lies in memory.
template <typename T>
std::string Bytes(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

class Corpus {
 public:
  explicit Corpus(std::string dir) : dir_(std::move(dir)) {}
  void Put(const std::string& target, const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(dir_ + "/" + target);
    std::ofstream(dir_ + "/" + target + "/" + name, std::ios::binary | std::ios::trunc) << bytes;
  }

 private:
  std::string dir_;
};

}  // namespace soapstone::fuzz
