#include "base/open_in_root.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/process.h"

namespace brink {
namespace {

// The folder is the root of links that begin with a slash, and nothing leads out of it.
TEST(OpenInRoot, LinksMeanTheRootsFiles) {
  testing_support::TempDir dir;
  std::filesystem::create_directories(dir.path() + "/etc");
  std::ofstream(dir.path() + "/etc/name") << "inside";
  std::filesystem::create_symlink("/etc/name", dir.path() + "/absolute");
  std::filesystem::create_symlink("../../../../etc/name", dir.path() + "/upwards");
  std::filesystem::create_symlink("/etc/passwd", dir.path() + "/hosts");
  UniqueFd root(open(dir.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(root.valid());
  for (const char* path : {"/etc/name", "/absolute", "/upwards"}) {
    auto file = OpenInRoot(root.get(), path, O_RDONLY);
    ASSERT_TRUE(file.ok()) << path;
    char text[6];
    EXPECT_EQ(read(file->get(), text, 6), 6) << path;
    EXPECT_EQ(std::string(text, 6), "inside") << path;
  }
  EXPECT_FALSE(OpenInRoot(root.get(), "/hosts", O_RDONLY).ok());
}

}  // namespace
}  // namespace brink
