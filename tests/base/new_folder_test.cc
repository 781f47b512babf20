// A folder's files are written together, or it stays as it was.
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/scratch.h"

namespace heed::files {
namespace {

using test::contents_of;
using test::expect_error;
using test::Scratch;

void write(const Path& file, std::string_view contents) { write_atomically(file, contents, "f"); }

TEST(WriteFolder, PutsAllFilesInTheirPlaces) {
  const Scratch scratch;
  const Path folder = scratch / "new" / "model";
  write_folder(folder, "f", {}, [](const Path& to) {
    write(to / "a", "1");
    std::filesystem::create_directory(to / "inner");
    write(to / "inner" / "b", "2");
  });
  EXPECT_EQ(contents_of(folder / "a"), "1");
  EXPECT_EQ(contents_of(folder / "inner/b"), "2");
  // Once more: what is stale goes, but not what was written again; other files stay.
  for (const char* const name : {"stale", "mine"}) write(folder / name, "old");
  const Path stale[] = {"stale", "a", "never there"};
  write_folder(folder / "", "f", stale, [](const Path& to) { write(to / "a", "3"); });
  EXPECT_EQ(contents_of(folder / "a"), "3");
  EXPECT_EQ(contents_of(folder / "inner/b"), "2");
  EXPECT_EQ(contents_of(folder / "mine"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "stale"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 3);
}

TEST(WriteFolder, ThatFailsLeavesTheFolderAsItWas) {
  const Scratch scratch;
  scratch.file("a", "old");
  scratch.file("stale", "old");
  const Path stale[] = {"stale"};
  const auto fails = [&](const Path& folder) {
    write_folder(folder, "f", stale, [](const Path& to) {
      write(to / "a", "new");
      write(to / "none" / "b", "new");  // its folder is missing
    });
  };
  expect_error([&] { fails(scratch.path()); },
               "\"" + (scratch / "none/b").string() + "\"");  // no word of the new folder
  EXPECT_EQ(contents_of(scratch / "a"), "old");
  EXPECT_EQ(contents_of(scratch / "stale"), "old");
  EXPECT_EQ(scratch.count(), 2);
  // A folder that was made for it goes again, and its parent.
  expect_error([&] { fails(scratch / "x" / "y"); }, (scratch / "x/y/none/b").string());
  EXPECT_EQ(scratch.count(), 2);
  // Where a folder has the name of a file, nothing moves.
  std::filesystem::create_directories(scratch / "z");
  const auto in_the_way = [](const Path& to) {
    write(to / "a", "new");
    write(to / "z", "new");
  };
  expect_error([&] { write_folder(scratch.path(), "f", stale, in_the_way); }, "found a folder");
  EXPECT_EQ(contents_of(scratch / "a"), "old");
  EXPECT_EQ(scratch.count(), 3);
  expect_error([&] { write_folder(scratch / "a", "f", {}, [](const Path&) {}); }, "a folder that can be made");
  EXPECT_EQ(contents_of(scratch / "a"), "old");
}

}  // namespace
}  // namespace heed::files
