// Runs the built program as a user does.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace heed::cli::test {

namespace fs = std::filesystem;

// A folder of its own, removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "heed-cli-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] fs::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

inline std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

struct Result {
  int status = -1;
  std::string out, err;
};

struct Setting {
  std::string input = {};                     // of standard input
  std::vector<std::string> environment = {};  // "NAME=value"
  std::string output_file = {};               // standard output goes there; "closed": there is none
  const char* program = HEED_PROGRAM;
  // Sends this signal once standard error holds `when`.
  int signal = 0;
  std::string when = {};
};

inline Result run(std::vector<std::string> arguments, const Setting& setting = {}) {
  const Folder folder;
  const std::string in = folder.write("in", setting.input), out = folder.write("out", ""),
                    err = folder.write("err", "");
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(in.c_str(), O_RDONLY), 0);
    dup2(open(err.c_str(), O_WRONLY | O_APPEND), 2);
    if (setting.output_file == "closed") {  // last: the next file opened would take its place
      close(1);
    } else {
      const std::string& to = setting.output_file.empty() ? out : setting.output_file;
      dup2(open(to.c_str(), O_WRONLY), 1);
    }
    setenv("HEED_NUM_THREADS", "1", 0);  // for work this small, threads would only wait for each other
    for (const std::string& variable : setting.environment) putenv(strdup(variable.c_str()));
    std::vector<char*> argv = {const_cast<char*>(setting.program)};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(setting.program, argv.data());
    _exit(127);
  }
  if (setting.signal != 0) {
    for (int i = 0; i < 3000 && read(err).find(setting.when) == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    kill(child, setting.signal);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), read(out), read(err)};
}

// A program that is talked to while it runs: its standard output (and input, unless a file) are pipes.
class Conversation {
 public:
  explicit Conversation(std::vector<std::string> arguments, const std::string& input_file = {}) {
    if (pipe2(in_, O_CLOEXEC) != 0 || pipe2(out_, O_CLOEXEC) != 0) std::abort();
    const std::string err = folder_.write("err", "");
    child_ = fork();
    if (child_ == 0) {
      dup2(input_file.empty() ? in_[0] : open(input_file.c_str(), O_RDONLY), 0);
      dup2(out_[1], 1);
      dup2(open(err.c_str(), O_WRONLY | O_APPEND), 2);
      std::vector<char*> argv = {const_cast<char*>(HEED_PROGRAM)};
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(HEED_PROGRAM, argv.data());
      _exit(127);
    }
    close(in_[0]);
    close(out_[1]);
  }
  ~Conversation() {
    if (in_[1] >= 0) close(in_[1]);
    if (out_[0] >= 0) close(out_[0]);
  }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  void say(const std::string& text) const {
    if (::write(in_[1], text.data(), text.size()) < 0) std::abort();
  }
  // The next line of standard output, without its end; what is there where the output ends.
  std::string hear() {
    std::string line;
    for (char c; ::read(out_[0], &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  std::string hear_all() {
    std::string text;
    char bytes[4096];
    for (ssize_t count; (count = ::read(out_[0], bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<size_t>(count));
    return text;
  }
  void stop_listening() {
    close(out_[0]);
    out_[0] = -1;
  }
  void signal(int number) const { kill(child_, number); }
  // Its status, as Result has it, and what it wrote to standard error.
  Result end() const {
    int status = 0;
    waitpid(child_, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), "", read(folder_ / "err")};
  }

 private:
  Folder folder_;
  int in_[2] = {}, out_[2] = {};
  pid_t child_ = 0;
};

}  // namespace heed::cli::test
