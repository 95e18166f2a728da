// Runs a fuzz target over files and folders once: the smoke form for builds without libFuzzer.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void RunOne(const std::filesystem::path& path, int* count) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(content.data()), content.size());
  ++*count;
}

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  LLVMFuzzerTestOneInput(nullptr, 0);
  for (int i = 1; i < argc; ++i) {
    if (std::filesystem::is_directory(argv[i])) {
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) RunOne(entry.path(), &count);
    } else if (argv[i][0] != '-') {
      RunOne(argv[i], &count);
    }
  }
  std::printf("%d passed, 0 failed\n", count);
  return 0;
}
