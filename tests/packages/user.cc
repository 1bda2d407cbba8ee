// SPDX-License-Identifier: Apache-2.0
// Asks the server at argv[1] for its health, and for a call it cannot run; prints the two codes.
#include <iostream>
#include <vector>

#include "base/field_error.h"
#include "client/cpp/bound_operator.h"
#include "client/cpp/client.h"
#include "client/cpp/rnn_stream.h"
#include "client/cpp/session_client.h"
#include "client/cpp/status.h"

int main(int, char** argv) {
  using namespace rnnserve;
  auto client = client::Client::Create(argv[1]);
  if (!client.ok()) return 1;
  OperatorDef rnn;
  rnn.op_type = "RNN";
  rnn.opset = 14;
  const std::vector<float> ones(4, 1.0f);
  const auto result = (*client)->Infer(rnn, {client::MakeTensor("X", {2, 1, 2}, ones)});
  std::cout << (*client)->Health().status().code() << ' ' << result.status().code() << ' '
            << FieldOf(result.status()).value_or("") << '\n';
}
