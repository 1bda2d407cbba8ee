// SPDX-License-Identifier: Apache-2.0
// Runs a whole command against a fake server and catches what it prints; makes files that go away with the test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/rnnctl/command.h"
#include "client/rnnctl/npy.h"
#include "tests/client/cpp/fake_server.h"

namespace rnnserve::rnnctl {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

inline Outcome RunRnnctl(const std::vector<std::string>& words, const std::string& input = "") {
  std::istringstream in(input);
  std::ostringstream out, err;
  const int code = Run(words, {in, out, err});
  return {code, out.str(), err.str()};
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rnnctl_test.XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }
  std::string WriteNpy(const std::string& name, const client::Tensor& tensor) const {
    return Write(name, FormatNpy(tensor));
  }

 private:
  std::string path_;
};

}  // namespace rnnserve::rnnctl
