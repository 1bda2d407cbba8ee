// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "tests/engine/coverage/coverage_document.h"

int main() { std::cout << rnnserve::CoverageDocument(); }
