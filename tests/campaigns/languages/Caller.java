// SPDX-License-Identifier: Apache-2.0
// Messages in Java, of a cell that remembers what it is fed; the bytes travel by another's gRPC.
//   request   writes an InferRequest
//   reply     reads an InferResponse and tells Y_h
//   again     reads a StreamRequest and writes it
import com.google.protobuf.ByteString;
import io.github.rnnserve.v1.Attribute;
import io.github.rnnserve.v1.DataType;
import io.github.rnnserve.v1.InferRequest;
import io.github.rnnserve.v1.InferResponse;
import io.github.rnnserve.v1.Operator;
import io.github.rnnserve.v1.StreamRequest;
import io.github.rnnserve.v1.Tensor;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.StringJoiner;

public final class Caller {
  private static final int HIDDEN = 4;

  private static Tensor tensor(String name, long[] shape, float... values) {
    ByteBuffer raw = ByteBuffer.allocate(4 * values.length).order(ByteOrder.LITTLE_ENDIAN);
    for (float value : values) raw.putFloat(value);
    Tensor.Builder tensor = Tensor.newBuilder().setName(name).setDataType(DataType.FLOAT);
    for (long size : shape) tensor.addShape(size);
    return tensor.setRaw(ByteString.copyFrom(raw.array())).build();
  }

  private static Attribute number(float value) {
    return Attribute.newBuilder().setFloats(Attribute.Floats.newBuilder().addValues(value)).build();
  }

  // The state is the last inputs, the newest first: W writes x into slot 0, R moves every slot on by one.
  private static InferRequest request() {
    float[] w = new float[HIDDEN];
    float[] r = new float[HIDDEN * HIDDEN];
    w[0] = 1;
    for (int k = 1; k < HIDDEN; ++k) r[k * HIDDEN + k - 1] = 1;
    Attribute.Strings affine = Attribute.Strings.newBuilder().addValues("Affine").build();
    Operator operator = Operator.newBuilder().setOpType("RNN").setVersion(14)
        .putAttributes("hidden_size", Attribute.newBuilder().setI(HIDDEN).build())
        .putAttributes("activations", Attribute.newBuilder().setStrings(affine).build())
        .putAttributes("activation_alpha", number(1)).putAttributes("activation_beta", number(0)).build();
    return InferRequest.newBuilder().setOperator(operator)
        .addInputs(tensor("W", new long[] {1, HIDDEN, 1}, w)).addInputs(tensor("R", new long[] {1, HIDDEN, HIDDEN}, r))
        .addInputs(tensor("X", new long[] {3, 1, 1}, 1, 2, 3)).build();
  }

  private static String tell(InferResponse reply) {
    StringJoiner said = new StringJoiner(" ", "unary [", "]");
    for (Tensor output : reply.getOutputsList()) {
      if (!output.getName().equals("Y_h")) continue;
      ByteBuffer raw = output.getRaw().asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
      while (raw.hasRemaining()) said.add(String.valueOf((int) raw.getFloat()));
    }
    return said.toString();
  }

  public static void main(String[] arguments) throws Exception {
    switch (arguments[0]) {
      case "request" -> request().writeTo(System.out);
      case "reply" -> System.out.println(tell(InferResponse.parseFrom(System.in)));
      case "again" -> StreamRequest.parseFrom(System.in).writeTo(System.out);
      default -> throw new IllegalArgumentException(arguments[0]);
    }
    System.out.flush();
  }
}
