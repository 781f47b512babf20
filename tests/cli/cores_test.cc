// How the processes of one machine share its cores, for the ways in which mpirun binds them.
#include "cli/cores.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace heed::cli {
namespace {

Cores cores(int begin, int end) {
  Cores made;
  for (int core = begin; core < end; ++core) CPU_SET(core, &made.set);
  return made;
}

TEST(Cores, ProcessesBoundToSocketsShareEach) {
  const Cores first = cores(0, 32), second = cores(32, 64);
  const std::vector<Cores> here = {first, second, first, second};
  EXPECT_EQ(share_of(first, here), 16);
  EXPECT_EQ(share_of(second, here), 16);
  EXPECT_EQ(idle_cores(here, cores(0, 64)), 0);
  const std::vector<Cores> three = {first, second, first};
  EXPECT_EQ(share_of(first, three), 16);
  EXPECT_EQ(share_of(second, three), 32);
}

TEST(Cores, AContainerHasThoseOfItsOwn) {
  const Cores four = cores(12, 16);  // of 64, and nothing is bound
  const std::vector<Cores> here(4, four);
  EXPECT_EQ(share_of(four, here), 1);
  EXPECT_EQ(idle_cores(here, four), 0);
  EXPECT_EQ(share_of(four, std::vector<Cores>(2, four)), 2);
  EXPECT_EQ(share_of(four, std::vector<Cores>(7, four)), 1) << "never none";
  const std::vector<Cores> bound = {cores(12, 13), cores(13, 14)};
  EXPECT_EQ(idle_cores(bound, four), 2) << "not 62";
}

TEST(Cores, BoundToOneCoreLeavesTheOthersIdle) {
  const std::vector<Cores> two = {cores(0, 1), cores(1, 2)};
  EXPECT_EQ(share_of(two[0], two), 1);
  EXPECT_EQ(idle_cores(two, cores(0, 64)), 62);
  EXPECT_EQ(idle_cores(std::vector<Cores>{cores(0, 1)}, cores(0, 64)), 63) << "mpirun -n 1";
  const std::vector<Cores> one_socket(2, cores(0, 32));
  EXPECT_EQ(share_of(one_socket[0], one_socket), 16);
  EXPECT_EQ(idle_cores(one_socket, cores(0, 64)), 32);
}

TEST(Cores, WithoutBindingAllAreShared) {
  const std::vector<Cores> here(4, cores(0, 64));
  EXPECT_EQ(share_of(here[0], here), 16);
  EXPECT_EQ(idle_cores(here, here[0]), 0);
}

TEST(Cores, WhatIsAllowedDoesNotDependOnTheBinding) {
  const Cores allowed = allowed_cores(), before = own_cores();
  std::thread([&] {
    int first = 0;
    while (!CPU_ISSET(first, &before.set)) ++first;
    const Cores one = cores(first, first + 1);
    ASSERT_EQ(sched_setaffinity(0, sizeof one.set, &one.set), 0);
    EXPECT_EQ(own_cores().count(), 1);
    EXPECT_EQ(allowed_cores().count(), allowed.count());
    EXPECT_EQ(own_cores().count(), 1) << "it stays bound";
  }).join();
  const Cores after = own_cores();
  EXPECT_TRUE(CPU_EQUAL(&after.set, &before.set));
}

}  // namespace
}  // namespace heed::cli
