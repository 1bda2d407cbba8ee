# SPDX-License-Identifier: Apache-2.0
# A caller in Ruby: one unary call and one session over a stream, of a cell that remembers what it is fed.
require "grpc"
require "rnnserve/v1/recurrent_services_pb"
require "rnnserve/v1/sessions_services_pb"

V1 = Rnnserve::V1
HIDDEN = 4

def tensor(name, shape, values)
  V1::Tensor.new(name: name, data_type: :FLOAT, shape: shape, raw: values.pack("e*"))
end

# X of one row.
def steps(*values)
  tensor("X", [values.size, 1, 1], values)
end

def floats(tensors, name)
  tensors.find { |one| one.name == name }.raw.unpack("e*").map(&:to_i)
end

# The state is the last inputs, the newest first: W writes x into slot 0, R moves every slot on by one.
def remembering
  w = [1] + [0] * (HIDDEN - 1)
  r = (0...HIDDEN).flat_map { |to| (0...HIDDEN).map { |from| to == from + 1 ? 1 : 0 } }
  number = ->(value) { V1::Attribute.new(floats: V1::Attribute::Floats.new(values: [value])) }
  operator = V1::Operator.new(op_type: "RNN", version: 14, attributes: {
    "hidden_size" => V1::Attribute.new(i: HIDDEN),
    "activations" => V1::Attribute.new(strings: V1::Attribute::Strings.new(values: ["Affine"])),
    "activation_alpha" => number.call(1), "activation_beta" => number.call(0)
  })
  [operator, [tensor("W", [1, HIDDEN, 1], w), tensor("R", [1, HIDDEN, HIDDEN], r)]]
end

operator, weights = remembering
recurrent = V1::Recurrent::Stub.new(ARGV[0], :this_channel_is_insecure)
sessions = V1::Sessions::Stub.new(ARGV[0], :this_channel_is_insecure)

reply = recurrent.infer(V1::InferRequest.new(operator: operator, inputs: weights + [steps(1, 2, 3)]))
puts "unary [#{floats(reply.outputs, "Y_h").join(" ")}]"

opened = sessions.open(V1::OpenRequest.new(operator: operator, weights: weights, outputs: ["Y_h"]))
requests = Queue.new
answers = recurrent.stream(Enumerator.new { |out| while (one = requests.pop) do out << one end })
[steps(1), steps(2, 3)].each_with_index do |x, k|
  requests << V1::StreamRequest.new(operations: [V1::Operation.new(session: opened.session, number: k + 1,
                                                                     chunk: V1::Chunk.new(inputs: [x]))])
  answer = answers.next.replies[0]
  puts "session #{answer.status.code} [#{floats(answer.outputs, "Y_h").join(" ")}]"
end
requests << nil
