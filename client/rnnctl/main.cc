// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "client/rnnctl/command.h"

int main(int argc, char** argv) {
  return rnnserve::rnnctl::Run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
                               {std::cin, std::cout, std::cerr});
}
